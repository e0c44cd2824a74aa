"""The command line, fit, Run and GSSCClassifier are one pipeline: the same graph and seed give the same model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from gssc import GSSCClassifier, Run, fit, parse_config
from gssc.cli.main import main
from gssc.data import csbm
from gssc.graph import Graph

SETTINGS = {"model": {"hidden": 8}, "teachers": {"trees": False, "pairs": "never", "rounds": 1}}


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Labels of training and validation nodes alone; rows to predict come later, as the classifier has it."""
    made = csbm(nodes=60, degree=4, classes=3, per_class=5, seed=2)
    known = np.concatenate([made.train, made.val[:9]])
    labels = np.full(made.num_nodes, -1)
    labels[known] = made.labels[known]
    names = tuple("012")
    parts = {"train": made.train, "val": made.val[:9], "setting": "inductive"}
    return Graph(made.features, made.edges, labels, **parts, class_names=names)


@pytest.mark.parametrize("balanced", [False, True])
def test_four_ways_to_one_model(graph: Graph, balanced: bool, tmp_path: Path) -> None:
    graph.save(tmp_path / "graph.npz")
    weights = {"class_weight": "balanced" if balanced else "none"}
    config = parse_config(SETTINGS, {"train": {"seed": 3, **weights}})
    options = [f"--{section}.{name}={value}" for section, part in SETTINGS.items() for name, value in part.items()]
    options += ["--seed", "3", f"--train.class_weight={weights['class_weight']}"]
    assert main(["train", "--graph", str(tmp_path / "graph.npz"), "--out", str(tmp_path / "command"), *options]) == 0
    Run(tmp_path / "run", config, graph).train()
    fit(graph, config).deployed().save(tmp_path / "fit")
    classifier = GSSCClassifier(class_weight="balanced" if balanced else None, config=SETTINGS, random_state=3)
    classifier.fit(graph.features, graph.labels, edge_index=graph.edges, validation=graph.val)
    classifier.save(tmp_path / "classifier")

    folders = [tmp_path / name for name in ("command", "run", "fit", "classifier")]
    assert len({(folder / "model.safetensors").read_bytes() for folder in folders}) == 1
    described = [json.loads((folder / "model.json").read_text()) for folder in folders]
    for name in ("temperature", "activation", "normalize", "class_names"):
        assert len({json.dumps(each[name]) for each in described}) == 1, name


def test_one_set_of_defaults() -> None:
    usual = parse_config()
    settings = GSSCClassifier()._settings(np.random.RandomState(0))
    settings.train.seed = usual.train.seed
    assert settings == usual
