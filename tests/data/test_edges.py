"""Edges in every accepted form, and their weights through every conversion and change of a graph."""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pandas
import pyarrow
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gssc.data.edges import as_edges
from gssc.data.noise import add_noise
from gssc.errors import GsscError
from gssc.graph import Graph

NAMES = ["a", "b", "c"]
FRAME = pandas.DataFrame({"note": ["x", "y"], "weight": [0.5, 2.0], "target": ["a", "c"], "source": ["b", "a"]})
NETWORK = networkx.Graph()
NETWORK.add_edge("b", "a", weight=0.5)
NETWORK.add_edge("a", "c", weight=2.0)
ADJACENCY = sp.csr_matrix(np.array([[0, 0.5, 2.0], [0.5, 0, 0], [0, 0, 0]]))


@pytest.mark.parametrize(
    "edges",
    [
        FRAME,
        FRAME.rename(columns={"source": "From", "target": "to"}),
        FRAME[["source", "target", "weight"]].rename(columns={"source": "one", "target": "other"}),
        pyarrow.Table.from_pandas(FRAME),
        FRAME.to_dict("list"),
        [("b", "a", 0.5), ("a", "c", 2)],
        [["b", "a", 0.5], ["a", "c", 2]],
        zip("ba", "ac", (0.5, 2), strict=True),
        NETWORK,
        networkx.MultiDiGraph(NETWORK),
        ADJACENCY,
        sp.coo_array(ADJACENCY),
    ],
)
def test_every_form_gives_the_same_graph(edges: Any) -> None:
    graph = Graph(np.eye(3), edges, node_ids=NAMES)
    assert graph.edges.tolist() == [[0, 0], [1, 2]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [0.5, 2.0]
    assert graph.edge_weight.dtype == np.float32


@pytest.mark.parametrize(
    "edges",
    [
        [("b", "a"), ("a", "c"), ("c", "b")],
        [["b", "a"], ["a", "c"], ["c", "b"]],
        np.array([["b", "a"], ["a", "c"], ["c", "b"]]),
        np.array([["b", "a", "c"], ["a", "c", "b"]]),
        [["b", "a", "c"], ["a", "c", "b"]],
        {("b", "a"), ("a", "c"), ("c", "b")},
        [[1, 0, 2], [0, 2, 1]],
        (np.array([1, 0, 2]), np.array([0, 2, 1])),
    ],
)
def test_forms_without_weights(edges: Any) -> None:
    graph = Graph(np.eye(3), edges, node_ids=NAMES)
    assert graph.edges.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert graph.edge_weight is None


def test_numbers_are_rows_in_an_array_and_ids_in_pairs() -> None:
    assert as_edges([[1, 2], [0, 0]], [7, 8, 9], 3)[0].tolist() == [[1, 2], [0, 0]]
    assert as_edges([(8, 7), (9, 7), (9, 8)], [7, 8, 9], 3)[0].tolist() == [[1, 2, 2], [0, 0, 1]]
    assert as_edges([(8.0, "7")], np.array(["7", "8", "9"]), 3)[0].tolist() == [[1], [0]]
    assert as_edges([(1, 0), (2, 0), (2, 1)], None, 3)[0].tolist() == [[1, 2, 2], [0, 0, 1]]
    assert as_edges(pandas.DataFrame({"u": [1, 2], "v": [0, 0]}), None, 3)[0].tolist() == [[1, 2], [0, 0]]
    assert as_edges(networkx.path_graph(3), None, 3)[0].tolist() == [[0, 1], [1, 2]]


def test_two_tuples_of_numbers_may_be_either() -> None:
    assert as_edges([(0, 1), (1, 2)], None, 3)[0].tolist() == [[0, 1], [1, 2]]  # the same edges both ways
    with pytest.raises(GsscError, match="may be two pairs or two rows"):
        as_edges([(0, 1), (2, 3)], None, 4)
    assert as_edges([(0, 1, 2), (1, 2, 3)], None, 4)[0].shape == (2, 3)
    edges, weights = as_edges([(0, 1, 0.5), (2, 3, 1.5)], None, 4)
    assert edges.tolist() == [[0, 2], [1, 3]]
    assert weights is not None
    assert weights.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("edges", "ids", "message"),
    [
        ([("alpha", "beta"), ("alpa", "beta")], ["alpha", "beta"], "edge 1 names node 'alpa', .*did you mean 'alpha'?"),
        ([("a", "b")], None, "the nodes have no names: give node_ids"),
        ([("a", "b")], ["a", "a"], "node_ids has 'a' twice"),
        ([("a", "b"), ("a", "b", 1.0)], ["a", "b"], "give all edges a weight, or none"),
        (pandas.DataFrame({"source": ["a"]}), ["a", "b"], "has 1 column: an edge needs two"),
        (pandas.DataFrame({"u": ["a"], "v": ["b"], "weight": ["much"]}), ["a", "b"], "weight of an edge is not a num"),
        (pandas.DataFrame({"u": ["a"], "v": ["b"], "weight": [np.nan]}), ["a", "b"], "weight of edge 0 is nan"),
        ({"source": ["a"], "target": []}, ["a", "b"], "1 first and 0 second ends"),
        (sp.csr_matrix((3, 3)), ["a", "b"], r"shape \(3, 3\) for 2 nodes"),
        (sp.csr_matrix([[0, -1.0], [0, 0]]), None, "weight of edge 0 is -1.0: weights must be above 0"),
        (sp.csr_matrix((2, 2)), None, "no edges"),
        (networkx.path_graph(["x", "y"]), None, "the nodes have no names"),
        (networkx.path_graph(["x", "y"]), ["a", "b"], "edge 0 names node 'x', which is not among the node ids"),
    ],
)
def test_refusals(edges: Any, ids: Any, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        Graph(np.eye(2), edges, node_ids=ids)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0], r"shape \(1,\).* for 2 edges"),
        ([1.0, 0.0], "weight of edge 1 is 0.0"),
        ([np.inf, 1.0], "weight of edge 0 is inf"),
        ([1.0, 1e-60], "weight of edge 1 is 1e-60"),
        (["a", "b"], "dtype <U1"),
    ],
)
def test_weights_that_are_refused(weight: Any, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        Graph(np.eye(3), [[0, 1], [1, 2]], edge_weight=weight)


def test_the_largest_weight_of_an_edge_counts() -> None:
    # 0-1 three times and both ways, 1-2 once, a loop at 2.
    graph = Graph(np.eye(3), [[1, 0, 1, 2, 2], [0, 1, 0, 1, 2]], edge_weight=[0.5, 3.0, 2.0, 0.25, 9.0])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [3.0, 0.25]
    assert Graph(np.eye(3), [[0, 1], [1, 2]], edge_weight=np.ones(2)).edge_weight is None


def weighted(nodes: int = 5, **more: Any) -> Graph:
    edges = [[0, 1, 2, 3], [1, 2, 3, 4]]
    return Graph(np.eye(nodes), edges, edge_weight=[0.5, 2.0, 3.0, 4.0], labels=[0, 1, 0, 1, 0], **more)


def weights(graph: Graph) -> dict[tuple[int, int], float]:
    values = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight
    return {(int(u), int(v)): float(value) for (u, v), value in zip(graph.edges.T, values, strict=True)}


def test_weights_survive_other_changes() -> None:
    graph = weighted(train=[0, 1], test=[4])
    assert weights(graph.with_(name="other")) == weights(graph)
    changed = graph.with_(edges=[[4, 0, 2, 1], [3, 3, 1, 0]])
    assert weights(changed) == {(0, 1): 0.5, (0, 3): 1.0, (1, 2): 2.0, (3, 4): 4.0}
    assert weights(graph.with_(edges=[[0, 1], [1, 2]], edge_weight=[7, 8])) == {(0, 1): 7, (1, 2): 8}
    named = weighted(node_ids=list("abcde")).with_(edges=[("b", "a", 9.0), ("b", "d", 2.0)])
    assert weights(named) == {(0, 1): 9.0, (1, 3): 2.0}
    view, kept = weighted(train=[0, 1], test=[1 + 1], setting="inductive").training_view()
    assert kept.tolist() == [0, 1, 3, 4]
    assert weights(view) == {(0, 1): 0.5, (2, 3): 4.0}


@given(st.sampled_from(["random", "add", "remove", "as-distributed"]), st.integers(0, 50))
def test_weights_survive_noise(kind: str, seed: int) -> None:
    graph = weighted(train=[0, 1])
    noisy, _ = add_noise(graph, structure=f"{kind}:0.25", label="symmetric:0.5", seed=seed)
    plain, _ = add_noise(graph.with_(edge_weight=None), structure=f"{kind}:0.25", label="symmetric:0.5", seed=seed)
    np.testing.assert_array_equal(noisy.edges, plain.edges)
    for edge, weight in weights(noisy).items():
        assert weight == weights(graph).get(edge, weight)
        assert weight in weights(graph).values()
