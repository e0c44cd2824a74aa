"""Graphs on disk: built from every source alike, opened without reading, resumed after a kill, damaged and refused."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gssc.cli.main import main
from gssc.data import csbm
from gssc.data.build import build_graph
from gssc.data.checks import clean_edges
from gssc.data.disk import check_digests, digest_of, open_graph, recorded_digest
from gssc.data.edge_sort import BUCKETS, EdgeSort
from gssc.data.graph_stream import InMemoryStream
from gssc.data.npz import NpzStream
from gssc.data.synthetic import CsbmStream
from gssc.data.table_stream import TableStream
from gssc.data.tables import import_tables
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.progress_bar import ProgressBar

GRAPH = csbm(nodes=120, degree=5, features=4, classes=3, per_class=5)
FIELDS = ("features", "edges", "labels", "train", "val", "test", "edge_weight")


def same(one: Graph, other: Graph, fields: tuple[str, ...] = FIELDS) -> bool:
    def equal(name: str) -> bool:
        first, second = getattr(one, name), getattr(other, name)
        return (first is None and second is None) or np.array_equal(first, second)

    return all(map(equal, fields))


def built(folder: Path, source: Any = None, **options: Any) -> Path:
    build_graph(source or InMemoryStream(GRAPH), folder / "g.graph", **options)
    return folder / "g.graph"


def test_a_built_graph_is_the_graph_it_was_built_from(tmp_path: Path) -> None:
    graph = Graph.load(built(tmp_path))
    assert graph.on_disk
    assert isinstance(graph.features, np.memmap)
    assert graph.edges.dtype == np.int32
    assert same(graph, GRAPH)
    assert same(graph.in_memory(), GRAPH)
    assert graph.in_memory().edges.dtype == np.int64
    assert graph.with_(split="other").on_disk


@pytest.mark.parametrize("kind", ["int32", "uint8", "uint64", "<U4"])
def test_ids_of_any_kind_are_kept(tmp_path: Path, kind: str) -> None:
    graph = GRAPH.with_(node_ids=np.arange(GRAPH.num_nodes).astype(kind))
    build_graph(InMemoryStream(graph), tmp_path / "g.graph")
    found = open_graph(tmp_path / "g.graph").node_ids
    assert np.array_equal(np.asarray(found), np.asarray(graph.node_ids))


def test_a_build_from_npz_reads_it_in_a_stream(tmp_path: Path) -> None:
    weighted = GRAPH.with_(edges=GRAPH.edges, edge_weight=np.linspace(0.5, 2, GRAPH.num_edges))
    weighted.save(tmp_path / "mine.npz")
    graph = Graph.load(built(tmp_path, NpzStream(tmp_path / "mine.npz")))
    assert same(graph, weighted)
    assert graph.name == "csbm"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_are_built_as_they_are_imported(tmp_path: Path, kind: str, named: bool) -> None:
    def name(node: int) -> Any:
        return f"n{node}" if named else 10 * node

    labels = np.where(np.arange(120) % 7 == 0, "", np.array(list("abc"))[GRAPH.labels])
    nodes = [["id", "x", "y", "label"], *([name(i), *GRAPH.features[i, :2].tolist(), labels[i]] for i in range(120))]
    both = np.concatenate([GRAPH.edges, GRAPH.edges[::-1, :9], GRAPH.edges[:, :4]], axis=1).T.tolist()
    edges = [["source", "target"], *([name(u), name(v)] for u, v in both)]
    for table, rows in (("nodes", nodes), ("edges", edges)):
        write_table(tmp_path / f"{table}.{kind}", rows)
    paths = tmp_path / f"nodes.{kind}", tmp_path / f"edges.{kind}"
    imported, graph = import_tables(*paths), Graph.load(built(tmp_path, TableStream(*paths)))
    assert same(graph, imported, (*FIELDS, "node_ids"))
    for field in ("class_names", "feature_names", "cleaning", "split", "name"):
        assert getattr(graph, field) == getattr(imported, field), field


def write_table(path: Path, rows: list[list[Any]]) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    names, *cells = rows
    pq.write_table(pa.table([list(column) for column in zip(*cells, strict=True)], names=names), path)


def test_an_edge_to_an_unknown_node_is_named(tmp_path: Path) -> None:
    write_table(tmp_path / "n.csv", [["id", "x"], [1, 0.5], [2, 0.5]])
    write_table(tmp_path / "e.csv", [["source", "target"], [1, 2], [2, 3]])
    with pytest.raises(GsscError, match=r"e\.csv:3: the edge names node '3'"):
        built(tmp_path, TableStream(tmp_path / "n.csv", tmp_path / "e.csv"))


@pytest.mark.parametrize("name", ["007", "99999999999999999999", "x"])
def test_an_id_that_is_no_integer_of_the_nodes_is_unknown(tmp_path: Path, name: str) -> None:
    (tmp_path / "n.csv").write_text("id,x\n7,1\n8,2\n")
    (tmp_path / "e.csv").write_text(f"source,target\n7,8\n7,{name}\n")
    with pytest.raises(GsscError, match=f"e.csv:3: the edge names node '{name}'"):
        built(tmp_path, TableStream(tmp_path / "n.csv", tmp_path / "e.csv"))


def test_a_header_that_begins_like_an_id_is_a_header(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,x\na1,1\nb2,2\nc3,3\n")
    (tmp_path / "e.csv").write_text("a12,b23\na1,c3\n")
    graph = Graph.load(built(tmp_path, TableStream(tmp_path / "n.csv", tmp_path / "e.csv")))
    assert graph.edges.tolist() == [[0], [2]]


def test_names_stored_as_bytes_are_built_as_they_are_loaded(tmp_path: Path) -> None:
    arrays = {"x": np.eye(3), "edge_index": [[0, 1], [1, 2]], "y": [0, 1, 0], "class_names": [b"a", b"b"], "name": b"n"}
    np.savez(tmp_path / "mine.npz", **arrays)
    graph, loaded = Graph.load(built(tmp_path, NpzStream(tmp_path / "mine.npz"))), Graph.load(tmp_path / "mine.npz")
    assert (graph.class_names, graph.name) == (loaded.class_names, loaded.name) == (("a", "b"), "n")


@pytest.mark.parametrize("kind", ["S3", ">i8", ">U2", "float64"])
def test_ids_of_a_file_are_built_as_they_are_loaded(tmp_path: Path, kind: str) -> None:
    arrays = {"x": np.eye(3), "edge_index": [[0, 1], [1, 2]], "y": [0, 1, 0], "node_id": np.arange(3).astype(kind)}
    np.savez(tmp_path / "mine.npz", **arrays)
    graph, loaded = Graph.load(built(tmp_path, NpzStream(tmp_path / "mine.npz"))), Graph.load(tmp_path / "mine.npz")
    assert np.array_equal(np.asarray(graph.node_ids), np.asarray(loaded.node_ids))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"feature_names": ["a", "b"]}, "2 feature_names for 3 features"),
        ({"node_id": [1, 2]}, "node_ids have shape"),
        ({"setting": "induktiv"}, "setting 'induktiv' is not known"),
        ({"train_mask": [False, False, True]}, "train holds 1 node without a label"),
    ],
)
def test_facts_that_no_graph_has_are_refused_before_the_edges_are_read(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    arrays = {"x": np.eye(3), "edge_index": [[0, 1], [1, 2]], "y": [0, 1, -1]}
    np.savez(tmp_path / "mine.npz", **{**arrays, **changed})
    with pytest.raises(GsscError, match=told):
        built(tmp_path, NpzStream(tmp_path / "mine.npz"))
    assert not (tmp_path / "g.graph").exists()


def test_csbm_names_the_option_that_is_no_count() -> None:
    with pytest.raises(GsscError, match="classes must be a whole number"):
        CsbmStream(classes=2.5)  # type: ignore[arg-type]


def test_csbm_is_drawn_with_its_homophily_and_signal(tmp_path: Path) -> None:
    source = CsbmStream(nodes=3000, num_edges=20_000, classes=4, homophily=0.7, signal=5, features=8, val=50, test=50)
    graph = Graph.load(built(tmp_path, source, dtype="float16"))
    assert graph.features.dtype == np.float16
    assert 19_000 < graph.num_edges <= 20_000
    assert abs(graph.homophily() - 0.7) < 0.02
    means = np.stack([np.asarray(graph.features[graph.labels == c], np.float32).mean(0) for c in range(4)])
    assert np.allclose(np.linalg.norm(means, axis=1), 5, atol=0.3)
    assert [len(part) for part in (graph.train, graph.val, graph.test)] == [80, 50, 50]


# Sorting -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most_records", [7, 10_000])
def test_sorting_on_disk_gives_what_sorting_in_memory_gives(tmp_path: Path, most_records: int) -> None:
    rng = np.random.default_rng(0)
    listed, weights = rng.integers(0, 40, (2, 500)), rng.random(500).astype(np.float32)
    expected, expected_weights, cleaning = clean_edges(listed, 40, weights)
    sort = EdgeSort(tmp_path, 40, weighted=True, most_records=most_records)
    for start in range(0, 500, 100):
        sort.add(listed[:, start : start + 100], weights[start : start + 100])
    counts = [sort.sort_bucket(number) for number in range(BUCKETS)]
    parts = [part for number in range(BUCKETS) for part in sort.sorted_edges(number, counts[number])]
    assert np.array_equal(np.concatenate([edges for edges, _ in parts], axis=1), expected)
    assert np.array_equal(np.concatenate([weight for _, weight in parts]), expected_weights)  # type: ignore[type-var]
    assert sort.cleaning(counts) == cleaning


# Kills and damage ----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.parametrize("stage", ["rows", "edges", "buckets", "digests"])
def test_a_killed_build_goes_on_to_the_same_files(tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssc.data.graph_stream.ROWS", 100)
    monkeypatch.setattr("gssc.data.graph_stream.EDGES", 300)
    monkeypatch.setattr("gssc.data.build.ROWS_BETWEEN_STATES", 100)
    source = CsbmStream(nodes=500, num_edges=1500, features=3, val=10, test=10)
    whole = build_graph(source, tmp_path / "whole.graph")
    calls: list[str] = []

    def kill(now: str, done: int) -> None:
        calls.append(now)
        if calls.count(stage) == 3:
            raise Killed

    with pytest.raises(Killed):
        build_graph(source, tmp_path / "g.graph", on_progress=kill)
    assert not (tmp_path / "g.graph").exists()
    seen: list[str] = []
    resumed = build_graph(source, tmp_path / "g.graph", on_progress=lambda now, done: seen.append(now))
    assert resumed == whole
    assert seen.count(stage) < 64 - 2 if stage == "buckets" else seen.count("rows") + calls.count("rows") <= 6
    assert {item.name for item in (tmp_path / "g.graph").iterdir()} == {"graph.json", *resumed["files"]}
    assert not (tmp_path / ".g.graph.building").exists()


def killed_build(tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> CsbmStream:
    """Kill a build of g.graph when it reports a stage for the third time, and return its source."""
    monkeypatch.setattr("gssc.data.graph_stream.ROWS", 100)
    monkeypatch.setattr("gssc.data.graph_stream.EDGES", 300)
    monkeypatch.setattr("gssc.data.build.ROWS_BETWEEN_STATES", 100)
    source, calls = CsbmStream(nodes=500, num_edges=1500, features=3, val=10, test=10), 0

    def kill(now: str, done: int) -> None:
        nonlocal calls
        calls += now == stage
        if calls == 3:
            raise Killed

    with pytest.raises(Killed):
        build_graph(source, tmp_path / "g.graph", on_progress=kill)
    return source


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("rows", "features.npy"),
        ("edges", "features.npy"),
        ("edges", "labels.npy"),
        ("edges", "bucket-00.bin"),
        ("digests", "sorted-00.bin"),
    ],
)
@pytest.mark.parametrize("left", [0.5, None])
def test_a_file_of_a_killed_build_that_was_cut_short_is_not_filled_with_zeros(
    tmp_path: Path, stage: str, name: str, left: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power cut, which may keep the record of a build and lose what was written before it."""
    source = killed_build(tmp_path, stage, monkeypatch)
    path = tmp_path / ".g.graph.building" / name
    if left is None:
        path.unlink()
    else:
        os.truncate(path, int(left * path.stat().st_size))
    with pytest.raises(GsscError, match="was cut short; delete"):
        build_graph(source, tmp_path / "g.graph")
    assert not (tmp_path / "g.graph").exists()


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("rows", "features.npy"),
        ("edges", "features.npy"),
        ("edges", "labels.npy"),
        ("edges", "train.npy"),
        ("edges", "bucket-00.bin"),
        ("buckets", "bucket-40.bin"),
        ("digests", "sorted-00.bin"),
        ("digests", "features.npy"),
    ],
)
def test_a_flipped_bit_in_a_killed_build_is_found(
    tmp_path: Path, stage: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = killed_build(tmp_path, stage, monkeypatch)
    path = tmp_path / ".g.graph.building" / name
    content = bytearray(path.read_bytes())
    content[4 if name.endswith(".bin") else 200] ^= 1  # what was written last is not recorded yet
    path.write_bytes(bytes(content))
    with pytest.raises(GsscError, match=f"{name} is damaged"):
        build_graph(source, tmp_path / "g.graph")
    assert not (tmp_path / "g.graph").exists()


def test_a_flipped_bit_in_the_record_of_a_killed_build_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = killed_build(tmp_path, "edges", monkeypatch)
    record = tmp_path / ".g.graph.building" / "building.json"
    state = json.loads(record.read_text())
    record.write_text(json.dumps({**state, "rows": state["rows"] - 1}))
    assert build_graph(source, tmp_path / "g.graph") == build_graph(source, tmp_path / "whole.graph")


@pytest.mark.parametrize("folder", [".g.graph.building", ".g.graph.replaced", "g.graph"])
@pytest.mark.parametrize("name", ["notes.txt", "mine.npy", "sub/features.npy"])
def test_files_of_others_are_not_deleted(tmp_path: Path, folder: str, name: str) -> None:
    if folder == "g.graph":
        built(tmp_path)
    path = tmp_path / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    with pytest.raises(GsscError, match=f"holds '{name.partition('/')[0]}', which is not a file of a graph"):
        built(tmp_path, overwrite=True)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(("step", "every"), [("rename", 1), ("unlink", 29)])
def test_a_build_that_is_killed_while_it_replaces_a_graph_goes_on(
    tmp_path: Path, step: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at many such steps in turn; the folder has the old graph, the new one, or does not exist."""
    whole = build_graph(InMemoryStream(GRAPH), tmp_path / "whole.graph")
    other = CsbmStream(nodes=200, num_edges=400, features=3, val=10, test=10)
    usual, ended = getattr(Path, step), False
    for kill_at in range(0, 1000, every):
        build_graph(other, tmp_path / "g.graph", overwrite=True)
        calls = 0

        def kill(path: Path, *args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == kill_at + 1:  # noqa: B023
                raise Killed
            return usual(path, *args, **options)

        with monkeypatch.context() as patched:
            patched.setattr(Path, step, kill)
            try:
                built(tmp_path, overwrite=True)
                ended = True
            except Killed:
                if (tmp_path / "g.graph").exists():
                    check_digests(tmp_path / "g.graph")
        assert build_graph(InMemoryStream(GRAPH), tmp_path / "g.graph", overwrite=True) == whole
        assert [item.name for item in sorted(tmp_path.iterdir())] == ["g.graph", "whole.graph"]
        if ended:
            break
    assert ended


def test_another_source_starts_over(tmp_path: Path) -> None:
    def kill(now: str, done: int) -> None:
        if now == "buckets":
            raise Killed

    with pytest.raises(Killed):
        build_graph(InMemoryStream(GRAPH), tmp_path / "g.graph", on_progress=kill)
    other = CsbmStream(nodes=200, num_edges=400, features=3, val=10, test=10)
    build_graph(other, tmp_path / "g.graph")
    assert Graph.load(tmp_path / "g.graph").num_nodes == 200


@pytest.mark.parametrize("record", ["", "{", "null", "[]", "{}", '{"begun": 5}'])
def test_a_build_whose_record_is_lost_starts_over(tmp_path: Path, record: str) -> None:
    """A power cut may leave an empty file; the same command must then start over."""
    work = tmp_path / ".g.graph.building"
    work.mkdir()
    (work / "building.json").write_text(record)
    built(tmp_path)
    assert not work.exists()
    assert open_graph(tmp_path / "g.graph").num_nodes == GRAPH.num_nodes


@pytest.mark.parametrize("target", ["whole.graph", "nowhere"])
def test_a_symbolic_link_is_refused_before_the_work(tmp_path: Path, target: str) -> None:
    build_graph(InMemoryStream(GRAPH), tmp_path / "whole.graph")
    (tmp_path / "g.graph").symlink_to(tmp_path / target)
    with pytest.raises(GsscError, match="is a symbolic link"):
        built(tmp_path, overwrite=True)
    assert not (tmp_path / ".g.graph.building").exists()


def test_a_folder_that_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "g.graph").mkdir()
    with pytest.raises(GsscError, match="not a graph"):
        built(tmp_path)
    (tmp_path / "g.graph").rmdir()
    built(tmp_path)
    with pytest.raises(GsscError, match="--overwrite"):
        built(tmp_path)
    built(tmp_path, CsbmStream(nodes=200, num_edges=400, features=3, val=10, test=10), overwrite=True)
    assert Graph.load(tmp_path / "g.graph").num_nodes == 200


def damaged(folder: Path) -> Iterator[tuple[str, str]]:
    """Damage the folder in one way after the other; gives the damage and what the error must mention."""
    path = folder / "edges.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-8])
    yield "cut short", "cut short"
    path.unlink()
    yield "missing", "missing"
    path.write_bytes(content)
    about = (folder / "graph.json").read_text()
    (folder / "graph.json").write_text(about[: len(about) // 2])
    yield "half a description", "not JSON"
    (folder / "graph.json").write_text(json.dumps({"format": "other"}))
    yield "another description", "does not describe a graph"
    changed = json.loads(about)
    changed["files"]["edges.npy"]["shape"] = [2, 1]
    (folder / "graph.json").write_text(json.dumps(changed))
    yield "another shape", "its digest differs"
    del changed["digest"]
    (folder / "graph.json").write_text(json.dumps({**changed, "digest": digest_of(changed)}))
    yield "another shape by design", "not what graph.json lists"


def test_damage_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = built(tmp_path)
    for damage, mentioned in damaged(folder):
        with pytest.raises(GsscError, match=mentioned):
            open_graph(folder)
        assert main(["data", "info", str(folder)]) != 0, damage
        error = capsys.readouterr().err
        assert mentioned in error.replace("\n", " "), damage
        assert "Traceback" not in error


def test_a_flipped_bit_is_found_by_its_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = built(tmp_path)
    check_digests(folder)
    path = folder / "features.npy"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    open_graph(folder)  # sizes are right
    with pytest.raises(GsscError, match=r"features\.npy is damaged"):
        check_digests(folder)
    assert main(["data", "info", str(folder), "--check"]) != 0
    assert "damaged" in capsys.readouterr().err
    width = open_graph(folder).num_features
    model = DeployedModel([(np.zeros((2, width), dtype=np.float32), np.zeros(2, dtype=np.float32))], ["a", "b"])
    model.save(tmp_path / "model")
    out = tmp_path / "predictions.csv"
    command = ["predict", str(tmp_path / "model"), str(folder), "--out", str(out)]
    assert main(command) != 0
    assert "features.npy is damaged" in capsys.readouterr().err.replace("\n", " ")
    assert not out.exists()
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    assert main(command) == 0


@pytest.mark.parametrize("key", ["x", "edge_index", "y"])
def test_any_damaged_byte_of_an_npz_is_one_line(tmp_path: Path, key: str) -> None:
    """The compressed bytes of an array: some damage is found by zlib, the rest by the checksum."""
    GRAPH.save(tmp_path / "g.npz")
    content = (tmp_path / "g.npz").read_bytes()
    begin = content.index(f"{key}.npy".encode()) + len(f"{key}.npy") + 20  # past the head of the entry
    refused = []
    for place in range(begin, begin + 60):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        (tmp_path / "x.npz").write_bytes(changed)
        try:
            folder = built(tmp_path, NpzStream(tmp_path / "x.npz"), overwrite=True)
            assert same(Graph.load(folder), GRAPH)  # a bit without a meaning
        except GsscError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert all("x.npz" in message for message in refused)


def test_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    large = Graph([[1.0], [1e5]], edges=[[0], [1]])
    with pytest.raises(GsscError, match="float16 cannot hold: use --dtype float32"):
        built(tmp_path, InMemoryStream(large), dtype="float16")
    with pytest.raises(GsscError, match="float32 or float16"):
        built(tmp_path, InMemoryStream(large), dtype="int8")


def test_digests_are_known_without_reading(tmp_path: Path) -> None:
    graph = Graph.load(built(tmp_path))
    assert recorded_digest(graph.features) is not None
    assert recorded_digest(np.zeros(3)) is None
    assert recorded_digest(graph.features[:3]) is None


# Command line --------------------------------------------------------------------------------------------------------


def test_build_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    update = ProgressBar.update
    monkeypatch.setattr(ProgressBar, "update", lambda bar, done: [update(bar, done), lines.append(bar.count_text())])
    out = str(tmp_path / "c.graph")
    options = ["--nodes", "400", "--edges", "900", "--features", "3", "--val", "9", "--test", "9", "--out", out]
    assert main(["data", "build", "csbm", *options, "--check"]) == 0
    shown = capsys.readouterr()
    assert "400" in shown.out
    counts = [text for text in lines if not text.endswith("files")]
    assert [counts[0], counts[1], counts[-1]] == ["400 of 400 rows", "900 of 900 edges", "64 of 64 groups of edges"]
    assert main(["data", "info", out]) == 0
    assert re.search(r"on disk \(\d[\d.,]* (bytes|kB)\)", capsys.readouterr().out)
    for wrong, mentioned in (
        (["csbm", "--edges", "many", "--out", "x"], "number of edges"),
        (["n.csv", "--out", "x"], "--edges"),
        (["n.csv", "--edges", "e.csv", "--nodes", "3", "--out", "x"], "option of csbm"),
        (["korra", "--out", "x"], "did you mean"),
    ):
        assert main(["data", "build", *wrong]) != 0
        assert mentioned in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"x": np.empty((4, 0))}, "bad has no features"),
        ({"x": np.eye(4) * 1j}, "features have dtype complex128: give real numbers"),
        ({"x": np.full((4, 2), "2020-01-01", dtype="M8[D]")}, "give real numbers"),
        ({"x": [["1", "2"], ["3", "four"], ["5", "6"], ["7", "8"]]}, r"row 1, column 1 holds .*four.*not a number"),
        ({"edge_weight": [1.0, np.nan]}, r"weight of edge \(1, 2\) is nan: weights must be above 0"),
        ({"edge_weight": [0.0, 1.0]}, r"weight of edge \(0, 1\) is 0.0"),
        ({"edge_weight": [1.0, 1e300]}, r"weight of edge \(1, 2\) is 1e\+300"),
        ({"edge_weight": [1.0]}, r"edge_weight is float64\[1\] for 2 edges"),
        ({"edge_weight": ["a", "b"]}, "it must hold one number per edge"),
    ],
)
def test_what_memory_refuses_is_not_built(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    arrays = {"x": np.eye(4), "edge_index": [[0, 1], [1, 2]], "y": [0, 1, 0, 1], "train_mask": [1, 1, 0, 0], **changed}
    np.savez(tmp_path / "bad.npz", **{name: np.asarray(values) for name, values in arrays.items()})
    with pytest.raises(GsscError, match=told):
        build_graph(NpzStream(tmp_path / "bad.npz"), tmp_path / "bad.graph")
    with pytest.raises(GsscError):
        Graph.load(tmp_path / "bad.npz")


def test_tables_that_change_while_they_are_read_are_not_built(tmp_path):
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    text = "id,x,label\n" + "".join(f"n{number},{number}.5,{'ab'[number % 2]}\n" for number in range(20))
    nodes.write_text(text)
    edges.write_text("source,target\n" + "".join(f"n{number},n{number + 1}\n" for number in range(19)))

    def change(stage: str, done: int) -> None:
        if stage == "rows":
            nodes.write_text(text.replace(".5,", ".25,"))

    with pytest.raises(GsscError, match="changed while it was read; run the same command again"):
        build_graph(TableStream(nodes, edges), tmp_path / "g.graph", on_progress=change)
    assert not (tmp_path / "g.graph").exists()
    build_graph(TableStream(nodes, edges), tmp_path / "g.graph")
    assert Graph.load(tmp_path / "g.graph").features[0, 0] == 0.25


PEAK = """
import sys
from pathlib import Path
from gssc.data.build import build_graph
from gssc.data.table_stream import TableStream
build_graph(TableStream(Path(sys.argv[1]), Path(sys.argv[2]), label_column="label", split="per-class:2"), sys.argv[3])
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024)
"""


def peak_of_a_build(nodes: Path) -> float:
    """Return the peak memory of a build in a process of its own, in megabytes."""
    edges = nodes.with_name("edges.csv")
    edges.write_text("source,target\n0,1\n")
    command = [sys.executable, "-c", PEAK, str(nodes), str(edges), str(nodes.with_suffix(".graph"))]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory in /proc")
def test_memory_does_not_grow_with_a_row_group(tmp_path: Path) -> None:
    """A Parquet file with one row group is not read whole: 80 MB of it must not show."""
    peaks = []
    for rows in (40_000, 300_000):
        columns = {f"f{number}": np.random.default_rng(number).random(rows) for number in range(40)}
        path = tmp_path / f"{rows}.parquet"
        table = pa.table({"id": np.arange(rows), "label": np.arange(rows) % 3, **columns})
        pq.write_table(table, path, row_group_size=rows, compression="none", use_dictionary=False)
        peaks.append(peak_of_a_build(path))
    assert path.stat().st_size > 80e6
    assert peaks[1] < peaks[0] + 40, peaks


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory in /proc")
def test_memory_does_not_grow_with_the_width_of_a_text_table(tmp_path: Path) -> None:
    """Rows of 1,000 features are read a thousand at a time, where 16,384 would take 1 GB."""
    cells = ",".join(f"{value:.4f}" for value in np.random.default_rng(0).standard_normal(1000))
    for rows in (3_000, 9_000):
        lines = [f"{row},{row % 3},{cells}\n" for row in range(rows)]
        names = ",".join(f"f{number}" for number in range(1000))
        (tmp_path / f"{rows}.csv").write_text(f"id,label,{names}\n" + "".join(lines))
    assert peak_of_a_build(tmp_path / "9000.csv") < peak_of_a_build(tmp_path / "3000.csv") + 60
