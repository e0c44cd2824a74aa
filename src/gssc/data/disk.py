"""A graph as a folder of .npy files that are opened memory-mapped, so that it may be larger than memory.

========================  ===============================================================================
``graph.json``            sizes, names, what was cleaned; bytes, type and SHA-256 of every other file
``features.npy``          [N, d] float16 or float32
``edges.npy``             [2, E] int32 or int64, each undirected edge once as (smaller, larger), sorted
``labels.npy``            [N] int64, -1 for unknown; or [N, T] float32 targets, NaN for missing
``train.npy``, ...        sorted node numbers, int64; also ``val.npy`` and ``test.npy``
``edge_weight.npy``       [E] float32; only if the edges have weights
``node_ids.npy``          [N]; only if nodes have names
========================  ===============================================================================

``gssc data build`` writes it (:mod:`gssc.data.build`). Opening it checks the size of every file. The digests are
checked on request only, because that reads every file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.array_file import ArrayFile
from gssc.data.arrays import read_npy_header
from gssc.data.checks import Cleaning
from gssc.data.disk_checks import check_array, check_description
from gssc.deploy import TableRows
from gssc.errors import GsscError
from gssc.files import read_json, sha256
from gssc.graph import Graph

DESCRIPTION = "graph.json"
FORMAT, VERSION = "gssc-graph", 1
MAPPED = ("features", "edges", "edge_weight", "node_ids")
PARTS = ("train", "val", "test")
ROWS_AT_A_TIME = 16_384


def is_disk_graph(path: str | PathLike[str]) -> bool:
    """Return whether a path is a folder that holds a graph."""
    return (Path(path) / DESCRIPTION).is_file()


def describe(folder: str | PathLike[str]) -> dict[str, Any]:
    """Return the content of graph.json after checking that every file it lists exists and has the recorded size."""
    folder = Path(folder)
    if not is_disk_graph(folder):
        raise GsscError(f"{folder} is not a graph: it has no {DESCRIPTION}; make one with gssc data build")
    about = read_json(folder / DESCRIPTION)
    if about.get("format") != FORMAT or not isinstance(about.get("files"), dict):
        raise GsscError(f"{folder / DESCRIPTION} does not describe a graph; build it again")
    if about.get("version") != VERSION:
        raise GsscError(f"{folder} has version {about.get('version')} of the format, this gssc reads {VERSION}")
    if about.pop("digest", None) != digest_of(about):
        raise GsscError(
            f"{folder / DESCRIPTION} is damaged: its digest differs; copy it again or build the graph again"
        )
    check_description(about, folder / DESCRIPTION)
    for name, entry in about["files"].items():
        path = folder / name
        if not path.is_file():
            raise GsscError(f"{path} is missing; copy it again or build the graph again")
        if path.stat().st_size != entry["bytes"]:
            raise GsscError(
                f"{path} has {path.stat().st_size:,} bytes, not {entry['bytes']:,}: it was cut short or changed; "
                "copy it again or build the graph again"
            )
    return about


def digest_of(about: dict[str, Any]) -> str:
    """Return the SHA-256 of the content of graph.json, the digest itself excluded."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def check_digests(folder: str | PathLike[str], names: Sequence[str] | None = None) -> None:
    """Compare the SHA-256 of every file, or of those in ``names``, with the recorded one.

    Raises GsscError with the first file that differs.
    """
    folder = Path(folder)
    for name, entry in describe(folder)["files"].items():
        if names is None or name in names:
            _require_digest(folder / name, sha256(folder / name), entry)


def _require_digest(path: Path, digest: str, entry: dict[str, Any]) -> None:
    if digest != entry.get("sha256"):
        raise GsscError(f"{path} is damaged: its SHA-256 is not the recorded one; copy it or build the graph again")


def open_graph(folder: str | PathLike[str], **changes: Any) -> Graph:
    """Return a graph whose features and edges stay on disk until they are read; `changes` override fields of Graph."""
    folder = Path(folder)
    about = describe(folder)
    arrays = {name.removesuffix(".npy"): _open(folder / name, entry) for name, entry in about["files"].items()}
    features, edges = arrays["features"], arrays["edges"]
    if len(edges) != 2 or 0 in features.shape or len(arrays["labels"]) != len(features):
        raise GsscError(f"{folder}: shapes of features, edges and labels do not fit; build the graph again")
    if "edge_weight" in arrays and len(arrays["edge_weight"]) != edges.shape[1]:
        raise GsscError(f"{folder}: there are not as many edge weights as edges; build the graph again")
    fields: dict[str, Any] = {
        **arrays,
        "name": about["name"],
        "split": about["split"],
        "setting": about["setting"],
        "cleaning": Cleaning(**about["cleaning"]),
        **{name: tuple(about[name]) for name in ("class_names", "feature_names") if about.get(name)},
    }
    return Graph(**{**fields, "_checked_features": features, "_checked_edges": edges, **changes})


def row_blocks_of(
    folder: str | PathLike[str], feature_names: Sequence[str] | None = None, width: int | None = None
) -> Iterator[TableRows]:
    """Yield the feature rows of a graph on disk with their ids, in blocks, after checking that they fit a model.

    Raises GsscError after the last block if the SHA-256 of the features is not the recorded one.

    Args:
        folder: folder of the graph.
        feature_names: the columns the model was trained on; a graph with feature names must have the same ones.
        width: number of features the model takes.
    """
    graph = open_graph(folder)
    if width is not None and graph.num_features != width:
        raise GsscError(f"{folder} has {graph.num_features} features per node, the model takes {width}")
    if feature_names and graph.feature_names and list(feature_names) != list(graph.feature_names):
        raise GsscError(f"the feature names of {folder} are not those the model was trained on: give the same columns")
    path = Path(folder) / "features.npy"
    check_digests(folder, names=("node_ids.npy",))
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(path.stat().st_size - graph.features.nbytes))  # the header
    features, node_ids = ArrayFile(graph.features), ArrayFile(graph.node_ids)
    for start in range(0, graph.num_nodes, ROWS_AT_A_TIME):
        stop = start + ROWS_AT_A_TIME
        rows = features.block(start, stop)
        digest.update(np.ascontiguousarray(rows).data)
        yield TableRows(rows.astype(np.float32), None if graph.node_ids is None else node_ids.block(start, stop))
    _require_digest(path, digest.hexdigest(), describe(folder)["files"][path.name])


def _open(path: Path, entry: dict[str, Any]) -> np.ndarray:
    mapped = path.stem in MAPPED and 0 not in entry["shape"]
    try:
        array: np.ndarray = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise GsscError(f"{path} cannot be read ({error}); copy it again or build the graph again") from None
    if list(array.shape) != entry["shape"] or array.dtype.str != entry["dtype"]:
        raise GsscError(f"{path} holds {array.dtype}{list(array.shape)}, not what {DESCRIPTION} lists; build it again")
    check_array(array, path)
    return array


def entry_of(path: Path) -> dict[str, Any]:
    """Return the entry of one .npy file in graph.json: bytes, type, shape and SHA-256."""
    with path.open("rb") as file:
        shape, _, dtype = read_npy_header(file)
    return {
        "shape": list(shape),
        "dtype": dtype.str,
        "bytes": path.stat().st_size,
        "sha256": sha256(path),
    }


def recorded_digest(array: Any) -> str | None:
    """Return the SHA-256 recorded in graph.json for the file an array is mapped from; None for any other array."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    path = Path(array.filename)
    if not is_disk_graph(path.parent):
        return None
    entry = describe(path.parent)["files"].get(path.name, {})
    return entry["sha256"] if list(array.shape) == entry.get("shape") else None


def file_states(*arrays: Any) -> dict[str, tuple[int, int]]:
    """Return size and modification time of the files that arrays are mapped from, by path."""
    paths = [Path(array.filename) for array in arrays if getattr(array, "filename", None)]
    return {str(path): ((about := path.stat()).st_size, about.st_mtime_ns) for path in paths if path.exists()}
