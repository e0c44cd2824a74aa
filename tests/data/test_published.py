"""The published datasets, in the folder that GSSC_DATA_ROOT names: sizes and splits as published."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.data import DATASETS, load_dataset
from gssc.data.fetch import at_hand
from gssc.errors import GsscError

ROOT = os.environ.get("GSSC_DATA_ROOT")
SPLIT_SIZES = {
    "cora": (140, 500, 1000),
    "citeseer": (120, 500, 1000),
    "coauthor-cs": (300, 500, 1000),
    "coauthor-physics": (100, 500, 1000),
    "actor": (100, 500, 1000),
    "squirrel": (1053, 718, 452),
    "chameleon": (409, 287, 194),
    "deezer-europe": (14140, 7070, 7071),
    "ogbn-arxiv": (90941, 29799, 48603),
    "ogbn-proteins": (86619, 21236, 24679),
}


def needs(name: str) -> None:
    if not ROOT:
        pytest.skip("GSSC_DATA_ROOT is not set")
    paths, files = at_hand(DATASETS[name], Path(ROOT))
    if any(file.name not in paths and not file.optional for file in files):
        pytest.skip(f"{name} is not in GSSC_DATA_ROOT")


@pytest.mark.parametrize("name", SPLIT_SIZES)
def test_sizes_as_published(name: str) -> None:
    needs(name)
    options = {"features": "random:128"} if name == "ogbn-arxiv" else {}
    graph = load_dataset(name, **options)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == DATASETS[name].sizes
    assert (len(graph.train), len(graph.val), len(graph.test)) == SPLIT_SIZES[name]
    assert graph.notes == ()
    assert graph.split == DATASETS[name].default_split


@pytest.mark.parametrize("name", ["coauthor-cs", "coauthor-physics", "actor", "cora", "citeseer"])
def test_twenty_labels_per_class(name: str) -> None:
    needs(name)
    graph = load_dataset(name)
    assert set(np.bincount(graph.labels[graph.train]).tolist()) == {20}


def test_known_homophily() -> None:
    needs("cora")
    assert load_dataset("cora").homophily() == pytest.approx(0.81, abs=0.001)


def test_citeseer_keeps_its_missing_nodes() -> None:
    needs("citeseer")
    graph = load_dataset("citeseer")
    assert isinstance(graph.features, sp.csr_matrix)
    empty = np.flatnonzero(np.diff(graph.features.indptr) == 0)
    assert len(empty) == 15
    assert (graph.labels[empty] == -1).all()
    assert not np.isin(empty, np.concatenate([graph.train, graph.val, graph.test])).any()
    assert graph.num_nodes - len(np.unique(graph.edges)) == 48


def test_actor_has_two_protocols() -> None:
    needs("actor")
    fixed = load_dataset("actor", split="fixed-3")
    assert fixed.split == "fixed-3"
    assert len(fixed.train) / 7600 == pytest.approx(0.48, abs=0.01)
    seeded = load_dataset("actor", split="per-class:20", seed=4)
    assert (seeded.split, len(seeded.train)) == ("20-per-class seed=4", 100)
    with pytest.raises(GsscError, match=r"no split 'fixed-10': it offers authors, fixed-0 to fixed-9"):
        load_dataset("actor", split="fixed-10")


def test_deezer_has_empty_rows() -> None:
    needs("deezer-europe")
    graph = load_dataset("deezer-europe", split="fixed-4")
    assert isinstance(graph.features, sp.csr_matrix)
    assert int((np.diff(graph.features.indptr) == 0).sum()) == 6159
    assert set(np.unique(graph.features.data).tolist()) == {1.0}


def test_coauthor_is_raw_and_named() -> None:
    needs("coauthor-cs")
    graph = load_dataset("coauthor-cs", setting="inductive")
    assert graph.class_names is not None
    assert graph.class_names[0] == "bioinformatics"
    assert graph.features.data.max() > 1  # counts, neither binary nor normalised
    view, ids = graph.training_view()
    assert view.num_nodes == len(ids) == graph.num_nodes - 1000


def test_arxiv_without_features_says_where_to_put_them() -> None:
    needs("ogbn-arxiv")
    with pytest.raises(GsscError, match=r"put arxiv\.zip .*features='random:128'"):
        load_dataset("ogbn-arxiv")
    assert load_dataset("ogbn-arxiv", features="random:4").name == "ogbn-arxiv (random:4)"
