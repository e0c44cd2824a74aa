"""Checks of labels, masks and index arrays, and their conversion to the form in which `Graph` stores them.

:func:`encode_labels` does the same for the `y` of scikit-learn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from gssc.data.arrays import as_array, as_text
from gssc.errors import GsscError
from gssc.names import counted

LabelKind = Literal["number", "name", "truth value"]
MOST_CLASSES = 1000  # a larger class number must be below the number of nodes


def clean_labels(
    labels: Any, num_nodes: int, class_names: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return class ids (int64, -1 = unknown) or multi-label targets (float32, NaN = missing), and class names."""
    names = None if class_names is None else tuple(str(name) for name in class_names)
    if names is not None and len(set(names)) != len(names):
        raise GsscError("class_names has a name twice: give each class its own name")
    if labels is None:
        return np.full(num_nodes, -1, dtype=np.int64), names
    array = np.asarray(as_array(labels, "labels"))
    if array.ndim == 1 and array.dtype.kind in "US" and not isinstance(labels, np.ndarray):
        array = np.array(list(labels), dtype=object)  # next to names, NumPy has turned NaN and -1.0 into text
    if array.ndim not in (1, 2) or len(array) != num_nodes:
        raise GsscError(
            f"labels have shape {array.shape} for {num_nodes} nodes: give one label per node (-1 where unknown)"
        )
    if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind in "iu":
        array = array[:, 0]
    if array.ndim == 2:
        if names is not None and len(names) != array.shape[1]:
            raise GsscError(f"{len(names)} class_names for {array.shape[1]} tasks: give one per column of labels")
        return _multilabel(array), names
    if array.dtype.kind in "OUS":
        return _named_classes(array, names)
    return _class_ids(array, names), names


def _multilabel(array: np.ndarray) -> np.ndarray:
    try:
        targets = np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError):
        raise GsscError("multi-label targets hold text: give 0, 1 or NaN (missing) per node and task") from None
    valid = np.isnan(targets) | (targets == 0) | (targets == 1)
    if not valid.all() or targets.shape[1] == 0:
        at = np.argwhere(~valid)
        where = f"row {at[0][0]}, task {at[0][1]} is {targets[tuple(at[0])]}" if len(at) else "there are no tasks"
        raise GsscError(f"multi-label targets must be 0, 1 or NaN (missing): {where}")
    return targets


def _class_ids(array: np.ndarray, names: tuple[str, ...] | None) -> np.ndarray:
    if array.dtype.kind == "f":
        known = ~np.isnan(array)
        wrong = np.flatnonzero(known & (array != np.floor(array)) | np.isinf(array))
        if len(wrong):
            raise GsscError(
                f"label of node {wrong[0]} is {array[wrong[0]]}: class labels must be whole numbers 0, 1, ..., "
                "-1 where unknown; the task is classification, not regression"
            )
        array = np.where(known, array, -1)
    elif array.dtype.kind not in "iub":
        raise GsscError(f"labels have dtype {array.dtype}: give class numbers or class names")
    ids = np.ascontiguousarray(array, dtype=np.int64)
    wrong = np.flatnonzero(ids < -1)
    if len(wrong):
        raise GsscError(f"label of node {wrong[0]} is {ids[wrong[0]]}: use 0, 1, ... for classes, -1 for unknown")
    most = max(len(ids), MOST_CLASSES)
    if names is None and ids.max(initial=-1) >= most:
        first = int(np.flatnonzero(ids >= most)[0])
        raise GsscError(
            f"label of node {first} is {ids[first]}, which exceeds the number of nodes: number the classes 0, 1, ..."
        )
    if names is not None and len(ids) and ids.max() >= len(names):
        first = int(np.flatnonzero(ids >= len(names))[0])
        raise GsscError(
            f"label of node {first} is {ids[first]}, but class_names has only {len(names)} names: "
            "name every class or leave class_names out"
        )
    return ids


def is_missing(value: object) -> bool:
    """Return whether a label is unknown: None, NaN, pandas' NA or an empty string."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return True
    if type(value).__name__ == "NAType":
        return True
    return isinstance(value, (str, bytes)) and not value.strip()


def _named_classes(array: np.ndarray, names: tuple[str, ...] | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    values = array.tolist()
    known = [value for value in values if not is_missing(value)]
    if known and not any(isinstance(value, (str, bytes)) for value in known):
        numbers = np.array([_number(node, value) for node, value in enumerate(values)], dtype=np.float64)
        return _class_ids(numbers, names), names
    texts = [_class_name(node, value) for node, value in enumerate(values)]
    if not _minus_one_is_a_class(texts, names):
        texts = [None if text == "-1" else text for text in texts]
    if names is None:
        names = tuple(sorted({text for text in texts if text is not None}, key=_by_number_then_name))
    id_of = {name: index for index, name in enumerate(names)}
    ids = np.full(len(texts), -1, dtype=np.int64)
    for node, text in enumerate(texts):
        if text is None:
            continue
        if text not in id_of:
            raise GsscError(f"label of node {node} is {text!r}, which class_names does not list: add it there")
        ids[node] = id_of[text]
    return ids, names or None  # without known labels there are no classes to name


def _number(node: int, label: Any) -> float:
    if is_missing(label):
        return np.nan
    try:
        return float(label)
    except (TypeError, ValueError):
        raise GsscError(f"label of node {node} is {label!r}: give one class number or class name per node") from None


def _class_name(node: int, label: Any) -> str | None:
    if is_missing(label):
        return None
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    return as_text(label, f"label of node {node}").strip()


def _minus_one_is_a_class(texts: list[str | None], names: tuple[str, ...] | None) -> bool:
    """Return whether -1 is a class: it is among the names, or 1 is the only other label (a common binary encoding)."""
    if names is not None:
        return "-1" in names
    return set(texts) - {None, "-1"} in ({"1"}, {"+1"})


def _by_number_then_name(name: str) -> tuple[int, int, str]:
    """Return a sort key that puts "2" before "10", and numbers before words."""
    return (0, int(name), name) if re.fullmatch(r"[+-]?[0-9]{1,1000}", name) else (1, 0, name)


def clean_index(index: Any, num_nodes: int, part: str) -> np.ndarray:
    """Return a sorted int64 index array from node numbers or a boolean mask; `part` names it in errors."""
    if index is None:
        return np.empty(0, dtype=np.int64)
    array = np.asarray(as_array(index, part))
    if array.size == 0 and array.dtype != bool:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1:
        raise GsscError(f"{part} has shape {array.shape}: give node numbers or one boolean mask over the nodes")
    if num_nodes > 2:  # an index array has no repeats, so N numbers that are all 0 or 1 can only be a mask
        array = mask_of_numbers(array, num_nodes)
    if array.dtype == bool:
        if len(array) != num_nodes:
            raise GsscError(f"{part} mask has {len(array)} entries for {num_nodes} nodes: give one per node")
        return np.flatnonzero(array).astype(np.int64)
    if array.dtype.kind not in "iu":
        raise GsscError(f"{part} has dtype {array.dtype}: give node numbers (integers) or a boolean mask")
    nodes = np.sort(array.astype(np.int64))
    if nodes[0] < 0 or nodes[-1] >= num_nodes:
        at = int(np.flatnonzero((array < 0) | (array >= num_nodes))[0])
        raise GsscError(
            f"{part} entry {at} is node {array[at]}, which does not exist: nodes run from 0 to {num_nodes - 1}"
        )
    repeated = np.flatnonzero(nodes[1:] == nodes[:-1])
    if len(repeated):
        raise GsscError(f"{part} lists node {nodes[repeated[0]]} twice: list each node once")
    return nodes


def mask_of_numbers(array: Any, num_nodes: int) -> Any:
    """Return N numbers that are all 0 or 1 as a boolean mask, and anything else unchanged."""
    if not isinstance(array, np.ndarray) or array.shape != (num_nodes,) or array.dtype.kind not in "iuf":
        return array
    return array.astype(bool) if np.isin(array, (0, 1)).all() else array


def refuse_overlap(parts: dict[str, np.ndarray]) -> None:
    """Raise GsscError if a node is in two of train, val and test, which would make scores meaningless."""
    names = list(parts)
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            shared = np.intersect1d(parts[first], parts[second], assume_unique=True)
            if len(shared):
                raise GsscError(
                    f"{first} and {second} share {counted(len(shared), 'node')}, the first is node {shared[0]}: "
                    "keep each node in one part only"
                )


def encode_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers, int64 [N] with -1 for unknown, and the sorted classes they stand for.

    A label is unknown if it is -1 (the number, or the text ``-1``, which NumPy makes of it in an array of names), NaN,
    None or empty. If -1 and 1 are the only labels, they are two classes, as for many binary classifiers: with -1 as
    unknown there would be a single class, and nothing to learn.

    >>> encode_labels(np.array(["b", "", "a", "b"]))
    (array([ 1, -1,  0,  1]), array(['a', 'b'], dtype='<U1'))
    >>> encode_labels(np.array([5, -1, 2]))
    (array([ 1, -1,  0]), array([2, 5]))
    """
    if labels.dtype.kind not in "OUiufb":
        raise GsscError(f"y has dtype {labels.dtype}: give class numbers or class names")
    known, marked, one = ~is_empty(labels), is_marked_unknown(labels), _equals(labels, 1)
    alone = one.any() and (marked | one)[known].all()
    known &= ~marked | alone
    values = _of_one_kind(labels[known]) if labels.dtype.kind in "OU" else labels[known]
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise GsscError("y holds an infinite number: give class numbers, or NaN where unknown")
    codes = np.full(len(labels), -1, dtype=np.int64)
    classes, codes[known] = np.unique(values, return_inverse=True)
    return codes, classes


def is_empty(labels: np.ndarray) -> np.ndarray:
    """Return whether each label is NaN, None or empty, bool [N]."""
    if labels.dtype.kind in "OU":
        missing = [is_missing(label) for label in labels.tolist()]
        return np.array(missing, dtype=bool)
    return np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=bool)


def is_marked_unknown(labels: np.ndarray) -> np.ndarray:
    """Return whether each label is -1, as a number or as text, bool [N]."""
    return _equals(labels, -1)


def _equals(labels: np.ndarray, value: int) -> np.ndarray:
    if labels.dtype.kind in "OU":
        found = [isinstance(label, str | int | float) and label in (value, str(value)) for label in labels.tolist()]
        return np.array(found, dtype=bool)
    return np.zeros(len(labels), dtype=bool) if labels.dtype.kind == "b" else labels == value


def _of_one_kind(labels: np.ndarray) -> np.ndarray:
    """Return Python objects as an array of text, numbers or booleans. Raises GsscError if they are mixed."""
    kinds: set[LabelKind | str] = set()
    for label in labels.tolist():
        if isinstance(label, str):
            kinds.add("name")
        elif isinstance(label, bool | np.bool_):
            kinds.add("truth value")
        else:
            kinds.add("number" if isinstance(label, int | float | np.number) else type(label).__name__)
    if len(kinds) > 1 or not kinds <= {"name", "truth value", "number"}:
        raise GsscError(f"y holds {' and '.join(sorted(kinds))} labels: give class numbers or class names, not both")
    return np.array(labels.tolist())
