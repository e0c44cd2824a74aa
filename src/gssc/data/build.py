"""Build a graph on disk in a stream: feature rows, then listed edges to buckets, then buckets to sorted edges.

Files are written to a hidden folder next to the result, ``.NAME.building``, which is renamed at the end. If the process
is killed, the same call resumes from that folder: finished blocks are not read or drawn again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from gssc.data.checks import real_numbers
from gssc.data.disk import DESCRIPTION, FORMAT, VERSION, digest_of, entry_of, is_disk_graph
from gssc.data.edge_sort import BUCKETS, EdgeSort
from gssc.data.graph_stream import GraphStream, NodeFacts
from gssc.data.labels import clean_index, refuse_overlap
from gssc.errors import GsscError
from gssc.files import NO_ROOM, keep_others_out, read_json, sync, write_json

DTYPES = ("float32", "float16")
STATE = "building.json"
ROWS_BETWEEN_STATES = 1 << 18

Progress = Callable[[str, int], None]  # stage, and number of rows, edges, buckets or files done


def build_graph(
    stream: GraphStream,
    out: str | Path,
    *,
    dtype: str = "float32",
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a graph to the folder ``out`` and return the content of its graph.json.

    Args:
        stream: where rows and edges come from.
        out: the folder; it appears only when the graph is complete.
        dtype: of the features, float32 or float16.
        overwrite: replace an existing graph.
        on_progress: called with the stage and the amount of it that is done.
    """
    out = Path(out)
    if dtype not in DTYPES:
        raise GsscError(f"dtype is {dtype!r}: use {' or '.join(DTYPES)}")
    if out.exists() and not (overwrite and is_disk_graph(out)):
        hint = "choose another name or add --overwrite" if is_disk_graph(out) else "not a graph; choose another name"
        raise GsscError(f"{out} exists already: {hint}")
    if stream.width == 0:
        raise GsscError(f"{stream.name} has no features: give at least one column of numbers")
    work = out.with_name(f".{out.name}.building")
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = keep_others_out(work)
        try:
            return Build(stream, work, dtype, on_progress or (lambda stage, done: None)).run(out)
        finally:
            if lock is not None:
                os.close(lock)
    except OSError as error:
        advice = "; free some disk space and run the same command to resume" if error.errno in NO_ROOM else ""
        raise GsscError(f"cannot write {out}: {error.strerror or error}{advice}") from error


class Build:
    """The stages of one build, resumed from its last record."""

    def __init__(self, stream: GraphStream, work: Path, dtype: str, on_progress: Progress):
        self.stream, self.work, self.dtype, self.on_progress = stream, work, np.dtype(dtype), on_progress
        begun = {"signature": stream.signature(), "dtype": dtype, "version": VERSION}
        self.state: dict[str, Any] = read_json(work / STATE) if (work / STATE).exists() else {}
        if self.state.get("begun") != begun:
            for item in work.iterdir():
                item.unlink()
            self.state = {"begun": begun, "rows": 0, "nodes": False, "blocks": 0, "sort": None, "sorted": []}

    def run(self, out: Path) -> dict[str, Any]:
        """Run the stages, move the folder into place and return the content of graph.json."""
        if not self.state["nodes"]:
            self.write_nodes()
        sort = self.list_edges()
        self.sort_buckets(sort)
        cleaning = self.write_edges(sort)
        about = self.describe(asdict(cleaning))
        for item in self.work.iterdir():
            if item.name not in (DESCRIPTION, *about["files"]):
                item.unlink()
        if out.exists():
            shutil.rmtree(out)
        self.work.rename(out)
        sync(out.parent)
        return about

    def write_nodes(self) -> None:
        """Write feature rows block by block, then labels, split and ids of the nodes."""
        path = self.work / "features.npy"
        with NpyAppender(path, self.dtype, (self.stream.width,), self.state["rows"]) as features:
            for block in self.stream.rows(self.state["rows"]):
                features.append(_checked(block, self.dtype, features.rows))
                self.on_progress("rows", features.rows)
                if features.rows - self.state["rows"] >= ROWS_BETWEEN_STATES:
                    features.flush()
                    self.save(rows=features.rows)
            count = features.rows
        facts = self.stream.facts()
        _check_facts(facts, count)
        for name in ("labels", "train", "val", "test", "node_ids"):
            value = getattr(facts, name)
            if value is not None:
                np.save(self.work / f"{name}.npy", np.ascontiguousarray(value), allow_pickle=False)
        names = {name: getattr(facts, name) for name in ("class_names", "feature_names")}
        self.save(
            rows=count,
            nodes=True,
            facts={
                "name": self.stream.name,
                "split": facts.split,
                "setting": facts.setting,
                **{name: list(value) for name, value in names.items() if value is not None},
            },
        )

    def list_edges(self) -> EdgeSort:
        """Write listed edges to bucket files, block by block, and return the sort that holds them."""
        sort = EdgeSort(self.work, self.state["rows"], self.stream.weighted)
        if self.state["sorted"]:
            sort.self_loops = self.state["sort"]["self_loops"]
            return sort
        if self.state["sort"]:
            sort.load_state_dict(self.state["sort"])
        else:
            for path in self.work.glob("bucket-*.bin"):
                path.unlink()
        ids = self.work / "node_ids.npy"
        node_ids = np.load(ids, allow_pickle=False) if ids.exists() else None
        listed = self.state.get("listed", 0)
        for edges, weights in self.stream.edges(self.state["blocks"], node_ids):
            sort.add(edges, weights)
            listed += edges.shape[1]
            self.on_progress("edges", listed)
            self.save(blocks=self.state["blocks"] + 1, listed=listed, sort=sort.state_dict())
        self.save(sort=sort.state_dict())
        return sort

    def sort_buckets(self, sort: EdgeSort) -> None:
        """Sort the buckets that are not sorted yet."""
        for number in range(len(self.state["sorted"]), BUCKETS):
            counts = sort.sort_bucket(number)
            self.save(sorted=[*self.state["sorted"], counts])
            sort.forget_bucket(number)
            self.on_progress("buckets", number + 1)

    def write_edges(self, sort: EdgeSort) -> Any:
        """Concatenate the sorted buckets, in the smallest integer type that holds all node numbers."""
        counts = self.state["sorted"]
        total = sum(count["edges"] for count in counts)
        if total == 0:
            raise GsscError("the graph has no edges: give at least one edge between two different nodes")
        kind = np.int32 if self.state["rows"] <= np.iinfo(np.int32).max else np.int64
        edges = np.lib.format.open_memmap(self.work / "edges.npy", "w+", dtype=kind, shape=(2, total))
        weight = None
        if sort.weighted:
            weight = np.lib.format.open_memmap(self.work / "edge_weight.npy", "w+", dtype=np.float32, shape=(total,))
        done = 0
        for number in range(BUCKETS):
            for part, weights in sort.sorted_edges(number):
                edges[:, done : done + part.shape[1]] = part
                if weight is not None:
                    weight[done : done + part.shape[1]] = weights
                done += part.shape[1]
        edges.flush()
        if weight is not None:
            weight.flush()
        return sort.cleaning(counts)

    def describe(self, cleaning: dict[str, int]) -> dict[str, Any]:
        """Write graph.json, with a digest of every file."""
        files = {}
        for number, path in enumerate(sorted(self.work.glob("*.npy"))):
            sync(path)
            files[path.name] = entry_of(path)
            self.on_progress("digests", number + 1)
        nodes, width = files["features.npy"]["shape"]
        about = {
            "format": FORMAT,
            "version": VERSION,
            **self.state["facts"],
            "nodes": nodes,
            "edges": files["edges.npy"]["shape"][1],
            "features": width,
            "cleaning": cleaning,
            "files": files,
        }
        write_json(self.work / DESCRIPTION, {**about, "digest": digest_of(about)})
        return about

    def save(self, **changes: Any) -> None:
        """Record the progress of the build atomically. Only a power cut can lose the record, and with it the build."""
        self.state.update(changes)
        temporary = self.work / f"{STATE}.new"
        temporary.write_text(json.dumps(self.state), encoding="utf-8")
        temporary.replace(self.work / STATE)


class NpyAppender:
    """An .npy file that grows row by row; its header is completed at the end.

    Args:
        path: the file.
        dtype: of the values.
        shape: of one row.
        rows: number of rows to keep of an existing file.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], rows: int = 0):
        self.dtype, self.shape, self.rows = dtype, shape, rows
        self.file: IO[bytes] = path.open("r+b" if rows else "w+b")
        start = self._write_header()
        self.file.truncate(start + rows * dtype.itemsize * int(np.prod(shape)))
        self.file.seek(0, os.SEEK_END)

    def __enter__(self) -> NpyAppender:
        return self

    def __exit__(self, *_: object) -> None:
        self._write_header()
        self.file.close()

    def append(self, block: np.ndarray) -> None:
        """Append a block of rows."""
        self.file.write(np.ascontiguousarray(block, dtype=self.dtype).data)
        self.rows += len(block)

    def flush(self) -> None:
        """Write buffered rows to the file."""
        self.file.flush()

    def _write_header(self) -> int:
        """Write the header, which leaves room for the number of rows to grow, and return its length."""
        self.file.seek(0)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.shape)}
        np.lib.format.write_array_header_1_0(self.file, header)
        return self.file.tell()


def _checked(block: np.ndarray, dtype: np.dtype[Any], first: int) -> np.ndarray:
    block = real_numbers(np.asarray(block), first)
    with np.errstate(over="ignore"):
        rows = block.astype(dtype)
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        advice = "use --dtype float32" if dtype == np.float16 and np.isfinite(block[row, column]) else "fill or drop it"
        raise GsscError(
            f"features row {first + row}, column {column} is {block[row, column]}, which {dtype} cannot hold: {advice}"
        )
    return rows


def _check_facts(facts: NodeFacts, nodes: int) -> None:
    if nodes == 0:
        raise GsscError("the graph has no nodes: give at least one row of features")
    if len(facts.labels) != nodes:
        raise GsscError(f"there are {len(facts.labels)} labels for {nodes} nodes: give one per node, -1 where unknown")
    parts = {part: clean_index(getattr(facts, part), nodes, part) for part in ("train", "val", "test")}
    refuse_overlap(parts)
