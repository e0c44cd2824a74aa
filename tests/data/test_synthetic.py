"""Digits and the contextual block model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gssc.data import csbm, digits, load_dataset
from gssc.data.synthetic import nearest_neighbour_edges
from gssc.errors import GsscError


def test_nearest_neighbours_by_hand() -> None:
    # On a line at 0, 1, 3, 10: nearest are 1, 0, 1 and 2.
    line = np.array([[0.0], [1.0], [3.0], [10.0]], dtype=np.float32)
    assert nearest_neighbour_edges(line, 1).tolist() == [[0, 1, 2], [1, 2, 3]]


def test_digits() -> None:
    pytest.importorskip("sklearn")
    graph = digits()
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert (len(graph.train), len(graph.val), len(graph.test)) == (50, 300, 1447)
    assert np.bincount(graph.labels[graph.train]).tolist() == [5] * 10
    assert np.asarray(graph.features).max() == 1.0
    assert np.bincount(graph.edges.ravel()).min() >= 8
    assert graph.homophily() > 0.95
    assert graph.split == "5-per-class seed=0"
    other = load_dataset("digits", seed=1, per_class=3)
    assert other.split == "3-per-class seed=1"
    np.testing.assert_array_equal(other.edges, graph.edges)
    assert load_dataset("digits", split="ratio:1/1/1").split == "ratio 1/1/1 seed=0"
    with pytest.raises(GsscError, match="k from 1 to"):
        digits(k=0)


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9, 1.0])
def test_csbm_is_what_was_asked_for(homophily: float) -> None:
    graph = csbm(nodes=3000, degree=12, classes=4, homophily=homophily, signal=2.0, features=16, seed=7)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (3000, 18000, 16, 4)
    assert graph.homophily() == pytest.approx(homophily, abs=0.015)
    assert graph.cleaning.summary() == "nothing to clean"
    assert np.bincount(graph.labels).tolist() == [750] * 4
    means = np.stack([np.asarray(graph.features)[graph.labels == c].mean(axis=0) for c in range(4)])
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 2.0, atol=0.2)


def test_csbm_seed_decides_everything() -> None:
    one, same, other = csbm(seed=1), load_dataset("csbm", seed=1), csbm(seed=2)
    for field in ("features", "edges", "labels", "train", "val", "test"):
        np.testing.assert_array_equal(getattr(one, field), getattr(same, field))
    assert not np.array_equal(one.features, other.features)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homophily": 1.5}, "from 0 to 1"),
        ({"nodes": 5}, "two nodes per class"),
        ({"degree": 500.0}, "at most"),
        ({"signal": float("nan")}, "finite"),
        ({"classes": 1}, "1 with a single class"),
        ({"nodes": "many"}, "nodes must be a whole number, not 'many'"),
        ({"features": 2.5}, "features must be a whole number"),
        ({"degree": "x"}, "degree must be a number"),
        ({"seed": -1}, "seed -1 must be a whole number"),
    ],
)
def test_csbm_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GsscError, match=message):
        csbm(**options)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(GsscError, match="did you mean 'cora'"):
        load_dataset("corra")
    with pytest.raises(GsscError, match="did you mean 'coauthor-cs'"):
        load_dataset("Coauthor_CS")
    with pytest.raises(GsscError, match="did you mean 'nodes'"):
        load_dataset("csbm", node=10)
    with pytest.raises(GsscError, match="no split 'public'"):
        load_dataset("csbm", split="public")
