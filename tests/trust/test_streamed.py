"""Streamed trust: sketches equal to what matrices give, evidence that tells edges from random pairs."""

from __future__ import annotations

import numpy as np
import pytest

from gssc.data import csbm
from gssc.graph import Graph
from gssc.trust.streamed import Sketches, StreamedTrust

GRAPH = csbm(nodes=300, degree=8, features=12, classes=3, signal=3.0, homophily=0.95)


def rows_of(graph: Graph) -> object:
    return lambda nodes: graph.features[nodes]


def test_sketches_are_means_over_neighbours() -> None:
    sketches = Sketches.of(GRAPH.features, GRAPH.edges, width=4)
    adjacency = np.eye(GRAPH.num_nodes)
    adjacency[tuple(GRAPH.edges)] = adjacency[tuple(GRAPH.edges[::-1])] = 1
    walk = adjacency / adjacency.sum(axis=1, keepdims=True)
    own = sketches.own.astype(np.float64)
    assert np.array_equal(sketches.degree, adjacency.sum(axis=1) - 1)
    assert np.allclose(sketches.around, walk @ own, atol=2e-3)
    assert np.allclose(sketches.beyond, walk @ walk @ own, atol=3e-3)
    assert [part.shape for part in sketches.of_nodes(np.array([3, 5])).parts()] == [(2, 4)] * 3


def test_hidden_nodes_leave_no_trace() -> None:
    hidden = np.zeros(GRAPH.num_nodes, dtype=bool)
    hidden[:50] = True
    seen = GRAPH.edges[:, ~hidden[GRAPH.edges].any(axis=0)]
    one = Sketches.of(GRAPH.features, GRAPH.edges, width=4, hidden=hidden)
    other = Sketches.of(GRAPH.features, seen, width=4)
    assert np.array_equal(one.around, other.around)
    assert one.degree[:50].sum() == 0


def test_wide_rows_are_folded_and_narrow_ones_stay_narrow() -> None:
    wide = np.random.default_rng(0).standard_normal((40, 600)).astype(np.float32)
    edges = np.array([[0, 1], [1, 2]])
    assert Sketches.of(wide, edges, width=8).own.shape == (40, 8)
    assert Sketches.of(wide[:, :3], edges, width=8).own.shape == (40, 3)
    assert Sketches.of(wide[:, :1], edges, width=8).own.shape == (40, 1)


def test_an_edge_is_judged_without_itself() -> None:
    """Two nodes without other neighbours look to each other's surroundings like their own rows, edge or not."""
    features = np.array([[1.0, 0], [0, 1], [1, 1]], dtype=np.float32)
    joined = Sketches.of(features, np.array([[0], [1]]), width=2)
    alone = Sketches.of(features, np.array([[1], [2]]), width=2)
    pair = np.array([[0], [1]])
    products = joined.own[0].astype(float) @ joined.own[1].astype(float)
    lengths = np.linalg.norm(joined.own[0].astype(float)) * np.linalg.norm(joined.own[1].astype(float))
    assert np.allclose(joined.of_nodes(np.arange(3)).around_cosine(pair, are_edges=True), products / lengths, atol=5e-3)
    assert alone.of_nodes(np.arange(3)).around_cosine(pair, are_edges=False).shape == (1,)


@pytest.mark.parametrize("size", [1e-30, 1e-16, 1.0, 1e16, 1e30, 1e37])
def test_cosines_of_rows_of_any_size(size: float) -> None:
    rows = np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0]], dtype=np.float32) * np.float32(size)
    sketches = Sketches.of(np.eye(3, 2, dtype=np.float32), np.array([[0], [1]]), width=2)
    trust = StreamedTrust(sketches, np.zeros(2), np.ones(2), np.zeros(3), 0.0)
    found = trust.measure(sketches.of_nodes(np.arange(3)), rows, np.array([[0, 0], [1, 2]]), are_edges=True)
    np.testing.assert_allclose(found[:, 0], [0.96, 0.0], rtol=1e-6)


def test_wrong_edges_are_trusted_less() -> None:
    noisy = with_random_edges(GRAPH, 400)
    sketches = Sketches.of(noisy.features, noisy.edges)
    trust = StreamedTrust.fitted(sketches, noisy.edges, rows_of(noisy))  # type: ignore[arg-type]
    keep = trust.keep_of(noisy.edges, rows_of(noisy))  # type: ignore[arg-type]
    alike = noisy.labels[noisy.edges[0]] == noisy.labels[noisy.edges[1]]
    assert keep[alike].mean() > keep[~alike].mean() + 0.3
    some = noisy.edges[:, :20]
    everyone = sketches.of_nodes(np.arange(noisy.num_nodes))
    assert np.allclose(trust.keep(everyone, np.asarray(noisy.features), some), keep[:20])
    assert 0 < trust.noise_share < 1


def with_random_edges(graph: Graph, count: int) -> Graph:
    drawn = np.random.default_rng(0).integers(0, graph.num_nodes, (2, count))
    return graph.with_(edges=np.concatenate([graph.edges, drawn], axis=1))


def test_too_few_edges_are_all_kept() -> None:
    features = np.eye(4, dtype=np.float32)
    edges = np.array([[0, 1], [1, 2]])
    trust = StreamedTrust.fitted(Sketches.of(features, edges), edges, lambda nodes: features[nodes])
    assert (trust.keep_of(edges, lambda nodes: features[nodes]) == 1).all()


def test_constant_features_are_no_evidence() -> None:
    features = np.ones((50, 3), dtype=np.float32)
    edges = np.stack([np.arange(49), np.arange(1, 50)])
    trust = StreamedTrust.fitted(Sketches.of(features, edges), edges, lambda nodes: features[nodes])
    keep = trust.keep_of(edges, lambda nodes: features[nodes])
    assert np.isfinite(keep).all()


def test_a_batch_of_nodes_has_the_sketches_of_all() -> None:
    sketches, nodes = Sketches.of(GRAPH.features, GRAPH.edges, width=4), np.array([3, 5, 11])
    found = sketches.of_nodes(nodes)
    for part, whole in ((found.own, sketches.own), (found.around, sketches.around), (found.beyond, sketches.beyond)):
        assert part.dtype == np.float32
        assert np.array_equal(part, whole[nodes].astype(np.float32))
    assert np.array_equal(found.degree, sketches.degree[nodes])
    ends = np.array([[0, 1], [2, 2]])
    whole = sketches.of_nodes(np.arange(GRAPH.num_nodes)).around_cosine(nodes[ends], are_edges=False)
    assert np.allclose(found.around_cosine(ends, are_edges=False), whole)
