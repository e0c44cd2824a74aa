"""Build a graph on disk in a stream: feature rows, then listed edges to buckets, then buckets to sorted edges.

Files are written to a hidden folder next to the result, ``.NAME.building``, which is renamed at the end. If the process
is killed, the same call resumes from that folder: finished blocks are not read or drawn again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.checks import real_numbers
from gssc.data.disk import DESCRIPTION, FORMAT, VERSION, check_digests, describe, digest_of, entry_of, is_disk_graph
from gssc.data.disk_checks import KINDS
from gssc.data.edge_sort import BUCKETS, EdgeSort
from gssc.data.graph_stream import GraphStream, NodeFacts
from gssc.data.npy_files import NpyAppender, NpyColumns, checksum_of, cut_short, damaged, write_array
from gssc.errors import GsscError
from gssc.files import NO_ROOM, keep_others_out, read_json, sync, write_json
from gssc.graph import Graph

FEATURES = "features.npy"
DTYPES = ("float32", "float16")
STATE, RECORD = "building.json", 3  # the record of a build, and the version of its form
OF_GRAPHS = (DESCRIPTION, *KINDS)  # names of all files that a graph may have
# What else a build writes: its record, edges that are not sorted or joined yet, and graph.json before it is complete.
OF_BUILDS = re.compile(r"building\.json(\.new)?|bucket-\d\d\.bin|sorted-\d\d\.(bin|part)|\.graph\.[0-9a-f]+\.json")
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
        stream: source of the rows and edges.
        out: the folder; it appears only when the graph is complete.
        dtype: data type of the features, float32 or float16.
        overwrite: replace an existing graph.
        on_progress: called with the stage and the amount of work done in it.
    """
    out = Path(out)
    if dtype not in DTYPES:
        raise GsscError(f"dtype is {dtype!r}: use {' or '.join(DTYPES)}")
    if out.exists() and not (overwrite and is_disk_graph(out)):
        hint = "choose another name or add --overwrite" if is_disk_graph(out) else "not a graph; choose another name"
        raise GsscError(f"{out} exists already: {hint}")
    if out.is_symlink():
        raise GsscError(f"{out} is a symbolic link: give the folder itself or another name")
    if stream.width == 0:
        raise GsscError(f"{stream.name} has no features: give at least one column of numbers")
    work = out.with_name(f".{out.name}.building")
    replaced = out.with_name(f".{out.name}.replaced")
    for folder in (out, work, replaced):
        _refuse_other_files(folder)
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = keep_others_out(work)
        try:
            about = Build(stream, work, dtype, on_progress or (lambda stage, done: None)).run()
            _delete(replaced)  # left by a build that was killed
            if out.exists():
                out.rename(replaced)
            work.rename(out)
            sync(out.parent)
            (out / STATE).unlink()
            _delete(replaced)
            return about
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
        begun = {"signature": stream.signature(), "dtype": dtype, "version": VERSION, "record": RECORD}
        self.state = _record(work / STATE)
        self.resumes = self.state.get("begun") == begun
        if not self.resumes:
            _delete_files(work)
            self.state = {"begun": begun, "rows": 0, "nodes": False, "blocks": 0, "sort": None, "sorted": []}

    def run(self) -> dict[str, Any]:
        """Run the stages and return the content of graph.json; the record of the build stays in the folder."""
        if self.state.get("complete"):
            check_digests(self.work)
            return self.without_temporary_files()
        if not self.state["nodes"]:
            self.write_nodes()
        elif self.resumes:
            self.check_nodes()
        sort = self.list_edges()
        self.sort_buckets(sort)
        cleaning = self.write_edges(sort)
        if self.stream.signature() != self.state["begun"]["signature"]:  # part of it was read before the change
            raise GsscError(f"the source of {self.stream.name} changed while it was read; run the same command again")
        self.describe(asdict(cleaning))
        self.save(complete=True)
        return self.without_temporary_files()

    def write_nodes(self) -> None:
        """Write feature rows block by block, then labels, split and ids of the nodes."""
        with self.open_features() as features:
            for block in self.stream.rows(self.state["rows"]):
                features.append(_checked(block, self.dtype, features.rows))
                self.on_progress("rows", features.rows)
                if features.rows - self.state["rows"] >= ROWS_BETWEEN_STATES:
                    features.flush()
                    self.save(rows=features.rows, checksum=features.checksum)
            count, checksum = features.rows, features.checksum
        facts = _checked_facts(self.stream.facts(), count, self.stream.width)
        for name in ("labels", "train", "val", "test", "node_ids"):
            value = getattr(facts, name)
            if value is not None:
                write_array(self.work / f"{name}.npy", np.asarray(value))
        names = {name: getattr(facts, name) for name in ("class_names", "feature_names")}
        self.save(
            rows=count,
            nodes=True,
            checksum=checksum,
            sizes={path.name: path.stat().st_size for path in self.files()},
            checksums={path.name: _checksum(path) for path in self.files() if path.name != FEATURES},
            facts={
                "name": self.stream.name,
                "split": facts.split,
                "setting": facts.setting,
                **{name: list(value) for name, value in names.items() if value is not None},
            },
        )

    def open_features(self) -> NpyAppender:
        """Return the feature file; if the build is resumed, after checking the rows in it."""
        rows, checksum = self.state["rows"], self.state.get("checksum")
        return NpyAppender(self.work / FEATURES, self.dtype, (self.stream.width,), rows, checksum)

    def files(self) -> list[Path]:
        """Return the files of the graph that are written so far."""
        return [path for name in sorted(KINDS) if (path := self.work / name).exists()]

    def check_nodes(self) -> None:
        """Raise GsscError if a file of the nodes is not as it was when they were complete."""
        for name, size in self.state["sizes"].items():
            path = self.work / name
            if not path.exists() or path.stat().st_size != size:
                raise cut_short(path)
            if name != FEATURES and _checksum(path) != self.state["checksums"][name]:
                raise damaged(path)
        self.open_features().close()  # checks the rows

    def list_edges(self) -> EdgeSort:
        """Write listed edges to bucket files, block by block, and return the sort that holds them."""
        sort = EdgeSort(self.work, self.state["rows"], self.stream.weighted)
        if self.state["sorted"]:
            sort.load_counts(self.state["sort"])
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
        weights_path = self.work / "edge_weight.npy"
        with (
            NpyColumns(self.work / "edges.npy", np.dtype(kind), (2, total)) as edges,
            NpyColumns(weights_path, np.dtype(np.float32), (total,)) if sort.weighted else nullcontext() as weight,
        ):
            for number in range(BUCKETS):
                for part, weights in sort.sorted_edges(number, counts[number]):
                    edges.append(part)
                    if weight is not None and weights is not None:
                        weight.append(weights)
        return sort.cleaning(counts)

    def without_temporary_files(self) -> dict[str, Any]:
        """Delete all but the graph and the record of the build, and return the content of graph.json."""
        about = describe(self.work)
        _delete_files(self.work, kept=(STATE, DESCRIPTION, *about["files"]))
        return about

    def describe(self, cleaning: dict[str, int]) -> None:
        """Write graph.json, with a digest of every file."""
        files = {}
        for number, path in enumerate(self.files()):
            sync(path)
            files[path.name] = entry_of(path)
            self.on_progress("digests", number + 1)
        nodes, width = files[FEATURES]["shape"]
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

    def save(self, **changes: Any) -> None:
        """Record the progress of the build atomically. Only a power cut can lose the record, and with it the build."""
        self.state.update(changes)
        temporary = self.work / f"{STATE}.new"
        temporary.write_text(json.dumps({"digest": digest_of(self.state), **self.state}), encoding="utf-8")
        temporary.replace(self.work / STATE)


def _record(path: Path) -> dict[str, Any]:
    """Return the record of a build; {} if it is damaged, as after a power cut, so that the build starts over."""
    try:
        found = read_json(path) if path.exists() else {}
    except GsscError:
        return {}
    return found if found.pop("digest", None) == digest_of(found) else {}


def _checksum(path: Path) -> int:
    with path.open("rb") as file:
        return checksum_of(file)


def _refuse_other_files(folder: Path) -> None:
    """Raise GsscError if a folder that is to be replaced or cleared holds anything but files of a graph or a build."""
    for item in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not _is_own(item):
            raise GsscError(f"{folder} holds {item.name!r}, which is not a file of a graph: move it elsewhere first")


def _is_own(item: Path) -> bool:
    return (item.name in OF_GRAPHS or OF_BUILDS.fullmatch(item.name) is not None) and not item.is_dir()


def _delete_files(folder: Path, kept: tuple[str, ...] = ()) -> None:
    """Delete the files of a graph or a build in a folder, except those that are to be kept."""
    for item in folder.iterdir():
        if item.name not in kept and _is_own(item):
            item.unlink()


def _delete(folder: Path) -> None:
    """Delete the files of a graph, and its folder if nothing else is left in it."""
    if folder.is_dir():
        _delete_files(folder)
        with suppress(OSError):
            folder.rmdir()


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


def _checked_facts(facts: NodeFacts, nodes: int, width: int) -> NodeFacts:
    """Return the facts after the checks of :class:`Graph`, which would otherwise fail when the folder is opened."""
    if nodes == 0:
        raise GsscError("the graph has no nodes: give at least one row of features")
    if len(facts.labels) != nodes:
        raise GsscError(f"there are {len(facts.labels)} labels for {nodes} nodes: give one per node, -1 where unknown")
    features, edges = np.broadcast_to(np.float32(0), (nodes, width)), np.empty((2, 0), dtype=np.int64)
    graph = Graph(features, edges, **vars(facts), _checked_features=features, _checked_edges=edges)
    return replace(facts, node_ids=graph.node_ids)
