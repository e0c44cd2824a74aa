from __future__ import annotations

import numpy as np
import pytest

from gssc.audit.edges import doubt_edges, keep_shift
from gssc.graph import Graph
from gssc.trust.pairs import PairEvidence, edge_numbers
from gssc.trust.sketch import feature_sketch

WRONG = np.array([[3, 9, 14], [40, 50, 58]])  # between the communities


def evidence_of(graph: Graph, judge) -> PairEvidence:
    rows = graph.features
    return PairEvidence(graph, feature_sketch(rows), judge.embed(rows), judge.predict_proba(rows))


@pytest.fixture
def wrong(graph: Graph) -> Graph:
    return graph.with_(edges=np.concatenate([graph.edges, WRONG], axis=1))


def test_edges_between_communities_come_first(wrong: Graph, judge) -> None:
    ranking, notes = doubt_edges(wrong, evidence_of(wrong, judge), None)
    assert notes == []
    assert len(ranking) == wrong.num_edges
    assert {tuple(ends) for ends in ranking.nodes[:3].tolist()} == {tuple(ends) for ends in WRONG.T.tolist()}
    assert (np.diff(ranking.score) <= 0).all()
    assert "keep_probability" not in ranking.evidence


def by_edge(ranking, name: str = "score") -> np.ndarray:
    values = ranking.score if name == "score" else ranking.evidence[name]
    return values[np.lexsort(ranking.nodes.T[::-1])]


def test_a_sparsifier_that_keeps_all_alike_changes_nothing(wrong: Graph, judge) -> None:
    evidence = evidence_of(wrong, judge)
    alone, _ = doubt_edges(wrong, evidence, None)
    alike, _ = doubt_edges(wrong, evidence, np.full(wrong.num_edges, 0.3))
    np.testing.assert_array_equal(alone.score, alike.score)
    np.testing.assert_allclose(alone.score, 1 - alone.evidence["looks_like_edge"])


def test_a_sparsifier_that_agrees_makes_scores_more_extreme(wrong: Graph, judge) -> None:
    evidence = evidence_of(wrong, judge)
    alone, _ = doubt_edges(wrong, evidence, None)
    ours = np.isin(edge_numbers(wrong.edges, 60), edge_numbers(WRONG, 60))
    keep = np.where(ours, 0.2, 0.9)
    keep[0] = np.nan
    both, _ = doubt_edges(wrong, evidence, keep)
    assert (by_edge(both)[ours] > by_edge(alone)[ours]).all()
    assert by_edge(both)[0] == by_edge(alone)[0], "an edge it never saw"
    assert np.isnan(by_edge(both, "keep_probability")).tolist() == [True] + [False] * (wrong.num_edges - 1)


def test_what_the_sparsifier_adds_by_hand() -> None:
    # Two groups: those with a low keep probability look like edges with chance 0.2, the others with 0.8; mean 0.5.
    keep, looks = np.repeat([0.1, 0.9], 500), np.repeat([0.2, 0.8], 500)
    np.testing.assert_allclose(keep_shift(keep, looks), np.repeat([-np.log(4), np.log(4)], 500), atol=0.02)
    np.testing.assert_allclose(keep_shift(keep, np.full(1000, 0.7)), 0, atol=1e-6)
    assert keep_shift(np.full(50, np.nan), np.full(50, 0.5)).tolist() == [0] * 50
    assert keep_shift(np.array([0.1, 0.9]), np.array([0.1, 0.9])).tolist() == [0, 0], "too few to tell"


def test_training_labels_and_predictions_of_the_ends_are_not_used(wrong: Graph, judge) -> None:
    evidence = evidence_of(wrong, judge)
    before, _ = doubt_edges(wrong, evidence, None)
    evidence.probabilities = evidence.probabilities[::-1]
    after, _ = doubt_edges(wrong.with_(labels=None, train=None, val=None), evidence, None)
    np.testing.assert_array_equal(before.score, after.score)


def test_the_seed_decides(wrong: Graph, judge) -> None:
    evidence = evidence_of(wrong, judge)
    first, again, other = (doubt_edges(wrong, evidence, None, seed)[0].score for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_too_small_a_graph_falls_back_on_the_model(judge) -> None:
    features = np.zeros((3, 6), dtype=np.float32)
    features[0, 0] = features[1, 0] = features[2, 1] = 5
    small = Graph(features, [[0, 0, 1], [1, 2, 2]])
    ranking, notes = doubt_edges(small, evidence_of(small, judge), None)
    assert "too few" in notes[0]
    assert ranking.nodes[-1].tolist() == [0, 1]


def test_keep_probabilities_from_the_same_evidence_are_shown_and_not_counted(wrong: Graph, judge) -> None:
    evidence, keep = evidence_of(wrong, judge), np.linspace(0.01, 0.99, wrong.num_edges)
    alone, _ = doubt_edges(wrong, evidence, None)
    shown, _ = doubt_edges(wrong, evidence, keep, keep_counts=False)
    np.testing.assert_array_equal(alone.score, shown.score)
    assert "keep_probability" in shown.evidence
