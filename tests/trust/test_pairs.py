from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.graph import Graph
from gssc.trust import pairs as pairs_module
from gssc.trust.pairs import MEASURES, PairEvidence, edge_numbers, random_non_edges

# A triangle 0-1-2 with a tail 2-3.
FEATURES = np.array([[1, 0], [1, 0], [0, 1], [1, 1]], dtype=np.float32)
EDGES = np.array([[0, 0, 1, 2], [1, 2, 2, 3]])
PROBABILITIES = np.array([[1, 0], [0.5, 0.5], [0, 1], [0.2, 0.8]], dtype=np.float32)


def evidence_of(features=FEATURES, edges=EDGES, **changes) -> PairEvidence:
    graph = Graph(features, edges, **changes)
    embedding = np.array([[2, 0], [0, 2], [0, 0], [2, 2]], dtype=np.float32)  # centred: corners of a square
    return PairEvidence(graph, np.asarray(FEATURES), embedding, PROBABILITIES)


def test_measures_by_hand() -> None:
    found = evidence_of().measure(EDGES, are_edges=True)
    half = 1 / np.sqrt(2)
    np.testing.assert_allclose(found["features"], [1, 0, 0, half], atol=1e-6)
    # Common neighbours: 2 (degree 3) of 0-1, 1 (degree 2) of 0-2, 0 (degree 2) of 1-2, none of 2-3.
    index = np.array([1 / np.log(3), 1 / np.log(2), 1 / np.log(2), 0])
    np.testing.assert_allclose(found["common_neighbours"], np.log1p(index), atol=1e-6)
    np.testing.assert_allclose(found["agreement"], [0.5, 0, 0.5, 0.8], atol=1e-6)
    # Centred, the embeddings are (1,-1), (-1,1), (-1,-1), (1,1).
    np.testing.assert_allclose(found["embedding"], [-1, 0, 0, -1], atol=1e-6)
    # Around 0 without 1 are 0 and 2: (1, 1); around 1 without 0: (1, 1). Around 2 without 3: (2, 1); 3 alone: (1, 1).
    around = found["neighbourhood_features"]
    assert around[0] == pytest.approx(1, abs=1e-6)
    assert around[3] == pytest.approx(3 / np.sqrt(10), abs=1e-6)


@pytest.mark.parametrize("edge", range(4))
def test_an_edge_is_measured_as_if_it_were_not_there(edge: int) -> None:
    pair = EDGES[:, [edge]]
    with_it = evidence_of().measure(pair, are_edges=True)
    without_it = evidence_of(edges=np.delete(EDGES, edge, axis=1)).measure(pair, are_edges=False)
    for name in MEASURES:
        np.testing.assert_allclose(with_it[name], without_it[name], atol=1e-6, err_msg=name)


def test_sparse_features_and_small_blocks_change_nothing(monkeypatch) -> None:
    whole = evidence_of().measure(EDGES, are_edges=True)
    monkeypatch.setattr(pairs_module, "NUMBERS_AT_A_TIME", 1)
    for features in (FEATURES, sp.csr_matrix(FEATURES)):
        found = evidence_of(features).measure(EDGES, are_edges=True)
        for name, values in whole.items():
            np.testing.assert_allclose(found[name], values, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("hub", [0, 1, 3])
def test_common_neighbours_are_the_same_looked_up_and_read(monkeypatch, hub: int) -> None:
    rng = np.random.default_rng(0)
    graph = Graph(np.ones((60, 1)), np.concatenate([rng.integers(0, 60, (2, 200)), [[0] * 59, range(1, 60)]], axis=1))
    pairs = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    evidence = PairEvidence(graph, *[np.ones((60, 1), dtype=np.float32)] * 3)
    wanted = evidence.measure(pairs, are_edges=True)["common_neighbours"]
    monkeypatch.setattr(pairs_module, "HUB", hub)
    assert evidence._with_hub(pairs).any()
    np.testing.assert_array_equal(evidence.measure(pairs, are_edges=True)["common_neighbours"], wanted)


def test_the_neighbours_of_a_hub_are_not_read_for_each_of_its_edges() -> None:
    """Read so, the 20,000 edges of a star would have 400 million neighbours: a hundred blocks."""
    star = Graph(np.ones((20_001, 1)), [np.zeros(20_000, dtype=int), np.arange(1, 20_001)])
    evidence = PairEvidence(star, *[np.ones((20_001, 1), dtype=np.float32)] * 3)
    assert len(list(evidence._blocks(star.edges))) == 1
    assert not evidence.measure(star.edges, are_edges=True)["common_neighbours"].any()


def test_agreement_about_tasks_is_their_mean() -> None:
    found = evidence_of(labels=np.zeros((4, 2))).measure(EDGES[:, :1], are_edges=True)
    # Ends (1, 0) and (0.5, 0.5): each task is the same with chance one half.
    assert found["agreement"][0] == pytest.approx(0.5)


def test_no_pairs_give_no_measures() -> None:
    found = evidence_of().measure(np.empty((2, 0), dtype=np.int64), are_edges=False)
    assert {len(values) for values in found.values()} == {0}


def test_non_edges_are_different_and_no_edges() -> None:
    rng = np.random.default_rng(0)
    graph = Graph(np.eye(30, dtype=np.float32), np.stack([np.arange(29), np.arange(1, 30)]))
    found = random_non_edges(graph, 100, rng)
    numbers = edge_numbers(found, 30)
    assert len(set(numbers.tolist())) == 100
    assert not np.isin(numbers, edge_numbers(graph.edges, 30)).any()
    assert (found[0] != found[1]).all()


def test_a_complete_graph_has_no_non_edges() -> None:
    graph = Graph(np.eye(3, dtype=np.float32), [[0, 0, 1], [1, 2, 2]])
    assert random_non_edges(graph, 5, np.random.default_rng(0)).shape == (2, 0)
