"""A graph survives .npz, PyTorch Geometric, NetworkX and SciPy unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gssc.errors import GsscError
from gssc.graph import Graph

quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(st.integers(2, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dense = rng.standard_normal((nodes, draw(st.integers(1, 4)))).astype(np.float32)
    dense[rng.random(dense.shape) < 0.5] = 0
    kind = draw(st.sampled_from(["ids", "names", "tasks"]))
    labels: Any = rng.integers(-1, 3, nodes)
    if kind == "names":
        labels = np.array([None, "x", "y", "zz"], dtype=object)[labels + 1]
    elif kind == "tasks":
        labels = rng.choice([0.0, 1.0, np.nan], size=(nodes, 3))
    unknown = np.isnan(labels).all(axis=1) if kind == "tasks" else np.array([v is None or v == -1 for v in labels])
    part = np.where(unknown, 3, rng.integers(0, 4, nodes))
    extra = draw(st.booleans())
    return Graph(
        sp.csr_matrix(dense) if draw(st.booleans()) else dense,
        np.concatenate([rng.integers(0, nodes, (2, 10)), [[0], [1]]], axis=1),
        labels,
        *(part == p for p in range(3)),
        name="made",
        split="some",
        setting=draw(st.sampled_from(["transductive", "inductive", "cold-start"])),
        node_ids=[f"n{i}" for i in range(nodes)] if extra else None,
        feature_names=[f"f{i}" for i in range(dense.shape[1])] if extra else None,
        edge_weight=rng.choice([0.25, 1.0, 3.1], 11) if draw(st.booleans()) else None,
    )


def assert_same(left: Graph, right: Graph, *, told: bool = True) -> None:
    rows = [g.features if isinstance(g.features, np.ndarray) else g.features.toarray() for g in (left, right)]
    np.testing.assert_array_equal(*rows)
    for field in ("edges", "edge_weight", "labels", "train", "val", "test"):
        np.testing.assert_array_equal(getattr(left, field), getattr(right, field), err_msg=field)
    if told:
        for field in ("name", "split", "setting", "class_names", "feature_names"):
            assert getattr(left, field) == getattr(right, field), field


@quick
@given(graph=graphs())
def test_npz(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    graph.save(path)
    again = Graph.load(path)
    assert_same(graph, again)
    assert sp.issparse(again.features) == sp.issparse(graph.features)
    np.testing.assert_array_equal(again.node_ids, graph.node_ids)
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.npz"]


@quick
@given(graph=graphs())
@pytest.mark.filterwarnings("ignore")  # torch calls its sparse tensors beta
def test_pyg(graph: Graph) -> None:
    pytest.importorskip("torch_geometric")
    data = graph.to_pyg()
    assert data.num_edges == 2 * graph.num_edges
    again = Graph.from_pyg(data)
    assert_same(graph, again)
    assert again.cleaning.summary() == "nothing to clean"
    assert sp.issparse(again.features) == sp.issparse(graph.features)


@quick
@given(graph=graphs())
def test_networkx(graph: Graph) -> None:
    pytest.importorskip("networkx")
    network = graph.to_networkx()
    assert (network.number_of_nodes(), network.number_of_edges()) == (graph.num_nodes, graph.num_edges)
    again = Graph.from_networkx(network)
    assert_same(graph, again)
    assert again.cleaning.summary() == "nothing to clean"


@quick
@given(graph=graphs())
def test_scipy(graph: Graph) -> None:
    adjacency = graph.to_scipy()
    assert adjacency.nnz == 2 * graph.num_edges
    assert (adjacency != adjacency.T).nnz == 0
    parts = {"train": graph.train, "val": graph.val, "test": graph.test, "class_names": graph.class_names}
    again = Graph.from_scipy(adjacency, graph.features, graph.labels, **parts)
    assert_same(graph, again, told=False)


def test_pyg_with_several_masks_and_column_labels() -> None:
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    masks = torch.tensor([[True, False], [False, True]])
    data = pyg.Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([[0], [1]]), train_mask=masks)
    assert Graph.from_pyg(data).train.tolist() == [0]
    assert Graph.from_pyg(data, mask_column=1).train.tolist() == [1]
    assert Graph.from_pyg(data, name="mine").name == "mine"
    with pytest.raises(GsscError, match="has no x"):
        Graph.from_pyg(pyg.Data(edge_index=data.edge_index))
    assert Graph.from_pyg(pyg.Data(edge_index=data.edge_index, num_nodes=2), features=None).num_nodes == 2
    with pytest.raises(GsscError, match="mask_column is 2, but train_mask has columns 0 to 1"):
        Graph.from_pyg(data, mask_column=2)
    with pytest.raises(GsscError, match="not HeteroData"):
        Graph.from_pyg(pyg.HeteroData())
    data.train_mask = torch.tensor([0, 1], dtype=torch.uint8)
    assert Graph.from_pyg(data).train.tolist() == [1]
    data.x = data.x.bfloat16()
    assert Graph.from_pyg(data).features.tolist() == [[1, 0], [0, 1]]


def test_networkx_by_hand() -> None:
    networkx = pytest.importorskip("networkx")
    directed = networkx.DiGraph([("b", "a"), ("a", "c")])
    for name, row, label in (("a", [1, 0], "x"), ("b", [0, 1], "y"), ("c", [1, 1], None)):
        directed.add_node(name, feat=row, kind=label)
    graph = Graph.from_networkx(directed, features="feat", label="kind")
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["b", "a", "c"]
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.labels.tolist() == [1, 0, -1]
    del directed.nodes["c"]["feat"]
    with pytest.raises(GsscError, match="node 'c' has no attribute 'feat'"):
        Graph.from_networkx(directed, features="feat")
    directed.nodes["c"]["feat"] = [1]
    with pytest.raises(GsscError, match="node 'c' has 1 feature where node 'b' has 2"):
        Graph.from_networkx(directed, features="feat")


def test_networkx_refusals() -> None:
    networkx = pytest.importorskip("networkx")

    def refused(**second: Any) -> str:
        network = networkx.Graph([("a", "b")])
        network.add_node("a", x=[1.0], y=[0, 1], split="train")
        network.add_node("b", **{"x": [1.0], **second})
        with pytest.raises(GsscError) as caught:
            Graph.from_networkx(network)
        return str(caught.value)

    assert "node 'b' has 'training' as its 'split', which is not train" in refused(split="training")
    assert "node 'b' has 3 targets where node 'a' has 2" in refused(y=[0, 1, 1])
    assert "node 'b' has 1 target where node 'a' has 2" in refused(y=1)
    assert "node 'b' has targets ['red', 1]" in refused(y=["red", 1])
    assert "node 'b' has targets [[1], [1, 2]]" in refused(y=[[1], [1, 2]])
    assert "node 'b' has 4 targets where node 'a' has 2" in refused(y=np.eye(2))
    assert "'x' of node 'b' cannot be read as an array" in refused(x=[[1], [1, 2]])
    with pytest.raises(GsscError, match="takes a NetworkX graph, not list"):
        Graph.from_networkx([1, 2])  # type: ignore[arg-type]


def test_networkx_attributes_that_nothing_has() -> None:
    networkx = pytest.importorskip("networkx")
    network = networkx.Graph()
    network.add_edge("a", "b", strength=2.0)
    for name in "ab":
        network.add_node(name, x=[1.0], kind="k", part="train")
    with pytest.raises(GsscError, match="label='knid': no node has such an attribute: did you mean 'kind'?"):
        Graph.from_networkx(network, label="knid")
    with pytest.raises(GsscError, match=r"split='prat': .* did you mean 'part'\? \(to name the split"):
        Graph.from_networkx(network, split="prat")
    with pytest.raises(GsscError, match="weight='strenght': no edge has .* did you mean 'strength'?"):
        Graph.from_networkx(network, weight="strenght")
    with pytest.raises(GsscError, match="weight='w': no edge has such an attribute: the edges have no attributes"):
        Graph.from_networkx(networkx.path_graph(2), features=None, weight="w")
    graph = Graph.from_networkx(network, label="kind", split="part", weight="strength")
    assert (graph.class_names, graph.train.tolist(), graph.edge_weight) == (("k",), [0, 1], [2.0])
    assert Graph.from_networkx(network).num_classes == 0  # y is the default: without it, no label is known


def test_networkx_as_people_name_things() -> None:
    networkx = pytest.importorskip("networkx")
    grid = networkx.grid_2d_graph(2, 2)
    for name, part in zip(grid, ("Train", "valid", "TEST", "none"), strict=True):
        grid.add_node(name, x=[1.0], y=0, split=part)
    graph = Graph.from_networkx(grid)
    assert [part.tolist() for part in (graph.train, graph.val, graph.test)] == [[0], [1], [2]]
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]


def test_scipy_refusals() -> None:
    with pytest.raises(GsscError, match="square SciPy sparse matrix"):
        Graph.from_scipy(np.eye(2), np.eye(2))
    with pytest.raises(GsscError, match=r"adjacency has shape \(2, 2\) for 3 nodes"):
        Graph.from_scipy(sp.csr_matrix(np.ones((2, 2))), np.eye(3))
    with pytest.raises(GsscError, match="features cannot be read as an array"):
        Graph.from_scipy(sp.csr_matrix(np.ones((3, 3))), [[1], [1, 2], [3]])


def test_plain_npz_of_a_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.eye(3), edge_index=[[0, 1], [1, 2]], y=["a", "b", ""], train_mask=[True, True, False])
    graph = Graph.load(path)
    assert (graph.name, graph.split, graph.class_names) == ("mine", "from file", ("a", "b"))
    assert graph.train.tolist() == [0, 1]
    assert len(graph.val) == 0


def test_a_mask_of_numbers_is_a_mask_on_two_nodes_too(tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, x=np.eye(2), edge_index=[[0], [1]], y=[0, 1], train_mask=np.array([0, 1], dtype=np.uint8))
    assert Graph.load(path).train.tolist() == [1]


def test_byte_text_is_utf8(tmp_path: Path) -> None:
    path = tmp_path / "bytes.npz"
    texts = {"node_id": ["é", "b"], "class_names": ["p", "é"], "feature_names": ["é", "x"], "name": "é"}
    arrays = {key: np.char.encode(np.array(text), "utf-8") for key, text in texts.items()}
    np.savez(path, x=np.eye(2), edge_index=[[0], [1]], y=[0, 1], **arrays)
    graph = Graph.load(path)
    assert (graph.name, graph.class_names, graph.feature_names) == ("é", ("p", "é"), ("é", "x"))
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["é", "b"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.eye(2)}, "no key 'edge_index'"),
        ({"edge_index": [[0], [1]], "x_data": [1.0]}, "has no features"),
        ({"x": np.array([[{}], [1]], dtype=object), "edge_index": [[0], [1]]}, "pickled objects, which are never read"),
        (
            {"edge_index": [[0], [1]], "x_data": [1.0], "x_indices": [9], "x_indptr": [0, 1, 1], "x_shape": [2, 2]},
            "not a valid CSR matrix",
        ),
        (
            {"x": np.eye(2), "edge_index": [[0], [1]], "class_names": np.array([b"a", b"\xff"])},
            "an entry of class_names is b'.xff', which is not UTF-8",
        ),
        ({"x": np.eye(2), "edge_index": [[0], [1]], "name": np.array(b"\xff")}, "name is b'.xff'"),
        ({"x": np.array(1.0), "edge_index": [[0], [1]], "train_mask": [1]}, "features have shape"),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(GsscError, match=message):
        Graph.load(path)


def test_damaged_npz(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    Graph(np.eye(50), [[0], [1]]).save(whole)
    content = whole.read_bytes()
    for cut in (0, 10, len(content) // 2, len(content) - 5):
        path = tmp_path / "cut.npz"
        path.write_bytes(content[:cut])
        with pytest.raises(GsscError, match="cannot be read as .npz"):
            Graph.load(path)
    with pytest.raises(GsscError, match="does not exist"):
        Graph.load(tmp_path / "absent.npz")
    np.save(tmp_path / "single.npy", np.eye(2))
    with pytest.raises(GsscError, match="a single array"):
        Graph.load(tmp_path / "single.npy")


def test_npz_with_damaged_entries(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    np.savez(whole, x=np.eye(2), edge_index=[[0], [1]])
    content = whole.read_bytes()
    entry = content.index(b"PK\x01\x02")  # the first entry of the archive's list
    path = tmp_path / "damaged.npz"
    for offset, value in ((10, 99), (8, 1)):  # compression method, "is encrypted"
        damaged = bytearray(content)
        damaged[entry + offset] = damaged[offset - 2] = value
        path.write_bytes(damaged)
        with pytest.raises(GsscError, match="cannot be read as .npz"):
            Graph.load(path)
    np.save(tmp_path / "single.npy", np.eye(2))
    array = tmp_path / "single.npy"
    array.write_bytes(array.read_bytes().replace(b"}", b" ", 1))
    with pytest.raises(GsscError, match="cannot be read as .npz"):
        Graph.load(array)
    with pytest.raises(GsscError, match="is a folder: give the .npz file in it"):
        Graph.load(tmp_path)


def test_save_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    graph = Graph(np.eye(2), [[0], [1]])
    with pytest.raises(GsscError, match=r"must end in \.npz"):
        graph.save(tmp_path / "graph.bin")
    with pytest.raises(GsscError, match="cannot write"):
        graph.save(tmp_path / "no" / "such" / "graph.npz")
