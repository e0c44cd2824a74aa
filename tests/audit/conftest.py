"""A graph of two communities, a model for it, and a run folder that holds both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from gssc.config import ContrastConfig
from gssc.deploy import DeployedModel
from gssc.graph import Graph

SIZE = 30  # nodes of a community


@pytest.fixture
def graph() -> Graph:
    """Two communities of 30 nodes, each a ring with chords; features tell them apart; ten labels each."""
    rng = np.random.default_rng(0)
    community = np.repeat([0, 1], SIZE)
    features = rng.random((2 * SIZE, 6)).astype(np.float32) * 0.5
    features[np.arange(2 * SIZE), community] += 2
    node = np.arange(SIZE)
    ring = np.concatenate([np.stack([node, (node + step) % SIZE]) for step in (1, 2, 3)], axis=1)
    edges = np.concatenate([ring, ring + SIZE], axis=1)
    train = np.concatenate([node[:10], node[:10] + SIZE])
    return Graph(
        features,
        edges,
        labels=np.array(["left", "right"])[community],
        train=train,
        val=[12, 42],
        test=[15, 45],
        name="two communities",
        feature_names=[f"f{column}" for column in range(6)],
    )


@pytest.fixture
def judge() -> DeployedModel:
    """Tells the communities apart by their first two features, with a hidden layer of two."""
    hidden = np.zeros((2, 6), dtype=np.float32)
    hidden[0, 0] = hidden[1, 1] = 1
    names = [f"f{column}" for column in range(6)]
    layers = [(hidden, np.zeros(2)), (np.eye(2) * 3, np.zeros(2))]
    return DeployedModel(layers, ["left", "right"], feature_names=names)


@pytest.fixture
def make_run(tmp_path: Path):
    """Write a run folder as training leaves it: config, model, edges with a keep probability."""

    def make(graph: Graph, judge: DeployedModel, keep: np.ndarray | None = None) -> Path:
        folder = tmp_path / "run"
        judge.save(folder)
        graph.save(tmp_path / "graph.npz")
        config = ContrastConfig()
        config.data.graph = str(tmp_path / "graph.npz")
        (folder / "config.yaml").write_text(yaml.safe_dump(config.to_dict()))
        keep = np.full(graph.num_edges, 0.9) if keep is None else keep
        np.savez(folder / "edges.npz", edge_index=graph.edges, keep_probability=keep)
        return folder

    return make
