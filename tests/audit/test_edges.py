from __future__ import annotations

import numpy as np
import pytest

from gssc.audit.edges import doubt_edges
from gssc.audit.pairs import PairEvidence, edge_numbers
from gssc.audit.sketch import feature_sketch
from gssc.graph import Graph

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


def test_the_sparsifier_multiplies_what_the_edge_looks_like(wrong: Graph, judge) -> None:
    evidence = evidence_of(wrong, judge)
    alone, _ = doubt_edges(wrong, evidence, None)
    keep = np.full(wrong.num_edges, 0.8)
    keep[7], keep[8] = 0, np.nan
    both, _ = doubt_edges(wrong, evidence, keep)

    def by_edge(ranking):
        numbers = edge_numbers(ranking.nodes.T, wrong.num_nodes)
        return ranking.score[np.argsort(numbers)]

    wanted = 1 - (1 - by_edge(alone)) * np.where(np.isnan(keep), 1, keep)
    np.testing.assert_allclose(by_edge(both), wanted, atol=1e-9)
    assert by_edge(both)[7] == 1
    assert np.isnan(both.evidence["keep_probability"]).sum() == 1


def test_training_labels_and_what_the_model_says_of_the_ends_play_no_part(wrong: Graph, judge) -> None:
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
