"""Graph on four nodes, where every answer can be worked out by hand, and on examples by hypothesis."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gssc.errors import GsscError
from gssc.graph import Cleaning, Graph

X = np.arange(8, dtype=np.float32).reshape(4, 2)


def square(**changes: Any) -> Graph:
    """A path 0 - 1 - 2 - 3 closed by 0 - 3; labels a a b b, so two of four edges agree."""
    values: dict[str, Any] = {
        "features": X,
        "edges": [[0, 1, 2, 0], [1, 2, 3, 3]],
        "labels": [0, 0, 1, 1],
        "train": [0, 2],
        "val": [1],
        "test": [3],
        **changes,
    }
    return Graph(**values)


@st.composite
def raw_edges(draw: st.DrawFn, nodes: int = 6) -> np.ndarray:
    pairs = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), min_size=0, max_size=30))
    pairs.append((0, 1))
    return np.array(draw(st.permutations(pairs)), dtype=np.int64).T


def test_canonical_form() -> None:
    graph = square(edges=[[1, 0, 3, 2, 2, 1, 0], [0, 1, 2, 2, 3, 2, 3]])
    assert graph.edges.tolist() == [[0, 0, 1, 2], [1, 3, 2, 3]]
    # 0-1 and 2-3 came both ways, 0-3 and 1-2 one way only, 2-2 is a loop.
    assert graph.cleaning == Cleaning(self_loops=1, duplicate_edges=0, one_way_edges_symmetrised=2)
    assert graph.cleaning.summary() == "1 self-loop removed, 2 one-way edges symmetrised"
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (4, 4, 2, 2)
    assert graph.features.dtype == np.float32
    assert graph.labels.dtype == graph.edges.dtype == graph.train.dtype == np.int64


def test_each_edge_once_is_undirected_already() -> None:
    assert square().cleaning.summary() == "nothing to clean"
    assert square(edges=[[2, 0, 0], [3, 1, 1]]).cleaning == Cleaning(duplicate_edges=1)


def test_homophily_by_hand() -> None:
    assert square().homophily() == 0.5  # 0-1 and 2-3 agree, 1-2 and 0-3 do not
    assert square(labels=[0, -1, 1, 1], train=[0], val=[]).homophily() == 0.5  # 0-3 and 2-3 remain
    assert np.isnan(square(labels=[0, -1, 1, -1], train=[0], val=[]).homophily())
    tasks = [[1, 0], [1, 1], [0, np.nan], [0, 1]]
    assert square(labels=tasks).homophily() == pytest.approx(
        2 / 6
    )  # 0-1: 1 of 2; 1-2: 0 of 1; 2-3: 1 of 1; 0-3: 0 of 2


@given(raw_edges())
def test_cleaning_keeps_exactly_the_undirected_edges(edges: np.ndarray) -> None:
    graph = Graph(np.zeros((6, 1)), edges)
    expected = sorted({(min(u, v), max(u, v)) for u, v in edges.T.tolist() if u != v})
    assert graph.edges.T.tolist() == [list(edge) for edge in expected]
    directed = {(u, v) for u, v in edges.T.tolist() if u != v}
    assert graph.cleaning.self_loops == int((edges[0] == edges[1]).sum())
    assert graph.cleaning.duplicate_edges + len(directed) + graph.cleaning.self_loops == edges.shape[1]
    one_way = {(u, v) for u, v in directed if (v, u) not in directed}
    undirected_list = all(u < v for u, v in directed)
    assert graph.cleaning.one_way_edges_symmetrised == (0 if undirected_list else len(one_way))
    again = Graph(np.zeros((6, 1)), graph.edges)
    assert again.cleaning == Cleaning()
    np.testing.assert_array_equal(again.edges, graph.edges)


@given(raw_edges(), st.randoms(use_true_random=False))
def test_edge_order_does_not_matter(edges: np.ndarray, random: Any) -> None:
    order = list(range(edges.shape[1]))
    random.shuffle(order)
    first, second = Graph(np.zeros((6, 1)), edges), Graph(np.zeros((6, 1)), edges[:, order])
    np.testing.assert_array_equal(first.edges, second.edges)
    assert first.cleaning == second.cleaning


def test_sparse_features_become_canonical() -> None:
    # Row 0 repeats column 1 and stores a zero; row 2 is unsorted; rows 1 and 3 are all zero.
    data, indices, indptr = [1.0, 2.0, 0.0, 5.0, 4.0], [1, 1, 0, 2, 0], [0, 3, 3, 5, 5]
    given_matrix = sp.csr_matrix((data, indices, indptr), shape=(4, 3))
    graph = square(features=given_matrix)
    assert graph.features.toarray().tolist() == [[0, 3, 0], [0, 0, 0], [4, 0, 5], [0, 0, 0]]
    assert graph.features.nnz == 3
    assert graph.features.dtype == np.float32
    assert graph.features.has_canonical_format
    assert given_matrix.nnz == 5  # the caller's matrix is untouched


def test_a_frame_names_nodes_and_features() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2, 3], "y": [0.0, 0, 1]}, index=["m1", "m2", "m7"])
    graph = Graph(frame, pandas.DataFrame({"source": ["m7"], "target": ["m2"]}))
    assert (graph.edges.tolist(), graph.feature_names) == ([[1], [2]], ("x", "y"))
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["m1", "m2", "m7"]
    counted = Graph(frame.reset_index(drop=True), [[0], [1]], feature_names=["a", "b"])
    assert (counted.node_ids, counted.feature_names) == (None, ("a", "b"))


def test_memory_map_stays_one(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    graph = square(features=mapped)
    assert isinstance(graph.features, np.memmap)
    assert graph.with_(name="other").features is graph.features


def test_string_labels() -> None:
    graph = square(labels=np.array(["dog", None, "cat", ""], dtype=object), val=None, test=[3])
    assert graph.class_names == ("cat", "dog")
    assert graph.labels.tolist() == [1, -1, 0, -1]
    assert "1 test nodes have no label" in graph.notes[0]
    assert square(labels=["10", "9", "9", "10"]).class_names == ("9", "10")
    named = square(labels=["b", "a", "a", "b"], class_names=("b", "a"))
    assert named.labels.tolist() == [0, 1, 1, 0]


def test_unknown_labels() -> None:
    assert square(labels=[0.0, np.nan, 1.0, 1.0], val=[]).labels.tolist() == [0, -1, 1, 1]
    empty = Graph(X, [[0], [1]])
    assert empty.labels.tolist() == [-1] * 4
    assert empty.num_classes == 0
    assert len(empty.train) == 0


@pytest.mark.parametrize(
    ("labels", "ids", "class_names"),
    [
        (["a", float("nan"), "b", "a"], [0, -1, 1, 0], ("a", "b")),
        (["a", np.float32("nan"), "b", None], [0, -1, 1, -1], ("a", "b")),
        (["a", -1, "b", "a"], [0, -1, 1, 0], ("a", "b")),
        (("a", -1.0, "b", "a"), [0, -1, 1, 0], ("a", "b")),
        (np.array(["0", "-1", "1", "1"]), [0, -1, 1, 1], ("0", "1")),
        (np.array(["-1", "1", "1", ""]), [0, 1, 1, -1], ("-1", "1")),
        (["-1", "-1", "-1", "-1"], [-1] * 4, None),
        (["a", 1, 1.0, "a"], [1, 0, 0, 1], ("1", "a")),
        (np.array(["é".encode(), b"", b"a", b"a"]), [1, -1, 0, 0], ("a", "é")),
    ],
)
def test_unknown_labels_among_names(labels: Any, ids: list[int], class_names: tuple[str, ...] | None) -> None:
    graph = Graph(X, [[0], [1]], labels)
    assert graph.labels.tolist() == ids
    assert graph.class_names == class_names


def test_pandas_na_is_an_unknown_label() -> None:
    pandas = pytest.importorskip("pandas")
    graph = Graph(X, [[0], [1]], pandas.Series(["a", pandas.NA, "b", "a"], dtype=object))
    assert graph.class_names == ("a", "b")


def test_a_class_may_be_called_minus_one_where_it_is_listed() -> None:
    graph = Graph(X, [[0], [1]], ["-1", "0", "1", "1"], class_names=("-1", "0", "1"))
    assert graph.labels.tolist() == [0, 1, 2, 2]


def test_masks_and_indices_mean_the_same() -> None:
    graph = square(train=np.array([True, False, True, False]), val=np.array([0, 1, 0, 0]), test=np.array([3]))
    assert [graph.train.tolist(), graph.val.tolist(), graph.test.tolist()] == [[0, 2], [1], [3]]


def test_absent_class_is_a_note_unless_refused() -> None:
    graph = square(labels=[0, 0, 1, 2])
    assert graph.notes == ("1 of 3 classes have no training label, the first is 2",)
    assert square().notes == ()
    with pytest.raises(GsscError, match="1 of 3 classes have no training label"):
        square(labels=[0, 0, 1, 2], require_all_classes=True)


def test_transductive_view_is_the_graph() -> None:
    graph = square()
    view, ids = graph.training_view()
    assert view is graph
    assert ids.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("setting", ["inductive", "cold-start"])
@pytest.mark.parametrize("features", [X, sp.csr_matrix(X)], ids=["dense", "sparse"])
def test_training_never_sees_test_nodes(setting: str, features: Any) -> None:
    graph = square(
        features=features, train=[2, 3], val=[1], test=[0], labels=[2, 0, 1, 1], setting=setting, node_ids=list("abcd")
    )
    view, ids = graph.training_view()
    assert ids.tolist() == [1, 2, 3]
    assert view.edges.tolist() == [[0, 1], [1, 2]]
    assert view.labels.tolist() == [0, 1, 1]
    assert [view.train.tolist(), view.val.tolist(), view.test.tolist()] == [[1, 2], [0], []]
    assert view.num_classes == graph.num_classes == 3  # class 2 is in test only and still counts
    assert view.node_ids is not None
    assert view.node_ids.tolist() == ["b", "c", "d"]
    rows = view.features if isinstance(view.features, np.ndarray) else view.features.toarray()
    np.testing.assert_array_equal(rows, X[1:])
    expected = 4 if setting == "inductive" else 2
    assert graph.evaluation_edges().shape == (2, expected)
    assert view.training_view()[0].num_nodes == 3


def test_view_without_edges_says_so() -> None:
    with pytest.raises(GsscError, match="no edge is left to train on in the inductive setting"):
        Graph(X, [[0, 1], [3, 3]], [0, 1, 0, 1], train=[0, 1], test=[3], setting="inductive").training_view()


def test_with_changes_one_thing() -> None:
    graph = square(edges=[[0, 1, 1], [0, 2, 0]])
    renamed = graph.with_(name="other")
    assert (renamed.name, renamed.cleaning) == ("other", graph.cleaning)
    assert graph.with_(edges=[[0], [3]]).cleaning == Cleaning()
    assert square(labels=[0, 0, 1, 2]).with_(labels=np.array([0, 0, 1, 1])).num_classes == 3
    with pytest.raises(GsscError, match="NaN|nan"):
        graph.with_(features=np.full((4, 2), np.nan))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.zeros(4)}, "shape .4,.; they must be a table"),
        ({"features": np.zeros((0, 2))}, "at least one node"),
        ({"features": [[0, 1], [2, np.nan], [0, 0], [0, 0]]}, "row 1, column 1 is nan"),
        ({"features": [[0, 1], [2, 3], [-np.inf, 0], [0, 0]]}, "row 2, column 0 is -inf"),
        ({"features": [[0, 1e300], [2, 3], [0, 0], [0, 0]]}, "row 0, column 1 is inf"),
        ({"features": [["1", "2"], ["3", "red"], ["1", "2"], ["1", "2"]]}, "row 1, column 1 holds .*'red'"),
        ({"features": sp.csr_matrix([[1, 0], [0, np.nan], [0, 0], [1, 1]])}, "row 1, column 1 is nan"),
        ({"edges": np.zeros((2, 0))}, "no edges"),
        ({"edges": [[1, 2], [1, 2]]}, "no edges but 2 self-loops, and self-loops are left out"),
        ({"edges": None}, "edges are None: give the edges"),
        ({"edges": [[1], [1]]}, "no edges but 1 self-loop, and self-loops are left out"),
        ({"edges": [[0, 1], [1, 4]]}, r"edge 1 \(1, 4\) names a node that does not exist.*0 to 3"),
        ({"edges": [[0, -1], [1, 2]]}, r"edge 1 \(-1, 2\)"),
        ({"edges": [[0, 1], [1, 2], [2, 3]]}, r"shape \(3, 2\).*transpose"),
        ({"edges": [[0, 1.5], [1, 2]]}, "edge 1 is .1.5, 2.0.: node ids must be whole"),
        ({"edges": [["0", "b"], ["1", "2"]]}, "edge 1 holds .*'b'"),
        ({"labels": [0, 1]}, r"labels have shape \(2,\) for 4 nodes"),
        ({"labels": [0, 0.5, 1, 1]}, "label of node 1 is 0.5"),
        ({"labels": [0, 0, -3, 1]}, "label of node 2 is -3"),
        ({"labels": [[0, 1], [1, 2], [0, 0], [0, 1]]}, "row 1, task 1 is 2.0"),
        ({"class_names": ("only",)}, "label of node 2 is 1, but class_names has only 1"),
        ({"class_names": ("a", "a")}, "has a name twice"),
        ({"labels": list("abca"), "class_names": ("a", "b")}, "label of node 2 is 'c'"),
        ({"train": [0, 4]}, "train entry 1 is node 4, which does not exist"),
        ({"train": [0, 0]}, "train lists node 0 twice"),
        ({"train": [True, False]}, "train mask has 2 entries for 4 nodes"),
        ({"train": [0.5]}, "train has dtype float64"),
        ({"val": [0, 1]}, "train and val share 1 node, the first is node 0"),
        ({"test": [1]}, "val and test share 1 node, the first is node 1"),
        ({"labels": [0, -1, 1, 1]}, "val holds 1 node without a label, the first is node 1"),
        ({"setting": "transductiv"}, "setting 'transductiv' is not known"),
        ({"node_ids": [1, 2]}, "node_ids have shape"),
        ({"feature_names": ["a"]}, "1 feature_names for 2 features"),
        ({"feature_names": ["a", "a"]}, "feature_names has 'a' twice"),
        ({"labels": np.ones((4, 2)), "class_names": ("a",)}, "1 class_names for 2 tasks"),
        ({"labels": np.full((4, 2), np.nan)}, "train holds no known target"),
        ({"labels": [[0, 1], [np.nan, np.nan], [0, 1], [0, 1]]}, "val holds no known target"),
        ({"labels": [0, 0, 10**9, 1]}, "label of node 2 is 1000000000, which exceeds the number of nodes"),
        ({"features": [[0, 1], [2], [0, 0], [0, 0]]}, "features cannot be read as an array"),
        ({"features": np.ones((4, 2), dtype=complex)}, "features have dtype complex128"),
        ({"features": np.ones((4, 2), dtype="M8[D]")}, "features have dtype datetime64"),
        ({"labels": [[0, 1], [1], [0], [1]]}, "labels cannot be read as an array"),
        ({"edges": [[0, 1], [1]]}, "edges cannot be read as an array"),
        ({"labels": np.array([b"a", b"\xff", b"a", b"a"])}, "label of node 1 is b'.xff', which is not UTF-8"),
        ({"labels": np.array([0, {}, 1, 1], dtype=object)}, "label of node 1 is {}: give one class"),
        ({"node_ids": np.array([b"a", b"b", b"\xff", b"d"])}, "id of node 2 is b'.xff', which is not UTF-8"),
        ({"node_ids": [[1], [1, 2], [3], [4]]}, "node_ids cannot be read as an array"),
    ],
)
def test_bad_input_is_one_clear_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GsscError, match=message) as caught:
        square(**changes)
    assert "\n" not in str(caught.value)


def test_odd_but_good_graphs() -> None:
    two = Graph(np.ones((2, 1)), [[1], [0]], ["yes", "no"], train=[0], test=[1])
    assert (two.num_edges, two.homophily()) == (1, 0.0)
    isolated = Graph(np.zeros((5, 2)), [[0], [4]], [0, 1, 0, 1, 0], train=[0, 1])
    assert isolated.num_nodes == 5  # nodes 1 to 3 have no edge, every feature row is zero


def test_repr_tells() -> None:
    assert "4 nodes, 4 edges, 2 features, 2 classes; split 'unnamed' 2/1/1, transductive" in repr(square())


def test_import_is_light() -> None:
    code = "import sys, gssc.graph; assert not {'torch', 'sklearn', 'pyarrow', 'networkx', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_parts_survive_any_order(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(size + 3)
    parts = np.split(nodes, sorted(rng.integers(0, size + 4, 2)))
    graph = Graph(np.zeros((size + 3, 1)), [[0], [1]], np.zeros(size + 3, dtype=int), *parts)
    for mine, theirs in zip((graph.train, graph.val, graph.test), parts, strict=True):
        assert mine.tolist() == sorted(theirs.tolist())


def test_labels_that_are_all_unknown_name_no_class():
    graph = Graph(np.ones((2, 1)), [[0], [1]], labels=np.array([None, None], dtype=object))
    assert graph.class_names is None
    assert graph.num_classes == 0
