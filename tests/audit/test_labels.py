from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.audit.labels import doubt_labels, doubt_targets, neighbours_mean
from gssc.graph import Graph
from gssc.trust.pairs import adjacency_of
from gssc.trust.sketch import feature_sketch


def test_flipped_labels_come_first(graph: Graph, judge) -> None:
    labels = graph.labels[graph.train].copy()
    labels[[3, 15]] = 1 - labels[[3, 15]]
    probabilities = judge.predict_proba(graph.features)
    ranking = doubt_labels(graph.train, labels, adjacency_of(graph), feature_sketch(graph.features), probabilities)
    assert set(ranking.nodes[:2, 0].tolist()) == {3, 35}
    assert ranking.score[1] > 0.5 > ranking.score[2]
    assert (ranking.evidence["suggested"] == 1 - ranking.evidence["label"]).all()
    assert len(ranking) == 20


def test_predictions_of_labelled_nodes_are_not_used(graph: Graph, judge) -> None:
    labels, sketch = graph.labels[graph.train], feature_sketch(graph.features)
    honest = judge.predict_proba(graph.features)
    memorised = honest.copy()
    memorised[graph.train] = 0.5
    scores = [
        doubt_labels(graph.train, labels, adjacency_of(graph), sketch, probabilities)
        for probabilities in (honest, memorised)
    ]
    np.testing.assert_array_equal(scores[0].score, scores[1].score)
    assert (scores[1].evidence["model"] == 0.5).all()


def test_witnesses_are_evidence_and_are_not_ranked(graph: Graph, judge) -> None:
    """Right labels of other nodes help to find wrong ones."""
    probabilities, adjacency = judge.predict_proba(graph.features), adjacency_of(graph)
    sketch, labels = feature_sketch(graph.features), graph.labels[graph.train].copy()
    labels[[3, 15]] = 1 - labels[[3, 15]]
    others = np.setdiff1d(np.arange(graph.num_nodes), graph.train)
    alone = doubt_labels(graph.train, labels, adjacency, sketch, probabilities)
    helped = doubt_labels(graph.train, labels, adjacency, sketch, probabilities, (others, graph.labels[others]))
    assert sorted(helped.nodes[:, 0]) == sorted(graph.train)
    assert set(helped.nodes[:2, 0].tolist()) == {3, 35}
    assert helped.evidence["regression"][:2].max() < alone.evidence["regression"][:2].max()


def test_every_node_labelled_leaves_two_opinions(graph: Graph, judge) -> None:
    probabilities = judge.predict_proba(graph.features)
    sketch = feature_sketch(graph.features)
    nodes = np.arange(graph.num_nodes)
    ranking = doubt_labels(nodes, graph.labels, adjacency_of(graph), sketch, probabilities)
    assert "model_classes" not in ranking.evidence
    given = np.array([ranking.evidence[name] for name in ("held_out", "regression")])
    right, wrong = (np.exp(np.log(np.maximum(side, 1e-9)).mean(axis=0)) for side in (given, 1 - given))
    np.testing.assert_allclose(ranking.score, wrong / (right + wrong), rtol=1e-6)


def test_neighbours_mean_by_hand() -> None:
    adjacency = sp.csr_matrix(np.array([[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32))
    values = np.array([[1.0, 0], [0.5, 0.5], [0, 1], [0.5, 0.5]])
    found = neighbours_mean(values, adjacency, np.array([0, 1, 3]))
    np.testing.assert_allclose(found, [[0.25, 0.75], [1, 0], [0.5, 0.5]])


def test_targets_by_hand() -> None:
    adjacency = sp.csr_matrix(np.array([[0, 1], [1, 0]], dtype=np.float32))
    probabilities = np.array([[0.9, 0.2], [0.5, 0.4]])
    ranking = doubt_targets(np.array([0, 1]), np.array([[1.0, np.nan], [0, 1]]), adjacency, probabilities)
    # Node 0: model 0.1 away, neighbour 0.5. Node 1: model (0.5 + 0.6) / 2, neighbour (0.9 + 0.8) / 2.
    assert ranking.nodes[:, 0].tolist() == [1, 0]
    assert ranking.score.tolist() == pytest.approx([(0.55 + 0.85) / 2, (0.1 + 0.5) / 2])
