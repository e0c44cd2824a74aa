"""Read tables from CSV, TSV or Parquet, with the line number of each row for error messages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.arrays import as_text
from gssc.data.labels import is_missing
from gssc.deploy.table_rows import READ_BYTES
from gssc.errors import GsscError
from gssc.extras import require
from gssc.files import require_file
from gssc.names import counted, nearest
from gssc.text_tables import (
    PARQUET_ENDINGS,
    TEXT_ENDINGS,
    Records,
    advice_on_cell,
    ending,
    first_repeated,
    is_header,
    is_number,
    named_columns,
    records_of,
)

_WHOLE = re.compile(r"-?\d+(\.0+)?")  # pandas writes whole numbers as 3.0 if the column has missing values

SPREADSHEET_ENDINGS = (".xlsx", ".xls", ".xlsm", ".ods")
SHOWN_PROBLEMS = 5  # columns named in one error
LARGEST_EXACT = 2.0**53  # from here on, whole numbers in double precision stand for their neighbours too
LONGEST_ID = 1000  # characters; graphs store all ids as wide as the longest
OnShare = Callable[[float], None]  # called with the share of some work that is done

# Names of the row numbers that pandas writes by default: empty in CSV, the index level in Parquet.
_ROW_NUMBERS = re.compile(r"(__index_level_\d+__)?")


@dataclass(frozen=True)
class Table:
    """Columns by name. Cells are text when read from CSV and typed when read from Parquet."""

    path: Path
    columns: dict[str, Sequence[Any]]
    lines: Sequence[int] | None  # line on which each row starts; None for formats without lines
    start: int = 0  # number of rows of the file before this block

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def existing(self, column: str) -> str:
        """Return the column that the user named. Raises GsscError with the closest match if there is none."""
        if column in self.columns:
            return column
        raise GsscError(f"{self.path} has no column {column!r}: {nearest(column, self.names)}")

    def named(self, given: str | None, usual: Sequence[str], taken: Sequence[str] = ()) -> str | None:
        """Return the column the user named, else the first with a common name, else None."""
        if given is not None:
            return self.existing(given)
        by_lower = {name.lower(): name for name in self.names if name not in taken}
        return next((by_lower[name] for name in usual if name in by_lower), None)

    def where(self, row: int) -> str:
        """Return the location of a row: file and line, or file and row counted from 1."""
        return f"{self.path}:{self.lines[row]}" if self.lines is not None else f"{self.path} row {self.start + row + 1}"

    def texts(self, name: str) -> list[str]:
        """Return a column as stripped text; 3 and 3.0 read the same; missing cells are empty."""
        cells = enumerate(self.columns[name])
        texts = [v.strip() if isinstance(v, str) else self._text(name, row, v) for row, v in cells]
        if all(_WHOLE.fullmatch(text) for text in texts if text):
            return [whole_number_shortened(text) for text in texts]
        return texts

    def id_texts(self, name: str) -> list[str]:
        """Return a column of node ids as text. Raises GsscError if one is missing, too long, or rounded."""
        texts = self.texts(name)
        for row, text in enumerate(texts):
            if not text:
                raise GsscError(f"{self.where(row)}: there is no id in column {name!r}: fill it in or drop the row")
            if len(text) > LONGEST_ID:
                about = f"{self.where(row)}: the id in column {name!r} has {len(text):,} characters"
                raise GsscError(f"{about}: use at most {LONGEST_ID:,}")
        cells: Any = self.columns[name]
        if not (isinstance(cells, np.ndarray) and cells.dtype.kind == "f"):
            cells = np.array([cell if isinstance(cell, float) else 0.0 for cell in cells])
        rounded = np.flatnonzero(np.abs(cells) >= LARGEST_EXACT)
        if len(rounded):
            row = int(rounded[0])
            raise GsscError(
                f"{self.where(row)}: the id in column {name!r} is {cells[row]}, a real number too large to be exact: "
                "write ids as whole numbers or text"
            )
        return texts

    def _text(self, name: str, row: int, value: Any) -> str:
        if is_missing(value):
            return ""
        if isinstance(value, bytes):
            return as_text(value, f"{self.where(row)}, column {name!r}").strip()
        return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()

    def numbers(
        self, names: Sequence[str], *, blank: float | None = None, on_share: OnShare | None = None
    ) -> np.ndarray:
        """Return columns as float32 [rows, columns]; a blank cell becomes `blank`, or is an error without it."""
        result = np.empty((len(self), len(names)), dtype=np.float32)
        for position, name in enumerate(names):
            try:
                column = self._column_of_numbers(name, blank)
            except GsscError as error:
                raise GsscError(f"{error}{self._other_problems(names[position + 1 :], blank)}") from None
            large = np.flatnonzero(np.abs(column) > np.finfo(np.float32).max)
            if len(large):
                row = int(large[0])
                raise GsscError(f"{self.where(row)}, column {name!r}: {column[row]:g} is too large: rescale the column")
            result[:, position] = column
            if on_share is not None:
                on_share((position + 1) / len(names))
        return result

    def _column_of_numbers(self, name: str, blank: float | None) -> np.ndarray:
        cells = np.asarray(self.columns[name])
        if cells.dtype.kind in "mM":  # NumPy would convert them to a number of units
            raise GsscError(
                f"{self.where(0)}, column {name!r} holds dates or times: encode them as numbers, or leave the column "
                "out (ignore_columns, --ignore)"
            )
        try:
            numbers = cells.astype(np.float64)
            if numbers.ndim == 1 and np.isfinite(numbers).all():
                return numbers
        except (TypeError, ValueError):
            pass
        every = (self._number(name, row, value, blank) for row, value in enumerate(self.columns[name]))
        return np.fromiter(every, dtype=np.float64)

    def _number(self, name: str, row: int, value: Any, blank: float | None) -> float:
        place = f"{self.where(row)}, column {name!r}"
        if is_missing(value):
            if blank is not None:
                return blank
            many = counted(sum(map(is_missing, self.columns[name])), "empty cell")
            raise GsscError(
                f"{place} is empty ({many} in the column): fill it in, or leave out the row or the column "
                "(ignore_columns, --ignore)"
            )
        try:
            number = float(value)
        except (TypeError, ValueError):
            advice = advice_on_cell(value, "encode it as numbers")
            raise GsscError(
                f"{place}: {value!r} is not a number: {advice}; or leave the column out (ignore_columns, --ignore)"
            ) from None
        if not math.isfinite(number):
            raise GsscError(f"{place} is {number}: fill it in or leave the row out")
        return number

    def _other_problems(self, names: Sequence[str], blank: float | None) -> str:
        """Return text for the end of an error: the problems of other columns, so that all can be fixed at once."""
        found = []
        for name in names:
            cells = [cell for cell in self.columns[name] if not is_missing(cell)]
            text = next((cell for cell in cells if isinstance(cell, str) and not is_number(cell)), None)
            empty = len(self.columns[name]) - len(cells)
            if text is not None:
                found.append(f"{name!r} is not a number ({text.strip()!r})")
            elif empty and blank is None:
                found.append(f"{name!r} has {counted(empty, 'empty cell')}")
        more = [f"{len(found) - SHOWN_PROBLEMS} more"] if len(found) > SHOWN_PROBLEMS else []
        return f"; also: {', '.join(found[:SHOWN_PROBLEMS] + more)}" if found else ""


def whole_number_shortened(text: str) -> str:
    """Return 3 for 3.0, and any other text unchanged."""
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def is_integer_id(text: str) -> bool:
    """Return whether an id is stored as an integer: a whole number that fits into int64, without leading zeros.

    >>> [is_integer_id(text) for text in ("-7", "9223372036854775807", "9223372036854775808", "007", "7.5")]
    [True, True, False, False, False]
    """
    whole = len(text) <= 20 and text.removeprefix("-").isdecimal()
    return whole and text == str(int(text)) and abs(int(text)) < 2**63


def refuse_no_rows(table: Table) -> None:
    """Raise GsscError if a table has only a header."""
    if len(table) == 0:
        raise GsscError(f"{table.path} has no rows: give at least one")


def without_row_numbers(table: Table) -> list[str]:
    """Return the column names without the row numbers that pandas writes."""
    return [name for name in table.names if not _ROW_NUMBERS.fullmatch(name)]


def read_table(
    path: str | PathLike[str], *, of_edges: bool = False, decimal: str = ".", on_share: OnShare | None = None
) -> Table:
    """Return the table in a .csv, .tsv, .tab, .txt (any of them also .gz), .parquet or .pq file.

    A first line of numbers is data, not a header, and the columns are called "column 1" and so on. The exception is
    0, 1, 2, ..., the default column names of pandas, unless the table is `of_edges`. A table may have a header and no
    rows. `decimal` is the decimal mark in text tables. `on_share` is called with the share of the file that is read: of
    the bytes of a text table, of the columns of Parquet.
    """
    path = Path(path)
    if _kind(path) in PARQUET_ENDINGS:
        with _opened_parquet(path) as file:
            table = file.read()
            columns = []
            for column in table.columns:
                columns.append(column.to_pylist())
                if on_share is not None:
                    on_share(len(columns) / table.num_columns)
            return _of_parquet(path, table.column_names, columns)
    return next(_text_blocks(path, None, of_edges, decimal, on_share))


def table_blocks(path: Path, rows: int, *, of_edges: bool = False, decimal: str = ".") -> Iterator[Table]:
    """Yield the table of :func:`read_table` in blocks of rows; a table without rows yields one empty block.

    Cells of Parquet are in NumPy arrays here.
    """
    if _kind(path) in PARQUET_ENDINGS:
        return _parquet_blocks(path, rows)
    return _text_blocks(path, rows, of_edges, decimal)


def _kind(path: Path) -> str:
    """Return the ending of a table's name. Raises GsscError if it is not that of a table."""
    if path.is_dir():
        raise GsscError(f"{path} is a folder: give the table in it")
    require_file(path)
    kind = ending(path)
    if kind not in (*PARQUET_ENDINGS, *TEXT_ENDINGS):
        sheet = "; save the sheet as CSV" if kind in SPREADSHEET_ENDINGS else ""
        raise GsscError(f"{path}: unknown file extension {kind!r}: use .csv, .tsv or .parquet{sheet}")
    return kind


def _text_blocks(
    path: Path, rows: int | None, of_edges: bool, decimal: str, on_share: OnShare | None = None
) -> Iterator[Table]:
    """Yield a text table in blocks of rows; in one block if ``rows`` is None."""
    found = records_of(path, decimal, on_share=on_share)
    names, lines = named_columns(path, found, _names_an_edge if of_edges else is_header)
    for block in _in_blocks(lines, rows):
        columns = list(zip(*(cells for _, cells in block), strict=True)) or [()] * len(names)
        yield Table(path, dict(zip(names, columns, strict=True)), [line for line, _ in block])


def _in_blocks(lines: Records, rows: int | None) -> Iterator[list[tuple[int, list[str]]]]:
    """Yield lines in lists of at most ``rows``; one empty list if there are none."""
    yield list(islice(lines, rows))
    while block := list(islice(lines, rows)):
        yield block


def _names_an_edge(cells: list[str]) -> bool:
    """Return whether the first line of an edge table names columns: 0, 1, 2 may be an edge and its weight."""
    return not all(map(is_number, cells))


def _parquet_blocks(path: Path, rows: int) -> Iterator[Table]:
    with _opened_parquet(path) as file:
        start = 0
        for batch in file.iter_batches(batch_size=rows, use_threads=False):
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            yield _of_parquet(path, batch.schema.names, columns, start)
            start += batch.num_rows
        if not start:
            names = file.schema_arrow.names
            yield _of_parquet(path, names, [()] * len(names))


@contextmanager
def _opened_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file that is read in small pieces. Raises GsscError if it cannot be read."""
    parquet = require("pyarrow.parquet", extra="tables")
    errors = (require("pyarrow", extra="tables").ArrowException, OSError, UnicodeDecodeError)
    try:
        with parquet.ParquetFile(
            path, buffer_size=READ_BYTES, pre_buffer=False, page_checksum_verification=True
        ) as file:
            yield file
    except errors as error:
        reason = str(error).splitlines()[0] if str(error) else "damaged"
        raise GsscError(f"{path} cannot be read as Parquet ({reason}): write or fetch it again") from None


def _of_parquet(path: Path, names: list[str], columns: Sequence[Sequence[Any]], start: int = 0) -> Table:
    if (twice := first_repeated(names)) is not None:
        raise GsscError(f"{path} has two columns called {twice!r}: rename one")
    if not names:
        raise GsscError(f"{path} has no columns: give at least one")
    return Table(path, dict(zip(names, columns, strict=True)), None, start)
