"""Checks of a graph on disk that digests cannot replace: anyone may write a folder with digests that match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.checks import Cleaning
from gssc.errors import GsscError

TEXTS = ("name", "split", "setting")
LISTS = ("class_names", "feature_names")
# Types and numbers of dimensions that a file may have, as `gssc data build` writes them.
KINDS: dict[str, tuple[tuple[str, int], ...]] = {
    "features.npy": (("f2", 2), ("f4", 2)),
    "edges.npy": (("i4", 2), ("i8", 2)),
    "labels.npy": (("i8", 1), ("f4", 2)),
    "train.npy": (("i8", 1),),
    "val.npy": (("i8", 1),),
    "test.npy": (("i8", 1),),
    "edge_weight.npy": (("f4", 1),),
    "node_ids.npy": (("i", 1), ("u", 1), ("U", 1)),  # integers of any size, or strings
}
OPTIONAL = ("edge_weight.npy", "node_ids.npy")


def check_description(about: dict[str, Any], path: Path) -> None:
    """Raise GsscError naming the first entry of graph.json that is missing or of the wrong type."""
    wrong = next(_wrong_entries(about), None)
    if wrong is not None:
        raise GsscError(f"{path} does not describe a graph: {wrong}; build the graph again")


def _wrong_entries(about: dict[str, Any]) -> Any:
    yield from (f"{name} must be a string" for name in TEXTS if not isinstance(about.get(name), str))
    for name in LISTS:
        given = about.get(name) or []
        if not isinstance(given, list) or not all(isinstance(entry, str) for entry in given):
            yield f"{name} must be a list of strings"
    cleaning, known = about.get("cleaning"), {entry.name for entry in fields(Cleaning)}
    if not isinstance(cleaning, dict) or cleaning.keys() != known or not _are_counts(cleaning.values()):
        yield f"cleaning must give the numbers of {', '.join(sorted(known))}"
    files = about.get("files")
    if not isinstance(files, dict):
        yield "files must be listed"
        return
    yield from (f"it does not list {name}" for name in KINDS if name not in files and name not in OPTIONAL)
    for name, entry in files.items():
        if name not in KINDS:
            yield f"{name!r} is not a file of a graph"
        elif not isinstance(entry, dict) or not _are_counts([entry.get("bytes")]):
            yield f"{name} must have a number of bytes"
        elif not isinstance(entry.get("shape"), list) or not _are_counts(entry["shape"]):
            yield f"{name} must have a shape"
        elif not all(isinstance(entry.get(part), str) for part in ("dtype", "sha256")):
            yield f"{name} must have a dtype and a digest"


def _are_counts(values: Any) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def check_array(array: np.ndarray, path: Path) -> None:
    """Raise GsscError if an array has another type, order or number of dimensions than its file may have."""
    kind = array.dtype.str.lstrip("<=|")
    fits = any(kind.startswith(wanted) and array.ndim == count for wanted, count in KINDS[path.name])
    if not fits or not array.flags.c_contiguous:
        raise GsscError(f"{path} holds {array.dtype}{list(array.shape)}, which no graph has; build the graph again")


def check_nodes(edges: np.ndarray, count: int) -> None:
    """Raise GsscError naming the first edge [2, n] with an end that is not a node."""
    outside = (edges < 0) | (edges >= count)
    if outside.any():
        first, second = edges[:, int(outside.any(axis=0).argmax())]
        raise GsscError(
            f"edge ({first}, {second}) names a node that does not exist: node numbers run from 0 to {count - 1}; "
            "build the graph again"
        )


def check_finite(rows: np.ndarray, numbers: Sequence[int] | np.ndarray) -> None:
    """Raise GsscError naming the first row that is not finite, by its number."""
    wrong = ~np.isfinite(rows).all(axis=1)
    if wrong.any():
        raise GsscError(f"row {numbers[int(wrong.argmax())]} of the features is not finite; build the graph again")


def check_weights(weights: np.ndarray, first: int) -> None:
    """Raise GsscError naming a weight that is not above 0 and finite, of edges from number ``first`` on."""
    wrong = ~(np.isfinite(weights) & (weights > 0))
    if wrong.any():
        raise GsscError(
            f"an edge from number {first} on has the weight {weights[int(wrong.argmax())]}: weights must be above 0 "
            "and finite; build the graph again"
        )
