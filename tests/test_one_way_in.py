"""The command line, fit, Run and GSSCClassifier are one pipeline: the same graph and seed give the same model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from gssc import GSSCClassifier, Run, fit, import_tables, parse_config
from gssc.cli.main import main
from gssc.data import csbm
from gssc.graph import Graph

pytestmark = pytest.mark.usefixtures("short_students")
SETTINGS = {"model": {"hidden": 8}, "teachers": {"trees": False, "pairs": "never", "rounds": 1}}


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Labels of training and validation nodes alone; rows to predict come later, as the classifier has it."""
    made = csbm(nodes=60, degree=4, classes=3, per_class=5, seed=2)
    known = np.concatenate([made.train, made.val[:9]])
    labels = np.full(made.num_nodes, -1)
    labels[known] = made.labels[known]
    parts = {"train": made.train, "val": made.val[:9], "setting": "inductive", "class_names": tuple("012")}
    return Graph(made.features, made.edges, labels, **parts)


def bytes_of(*folders: Path) -> set[bytes]:
    return {(folder / "model.safetensors").read_bytes() for folder in folders}


def test_four_ways_to_one_model(graph: Graph, tmp_path: Path) -> None:
    graph.save(tmp_path / "graph.npz")
    config = parse_config(SETTINGS, {"train": {"seed": 3}})
    options = [f"--{section}.{name}={value}" for section, part in SETTINGS.items() for name, value in part.items()]
    place = ["--graph", str(tmp_path / "graph.npz"), "--out", str(tmp_path / "command")]
    assert main(["train", *place, "--seed", "3", *options]) == 0
    Run(tmp_path / "run", config, graph).train()
    fit(graph, config).deployed().save(tmp_path / "fit")
    classifier = GSSCClassifier(config=SETTINGS, random_state=3)
    classifier.fit(graph.features, graph.labels, edge_index=graph.edges, validation=graph.val)
    classifier.save(tmp_path / "classifier")

    folders = [tmp_path / name for name in ("command", "run", "fit", "classifier")]
    assert len(bytes_of(*folders)) == 1
    described = [json.loads((folder / "model.json").read_text()) for folder in folders]
    for name in ("temperature", "activation", "normalize", "class_names"):
        assert len({json.dumps(each[name]) for each in described}) == 1, name


def test_balanced_weights_are_one_setting(graph: Graph, tmp_path: Path) -> None:
    classes = graph.labels[graph.train]
    uneven = graph.with_(train=np.concatenate([graph.train[classes < 2], graph.train[classes == 2][:2]]))
    config = parse_config(SETTINGS, {"train": {"seed": 3, "class_weight": "balanced"}})
    fit(uneven, config).deployed().save(tmp_path / "fit")
    labels = np.full(uneven.num_nodes, -1)
    labels[uneven.train], labels[uneven.val] = uneven.labels[uneven.train], uneven.labels[uneven.val]
    classifier = GSSCClassifier(class_weight="balanced", config=SETTINGS, random_state=3)
    classifier.fit(uneven.features, labels, edge_index=uneven.edges, validation=uneven.val)
    classifier.save(tmp_path / "classifier")
    assert len(bytes_of(tmp_path / "fit", tmp_path / "classifier")) == 1


def test_one_set_of_defaults() -> None:
    usual = parse_config()
    settings = GSSCClassifier()._settings(np.random.RandomState(0))
    settings.train.seed = usual.train.seed
    assert settings == usual


@pytest.mark.parametrize("kind", ["pixels", "words", "unlike scales"])
def test_a_table_without_edges_has_the_same_graph_everywhere(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = {
        "pixels": rng.random((40, 6)) * np.array([1.0, 1.0, 1.0, 0.2, 0.2, 0.2]),
        "words": (rng.random((40, 60)) < 0.05) * rng.integers(1, 9, (40, 60)).astype(float),
        "unlike scales": rng.random((40, 6)) * np.logspace(-3, 3, 6),
    }[kind].astype(np.float32)
    names = [f"c{column}" for column in range(table.shape[1])]
    lines = [",".join([*names, "label"]), *(",".join([*map(str, row), "ab"[i % 2]]) for i, row in enumerate(table))]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    imported = import_tables(tmp_path / "table.csv", n_neighbors=3)
    classifier = GSSCClassifier(n_neighbors=3, config=SETTINGS).fit(table, np.arange(40) % 2)
    np.testing.assert_array_equal(imported.edges, classifier.edge_index_)
