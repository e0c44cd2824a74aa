"""Feature rows from text tables and Parquet, a block at a time, for `gssc predict` and `gssc serve`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gssc.deploy.columns import chosen_columns, find_id_column
from gssc.errors import GsscError
from gssc.extras import require
from gssc.text_tables import (
    Records,
    advice_on_cell,
    default_names,
    first_repeated,
    is_header,
    is_number,
    named_columns,
)

LARGEST = float(np.finfo(np.float32).max)
BLOCK_VALUES = 1 << 20  # numbers per block; each takes fifty bytes while it is read from text
BLOCK_ROWS = 1 << 14
READ_BYTES = 1 << 18  # bytes of a Parquet column per read: a row group may be as large as the file


@dataclass
class TableRows:
    """Feature rows of a table, or of a part of it.

    Attributes:
        features: float array [rows, features], possibly memory-mapped, or a SciPy CSR matrix.
        ids: one number or text per row, from a column such as ``id`` or ``node_id``, if there is one. Text ids are
            Python objects: in an array of fixed width, every one would take as much memory as the longest.
        feature_names: names of the columns, if the file has any.
    """

    features: Any
    ids: np.ndarray | None = None
    feature_names: list[str] | None = None

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @classmethod
    def joined(cls, blocks: Sequence[TableRows], names: list[str] | None = None) -> TableRows:
        """Return all blocks of a table as one; ids are numbers if those of all blocks are."""
        ids = [block.ids for block in blocks if block.ids is not None]
        return cls(
            np.concatenate([block.features for block in blocks]),
            id_array([value for part in ids for value in part.tolist()]) if ids else None,
            blocks[0].feature_names if names is None else names,
        )


@dataclass(frozen=True)
class TableLimits:
    """Bounds of a table from an untrusted source.

    Args:
        max_rows: rows; half as many blank lines may be among them.
        max_columns: columns of any kind.
        max_values: numbers, and characters of ids.
    """

    max_rows: int
    max_columns: int
    max_values: int

    @property
    def max_blank(self) -> int:
        """Maximum number of blank lines in a text table."""
        return 1000 + self.max_rows // 2

    def check(self, path: Path, rows: int, columns: int, features: int) -> None:
        """Raise GsscError if a table of this size is too large."""
        if rows > self.max_rows:
            raise GsscError(f"{path} has more than {self.max_rows:,} rows; send fewer at a time")
        if columns > self.max_columns:
            raise GsscError(f"{path}: {columns:,} columns; at most {self.max_columns:,} can be read")
        if rows * features > self.max_values:
            most = self.max_values // features
            raise GsscError(f"{path}: too many numbers; send at most {most:,} rows of {features} at a time")


def text_blocks(
    path: Path,
    lines: Records,
    wanted: Sequence[str] | None,
    width: int | None,
    ready: Callable[[], bool] = lambda: True,
    limits: TableLimits | None = None,
    id_name: str | None = None,
) -> Iterator[TableRows]:
    """Yield the rows of a text table.

    Args:
        path: path shown in errors.
        lines: its records, see :func:`gssc.text_tables.records`.
        wanted: names of the features, if the model has them.
        width: number of features, if it is known.
        ready: whether another line can be had at once; if not, a block ends, so that no row waits for the next.
        limits: how large the table may be.
        id_name: column of the ids; None: see :func:`gssc.deploy.columns.find_id_column`.
    """
    names, lines = named_columns(path, lines, lambda cells: is_header(cells) or _are_names(cells, wanted))
    if limits is not None:
        limits.check(path, 0, len(names), 1)
    if wanted is not None and names == default_names(len(names)) and not set(wanted) <= set(names):
        wanted = None  # the table has no names: columns are taken by position
    columns, id_column = chosen_columns(path, names, wanted, width, id_name), find_id_column(names, wanted, id_name)
    chosen_names, all_columns = [names[index] for index in columns], columns == list(range(len(names)))
    block, ids, places, count = [], [], [], 0
    most = block_rows(len(columns))
    for line, cells in lines:
        chosen = cells if all_columns else [cells[index] for index in columns]
        try:
            block.append(list(map(float, chosen)))
        except ValueError:
            raise GsscError(f"{path}:{line}: {_first_text(chosen, chosen_names)}") from None
        places.append(line)
        ids.append("" if id_column is None else cells[id_column].strip())
        count += 1
        if limits is not None and count > limits.max_rows:
            limits.check(path, count, len(names), len(columns))
        if len(block) == most or not ready():
            yield _block(path, block, places, ids if id_column is not None else None, chosen_names)
            block, ids, places = [], [], []
    if block or not count:
        yield _block(path, block, places, ids if id_column is not None else None, chosen_names)


def _are_names(cells: Sequence[str], wanted: Sequence[str] | None) -> bool:
    """Return whether a first line names all features of a model, even if they are called 7 and 8."""
    return bool(wanted) and {name.strip() for name in wanted or ()} <= {cell.strip() for cell in cells}


def _block(
    path: Path, values: list[list[float]], places: list[int], ids: list[str] | None, names: list[str]
) -> TableRows:
    numbers = np.array(values, dtype=np.float64).reshape(len(values), len(names))
    fits = np.abs(numbers) <= LARGEST  # false for NaN too
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        value = numbers[row, column]
        raise GsscError(f"{path}:{places[row]}: column {names[column]!r} is {value:g}; fix or drop the row")
    return TableRows(numbers.astype(np.float32), None if ids is None else np.array(ids, dtype=object), names)


def _first_text(chosen: list[str], names: list[str]) -> str:
    at = next(index for index, cell in enumerate(chosen) if not is_number(cell))
    name, cell = names[at], chosen[at]
    if not cell.strip():
        return f"column {name!r} is empty; fill it in or drop the row"
    return f"column {name!r} is {cell[:60]!r} where a number belongs; {advice_on_cell(cell, 'fix or drop the row')}"


def parquet_blocks(
    path: Path,
    source: Any,
    wanted: Sequence[str] | None,
    width: int | None,
    limits: TableLimits | None = None,
    id_name: str | None = None,
    **options: Any,
) -> Iterator[TableRows]:
    """Yield the rows of a Parquet table; a file is read in small pieces.

    Args:
        path: path shown in errors.
        source: what pyarrow reads: a path, or a buffer.
        wanted: names of the features, if the model has them.
        width: number of features, if it is known.
        limits: how large the table may be.
        id_name: column of the ids; None: see :func:`gssc.deploy.columns.find_id_column`.
        options: for ``pyarrow.parquet.ParquetFile``.
    """
    pa, pq = require("pyarrow", extra="tables"), require("pyarrow.parquet", extra="tables")
    if isinstance(source, Path):
        options |= {"buffer_size": READ_BYTES, "pre_buffer": False}
    try:
        with pq.ParquetFile(source, page_checksum_verification=True, **options) as file:
            rows, header = file.metadata.num_rows, list(file.schema_arrow.names)
            if limits is not None:
                limits.check(path, rows, len(header), 1)
            if (twice := first_repeated(header)) is not None:
                raise GsscError(f"{path}: column {twice!r} appears twice; rename one")
            names = [header[index] for index in chosen_columns(path, header, wanted, width, id_name)]
            if limits is not None:
                limits.check(path, rows, len(header), len(names))
            at = find_id_column(header, wanted, id_name)
            id_name = None if at is None else header[at]
            _check_types(path, file.schema_arrow, names, id_name)
            start = 0
            everything = names if id_name is None else [*names, id_name]
            for batch in file.iter_batches(block_rows(len(names)), columns=everything, use_threads=False):
                ids = None if id_name is None else _ids(batch.column(id_name))
                yield TableRows(_numbers(path, batch, names, start), ids, names)
                start += batch.num_rows
    except pa.ArrowMemoryError:  # an ArrowException, too
        raise MemoryError from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise GsscError(f"cannot read {path}: {' '.join(str(error).split())[:200] or 'damaged'}") from None
    if start != rows:
        raise GsscError(f"{path}: {start:,} rows where its head announces {rows:,}")
    if not rows:
        yield TableRows(np.empty((0, len(names)), np.float32), None, names)


def _check_types(path: Path, schema: Any, names: list[str], id_name: str | None) -> None:
    import pyarrow as pa

    of_numbers = ("is_integer", "is_floating", "is_boolean", "is_decimal", "is_string", "is_large_string")
    for name in names:
        kind = schema.field(name).type
        if not any(getattr(pa.types, fits)(kind) for fits in of_numbers):
            raise GsscError(f"{path}: column {name!r} holds {str(kind)[:60]}; features must be numbers")
    if id_name is not None and pa.types.is_nested(kind := schema.field(id_name).type):
        raise GsscError(f"{path}: column {id_name!r} holds {str(kind)[:60]}; ids must be numbers or text")


def _numbers(path: Path, batch: Any, names: list[str], start: int) -> np.ndarray:
    """Return the features of a batch, float32; ``start`` rows came before it."""
    import pyarrow as pa

    features = np.empty((batch.num_rows, len(names)), dtype=np.float32)
    for number, name in enumerate(names):
        column = batch.column(name)
        if column.null_count:
            row = start + column.is_null().to_pylist().index(True) + 1
            raise GsscError(f"{path}: row {row}, column {name!r} is empty; fill it in or drop the row")
        try:
            column = column.cast(pa.float64(), safe=False)
        except pa.ArrowInvalid:
            raise GsscError(f"{path}: column {name!r} holds text; features must be numbers") from None
        # Not to_numpy, which imports pandas where that is installed.
        numbers = np.frombuffer(column.buffers()[1], np.float64, len(column), 8 * column.offset)
        fits = np.abs(numbers) <= LARGEST
        if not fits.all():
            row = int(fits.argmin())
            wrong = "too large; rescale the column" if np.isfinite(numbers[row]) else "not finite; fix or drop the row"
            raise GsscError(f"{path}: row {start + row + 1}, column {name!r} is {numbers[row]:g}: {wrong}")
        features[:, number] = numbers
    return features


def _ids(column: Any) -> np.ndarray:
    values = column.to_pylist()
    if all(type(value) is int for value in values):
        return np.array(values, dtype=object)
    return np.array(["" if value is None else _text(value) for value in values], dtype=object)


def _text(value: Any) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise ValueError(f"the id {value!r} is not UTF-8; write it as text") from None


def block_rows(width: int) -> int:
    """Return the number of rows per block for this number of features."""
    return max(1, min(BLOCK_ROWS, BLOCK_VALUES // max(1, width)))


def id_array(ids: Sequence[Any]) -> np.ndarray:
    """Return ids as int64 if all are integers without leading zeros or a plus sign, else as text.

    >>> id_array(["7", "8"]), id_array(["7", "08"])
    (array([7, 8]), array(['7', '08'], dtype=object))
    """
    texts = [value if isinstance(value, str) else str(value) for value in ids]
    try:
        numbers = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=object)
    return numbers if list(map(str, numbers.tolist())) == texts else np.array(texts, dtype=object)
