"""The MLP with its default settings, on features for which it was not tuned."""

from __future__ import annotations

import numpy as np
import pytest

from gssc.graph import Graph
from gssc.recipes import config_for
from gssc.result import fit

NODES, CLASSES = 500, 4


def table(kind: str) -> Graph:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, NODES)
    if kind == "measurements on unlike scales":
        features = rng.standard_normal((CLASSES, 20))[labels] + rng.standard_normal((NODES, 20))
        features = features * 10.0 ** rng.uniform(-3, 3, 20) + 50
    else:
        chances = np.clip(rng.beta(2, 3.5, 100) + rng.normal(0, 0.15, (CLASSES, 100)), 0.01, 0.99)
        features = rng.random((NODES, 100)) < chances[labels]
    first = np.concatenate([np.flatnonzero(labels == label)[:20] for label in range(CLASSES)])
    rest = np.setdiff1d(np.arange(NODES), first)
    edges = np.stack([np.arange(NODES - 1), np.arange(1, NODES)])
    return Graph(features.astype(np.float32), edges, labels, first, rest[:100], rest[100:], name="mine")


@pytest.mark.parametrize("kind", ["measurements on unlike scales", "words that a third of all rows have"])
def test_it_is_no_worse_than_logistic_regression(kind: str) -> None:
    linear = pytest.importorskip("sklearn.linear_model").LogisticRegression(max_iter=1000)
    graph = table(kind)
    scaled = (graph.features - graph.features.mean(0)) / graph.features.std(0)
    reached = linear.fit(scaled[graph.train], graph.labels[graph.train]).score(
        scaled[graph.test], graph.labels[graph.test]
    )
    assert reached > 0.8
    assert fit(graph, config_for("mlp", "mine", "")).test_score > reached - 0.03
