"""Text tables, read alike by importing and by predicting: endings, the mark between cells, lines, names of columns."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from gssc.errors import GsscError

TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
# By which a node table's id and label are known, unless the user names others.
ID_NAMES = ("id", "node_id", "node", "node id")
LABEL_NAMES = ("label", "y", "class", "target")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_QUOTED = re.compile(r'(^|[,;\t])"(?:[^"]|"")*("|$)')  # a quoted cell, after the start of the line or a mark


def ending(path: Path) -> str:
    """How a table's name ends, in small letters; ``.gz`` is taken off text tables.

    >>> ending(Path("rows.CSV.gz")), ending(Path("rows.parquet.gz"))
    ('.csv', '.gz')
    """
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    return inner if suffix == ".gz" and inner in TEXT_ENDINGS else suffix


def records_of(path: Path, decimal: str = ".") -> Iterator[tuple[int, list[str]]]:
    """The :func:`records` of a file, packed or not; the mark that spreadsheets put before UTF-8 is skipped."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from records(file, ending(path), path, decimal)
    except UnicodeDecodeError as error:
        with opener(path, "rb") as file:
            where = _first_line_not_utf8(file) or error.reason
        raise GsscError(f"{path}: not a text table: {where} is not UTF-8; save it as UTF-8") from None


def _first_line_not_utf8(file: IO[bytes]) -> str | None:
    """The decoder's own error counts bytes of a part of the file only."""
    for number, line in enumerate(file, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"line {number}, byte {line[error.start]:#04x}"
    return None


def find_delimiter(first_line: str, decimal: str = ".") -> str:
    """What stands between the columns: where a comma marks decimals, spreadsheets save a semicolon, or a tab.

    >>> find_delimiter("load;heat, mean;speed"), find_delimiter('"load;heat;speed",weight')
    (';', ',')
    >>> find_delimiter("1,5;2,5;3,5", decimal=",")
    ';'
    """
    return max(";\t" if decimal == "," else ",;\t", key=_QUOTED.sub(r"\1", first_line).count)


def records(file: IO[str], kind: str, path: Path, decimal: str = ".") -> Iterator[tuple[int, list[str]]]:
    """The cells of every line that is not blank, with the number of the line they begin on.

    Args:
        file: an open table that can be read from its start.
        kind: its ending; in ``.tsv`` and ``.tab`` only a tab separates cells.
        path: what to call it in an error.
        decimal: "," reads a cell such as 1,5 as 1.5, whatever its column; cells are then separated by ; or a tab.
    """
    if decimal not in (".", ","):
        raise GsscError(f"decimal is {decimal!r}: use a point or a comma")
    first = next((text for text in file if text.strip()), "")
    delimiter = "\t" if kind in (".tsv", ".tab") else find_delimiter(first, decimal)
    file.seek(0)
    reader, line = csv.reader(file, delimiter=delimiter, strict=True), 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, [_with_point(cell) for cell in cells] if decimal == "," else cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise GsscError(f"{path}:{line}: not a text table: {error}") from None


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell


def is_header(cells: Sequence[str]) -> bool:
    """Whether a first line names columns: some cell is no number, or they count 0, 1, 2, ... as pandas does.

    Two columns that are called 0 and 1 are taken for numbers, as they may well be an edge.

    >>> is_header(["load", "7"]), is_header(["0", "1", "2"]), is_header(["0", "1"]), is_header(["0", "1", "0.5"])
    (True, True, False, False)
    """
    return not all(map(is_number, cells)) or (len(cells) > 2 and counts_from_zero(cells))


def counts_from_zero(cells: Sequence[str]) -> bool:
    """Whether cells are 0, 1, 2, ..., which is what pandas calls columns without names."""
    return [cell.strip() for cell in cells] == [str(index) for index in range(len(cells))]


def default_names(count: int) -> list[str]:
    """What columns are called where the first line is data: a model trained on such a table finds its own again."""
    return [f"column {number}" for number in range(1, count + 1)]


def is_number(cell: str) -> bool:
    """Whether a cell can be read as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def has_decimal_comma(cell: object) -> bool:
    """Whether a comma is all that keeps a cell from being a number, as in some countries' spreadsheets."""
    return isinstance(cell, str) and is_number(cell.replace(",", ".", 1))
