"""Parse the body of ``POST /predict`` into float32 rows; an error names the row and the column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from pydantic_core import from_json

from gssc.names import counted
from gssc.serve.limits import Limits, Refused, too_many_rows

LARGEST = float(np.finfo(np.float32).max)
_NUMBERS = {int, float}
_KINDS = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
# Fields an object may have in addition to the features: ids, labels, remarks.
SPARE_FIELDS = 100
_SHAPES = (
    '{"rows": [[...], ...]}, {"rows": [{"NAME": ..., ...}, ...]} for rows by name, or '
    '{"indices": [[...], ...], "values": [[...], ...]} for sparse rows'
)


@dataclass(frozen=True, eq=False)
class SparseRequest:
    """Rows given by their non-zero entries, row after row, and the number of entries of each row."""

    data: np.ndarray
    indices: np.ndarray
    lengths: list[int]

    def __len__(self) -> int:
        return len(self.lengths)


Features = np.ndarray | SparseRequest


def parse(body: bytes, width: int, names: Sequence[str] | None, limits: Limits) -> Features:
    """Read ``{"rows": ...}``, its rows lists or objects, or ``{"indices": ..., "values": ...}``.

    Args:
        body: the bytes of the request.
        width: number of features of the model.
        names: names of the features, if it has them; rows given as objects are read by these names.
        limits: how many rows there may be.
    """
    # Counted before parsing, since the empty lists and objects of a body take twenty times its size.
    if body.count(b"[") > 2 * limits.max_rows + 2:
        raise too_many_rows(limits)
    if (objects := body.count(b"{") - 1) > 0:
        _check_objects(body, objects, names, limits)
    try:
        content = from_json(body)
    except ValueError as error:
        hint = "; send a table to /predict/file" if body.startswith(b"--") else ""  # a form
        _refuse(f"the body is not JSON: {error}{hint}")
    if not isinstance(content, dict) or set(content) not in ({"rows"}, {"indices", "values"}):
        _refuse(f"the body must be {_SHAPES}")
    if names is not None and _are_objects(content.get("rows")):
        content["rows"] = _in_order(content["rows"], names)
    for key, rows in content.items():
        _check_rows(key, rows, limits)
    if "rows" in content:
        return _dense(content["rows"], width, names)
    return _sparse(content["indices"], content["values"], width)


def join(parts: Sequence[Any], width: int) -> Any:
    """Return the rows of several requests, all dense or all sparse, as one matrix."""
    if not isinstance(parts[0], SparseRequest):
        return np.concatenate(parts) if len(parts) > 1 else parts[0]
    from scipy import sparse

    lengths = list(chain.from_iterable(part.lengths for part in parts))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = np.concatenate([part.data for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    return sparse.csr_matrix((data, indices, indptr), shape=(len(lengths), width))


def _check_objects(body: bytes, objects: int, names: Sequence[str] | None, limits: Limits) -> None:
    """Refuse, before parsing, objects that cannot be rows or have so many fields that they would fill the memory."""
    if names is None:
        _refuse("rows must be lists of numbers, not objects: the model's features have no names")
    if objects > limits.max_rows:
        raise too_many_rows(limits)
    fields = len(names) + SPARE_FIELDS + sum(name.count(":") for name in names)
    if body.count(b":") > objects * fields + 1:
        _refuse(f"the objects of rows have too many fields; give the model's {len(names)}")


def _are_objects(rows: Any) -> bool:
    return isinstance(rows, list) and bool(rows) and type(rows[0]) is dict


def _in_order(rows: list[Any], names: Sequence[str]) -> list[list[Any]]:
    """Return the values of objects in the order of the features; other fields are left out."""
    found = []
    for number, row in enumerate(rows):
        if type(row) is not dict:
            _refuse(f"row {number} of rows is {_shown(row)}; it must be an object, as row 0 is")
        try:
            found.append([row[name] for name in names])
        except KeyError:
            missing = [name for name in names if name not in row]
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            _refuse(f"row {number} lacks {_shown(missing[0])}{others}; an object must have all {len(names)} features")
    return found


def _check_rows(key: str, rows: Any, limits: Limits) -> None:
    if not isinstance(rows, list):
        _refuse(f"{key} is {_shown(rows)}; it must be a list with one list or object per row")
    if not rows:
        _refuse(f"{key} is empty: there is nothing to predict")
    if len(rows) > limits.max_rows:
        raise too_many_rows(limits)
    for number, row in enumerate(rows):
        if type(row) is not list:
            _refuse(f"row {number} of {key} is {_shown(row)}; it must be a list of numbers")


def _dense(rows: list[list[Any]], width: int, names: Sequence[str] | None) -> np.ndarray:
    for number, row in enumerate(rows):
        if len(row) != width:
            _refuse(f"row {number} has {len(row)} columns, but the model was trained on {width}")
    table = _numbers(chain.from_iterable(rows), len(rows) * width)
    if table is None:
        at = next(at for at, value in enumerate(chain.from_iterable(rows)) if not _is_number(value))
        number, column = divmod(at, width)
        bad = rows[number][column]
        name = f" ({names[column]!r})" if names is not None else ""
        _refuse(f"row {number}, column {column}{name} is {_shown(bad)}; {_wanted(bad)}")
    return table.reshape(len(rows), width)


def _sparse(indices: list[list[Any]], values: list[list[Any]], width: int) -> SparseRequest:
    lengths = list(map(len, indices))
    if lengths != list(map(len, values)):
        _refuse_lengths(indices, values)
    flat = list(chain.from_iterable(indices))
    kinds = set(map(type, flat))
    # One pass over all entries; which row is wrong is looked up only if one is.
    if not kinds <= {int} or (flat and not 0 <= min(flat) <= max(flat) < width):
        _check_indices(indices, width)
    if list(map(len, map(set, indices))) != lengths:
        _refuse_twice(indices)
    data = _numbers(chain.from_iterable(values), len(flat))
    if data is None:
        row, place = next(
            (row, place)
            for row, entries in enumerate(values)
            for place, value in enumerate(entries)
            if not _is_number(value)
        )
        bad = values[row][place]
        _refuse(f"row {row}, column {int(indices[row][place])} is {_shown(bad)}; {_wanted(bad)}")
    return SparseRequest(data, np.fromiter(flat, dtype=np.int32, count=len(flat)), lengths)


def _refuse_lengths(indices: list[list[Any]], values: list[list[Any]]) -> NoReturn:
    if len(indices) != len(values):
        _refuse(f"indices has {counted(len(indices), 'row')} and values {len(values)}; give both the same")
    number = next(number for number, row in enumerate(indices) if len(row) != len(values[number]))
    have, want = len(indices[number]), len(values[number])
    _refuse(f"row {number} has {have} indices and {want} values; give one value per index")


def _check_indices(indices: list[list[Any]], width: int) -> None:
    """Refuse an invalid index; JSON may write a whole number as 3.0."""
    for number, columns in enumerate(indices):
        for place, index in enumerate(columns):
            if type(index) not in _NUMBERS or not 0 <= index < width or index != int(index):
                _refuse(
                    f"row {number}, index {place} is {_shown(index)}; it must be a whole number from 0 to {width - 1}"
                )


def _refuse_twice(indices: list[list[Any]]) -> NoReturn:
    number, columns = next((n, row) for n, row in enumerate(indices) if len(set(row)) != len(row))
    _refuse(f"row {number} has column {int(Counter(columns).most_common(1)[0][0])} twice")


def _numbers(values: Any, count: int) -> np.ndarray | None:
    """Return the values as float32, or None if one of them is not a number that fits."""
    values = list(values)
    # NumPy would read "1", true and null as numbers too.
    if not set(map(type, values)) <= _NUMBERS:
        return None
    try:
        numbers = np.fromiter(values, dtype=np.float64, count=count)
    except OverflowError:
        return None
    # Comparisons with NaN are false.
    return numbers.astype(np.float32) if count == 0 or np.abs(numbers).max() <= LARGEST else None


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS and -LARGEST <= value <= LARGEST


def _wanted(value: Any) -> str:
    return "it must be finite and fit into float32" if type(value) in _NUMBERS else "it must be a number"


def _shown(value: Any) -> str:
    """Return a value as text that is short enough for a message."""
    if type(value) in _KINDS:
        return _KINDS[type(value)]
    if type(value) is int and abs(value) > 10**30:
        return "a whole number with more than 30 digits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]}...{text[-1]}"


def _refuse(message: str) -> NoReturn:
    raise Refused(422, message)
