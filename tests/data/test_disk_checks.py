"""Graphs on disk made by hand, with digests that fit: accepted or refused in one line, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gssc.data.build import build_graph
from gssc.data.disk import digest_of, entry_of, open_graph
from gssc.data.synthetic import CsbmStream
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.train.edge_stream import EdgeStream
from gssc.trust.streamed import Sketches

NODES = 400
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_graph(CsbmStream(nodes=NODES, num_edges=2000, features=8, val=100, test=100), tmp_path / "g.graph")
    return tmp_path / "g.graph"


def describe_again(folder: Path, change: Change) -> None:
    """Change graph.json and give it a digest that fits."""
    about = json.loads((folder / "graph.json").read_text())
    del about["digest"]
    change(about)
    (folder / "graph.json").write_text(json.dumps({**about, "digest": digest_of(about)}))


def write_again(folder: Path, name: str, array: np.ndarray) -> None:
    """Replace a file and list it in graph.json."""
    np.save(folder / name, array)
    describe_again(folder, lambda about: about["files"].update({name: entry_of(folder / name)}))


VALUES: list[Any] = [None, 5, -1, True, "x", [1, [2]], {"a": 1}]


@pytest.mark.parametrize("entry", ["name", "split", "setting", "class_names", "cleaning", "files"])
@pytest.mark.parametrize("value", VALUES)
def test_an_entry_of_the_wrong_type_is_refused(folder: Path, entry: str, value: Any) -> None:
    describe_again(folder, lambda about: about.update({entry: value}))
    if (entry, value) in [("name", "x"), ("split", "x"), ("class_names", None)]:
        assert open_graph(folder).num_nodes == NODES
        return
    with pytest.raises(GsscError, match="does not describe a graph|setting"):
        open_graph(folder)


@pytest.mark.parametrize("entry", ["name", "split", "setting", "cleaning", "files"])
def test_a_missing_entry_is_refused(folder: Path, entry: str) -> None:
    describe_again(folder, lambda about: about.pop(entry))
    with pytest.raises(GsscError, match="does not describe a graph"):
        open_graph(folder)


@pytest.mark.parametrize("name", ["edges.npy", "labels.npy"])
@pytest.mark.parametrize("value", [*VALUES, {"bytes": "x"}, {"bytes": None}])
def test_a_file_without_size_shape_or_type_is_refused(folder: Path, name: str, value: Any) -> None:
    describe_again(folder, lambda about: about["files"].update({name: value}))
    with pytest.raises(GsscError, match=f"{name} must have"):
        open_graph(folder)


@pytest.mark.parametrize("part", ["shape", "dtype", "sha256", "bytes"])
@pytest.mark.parametrize("value", [None, -1, [-1], ["a"], {}])
def test_a_part_of_a_file_of_the_wrong_type_is_refused(folder: Path, part: str, value: Any) -> None:
    describe_again(folder, lambda about: about["files"]["train.npy"].update({part: value}))
    with pytest.raises(GsscError, match=r"train\.npy must have"):
        open_graph(folder)


@pytest.mark.parametrize("name", ["../other/edges.npy", "/etc/passwd", "extra.npy", ""])
def test_other_files_are_refused(folder: Path, name: str) -> None:
    describe_again(folder, lambda about: about["files"].update({name: about["files"]["edges.npy"]}))
    with pytest.raises(GsscError, match="is not a file of a graph"):
        open_graph(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("edges.npy", lambda edges: edges.astype(float)),
        ("edges.npy", lambda edges: edges.astype(np.int8)),
        ("edges.npy", lambda edges: edges.astype(bool)),
        ("edges.npy", lambda edges: edges.astype("U8")),
        ("edges.npy", lambda edges: edges[0]),
        ("edges.npy", lambda edges: np.concatenate([edges, edges[:1]])),
        ("features.npy", lambda rows: rows.astype("U5")),
        ("features.npy", lambda rows: rows.astype(np.int64).astype("M8[s]")),
        ("features.npy", lambda rows: rows > 0),
        ("features.npy", lambda rows: np.zeros(rows.shape, dtype=[("a", "f4")])),
        ("features.npy", lambda rows: rows[:, :0]),
        ("features.npy", np.asfortranarray),
        ("labels.npy", lambda labels: np.array(3)),
        ("labels.npy", lambda labels: labels.astype("U5")),
    ],
)
def test_arrays_of_another_kind_are_refused(
    folder: Path, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    write_again(folder, name, change(np.load(folder / name)))
    with pytest.raises(GsscError, match="build"):
        open_graph(folder)


@pytest.mark.parametrize("node", [NODES, 2**31 - 1, -1, -1000])
@pytest.mark.parametrize(
    "read",
    [Graph.homophily, Graph.in_memory, lambda graph: Sketches.of(graph.features, graph.edges)],
)
def test_edges_to_nodes_that_do_not_exist_are_refused(folder: Path, node: int, read: Callable[[Graph], Any]) -> None:
    edges = np.load(folder / "edges.npy")
    edges[1, 5] = node
    write_again(folder, "edges.npy", edges)
    with pytest.raises(GsscError, match=rf"edge \(\d+, {node}\) names a node that does not exist"):
        read(open_graph(folder))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("read", [Graph.in_memory, lambda graph: Sketches.of(graph.features, graph.edges)])
def test_features_that_are_not_finite_are_refused(folder: Path, value: float, read: Callable[[Graph], Any]) -> None:
    features = np.load(folder / "features.npy")
    features[7, 3] = value
    write_again(folder, "features.npy", features)
    with pytest.raises(GsscError, match="row 7 of the features is not finite"):
        read(open_graph(folder))


def full_weight(graph: Graph) -> float:
    return EdgeStream(graph.edges, 64, weight=graph.edge_weight).full_weight()


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("read", [Graph.in_memory, full_weight])
def test_edge_weights_that_no_edge_can_have_are_refused(
    folder: Path, value: float, read: Callable[[Graph], Any]
) -> None:
    weight = np.ones(open_graph(folder).num_edges, np.float32)
    weight[7] = value
    write_again(folder, "edge_weight.npy", weight)
    with pytest.raises(GsscError, match=rf"has the weight {value}: weights must be above 0"):
        read(open_graph(folder))


def test_a_weight_too_few_is_refused(folder: Path) -> None:
    write_again(folder, "edge_weight.npy", np.ones(open_graph(folder).num_edges - 1, np.float32))
    with pytest.raises(GsscError, match="not as many edge weights as edges"):
        open_graph(folder)


def test_names_do_not_reach_a_terminal_as_they_are(folder: Path) -> None:
    describe_again(folder, lambda about: about.update({"name": "a\x1b[2Jb", "split": "\x1b[31m"}))
    graph = open_graph(folder)
    assert (graph.name, graph.split) == ("a\\x1b[2Jb", "\\x1b[31m")
