"""Read text tables, in the same way for import and prediction: endings, separators, lines, column names."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

from gssc.errors import GsscError
from gssc.names import counted

TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
# Usual names of the id and label columns of a node table, for when the user names no others.
ID_NAMES = ("id", "node_id", "node", "node id")
LABEL_NAMES = ("label", "y", "class", "target")
MISSING_MARKS = ("na", "n/a", "#n/a", "#na", "null", "none", "?", "-", "--", ".")
PIECE_BYTES = 1 << 18
LONGEST_LINE = 1 << 24  # characters, enough for a row of a million features
# A .gz may unpack to this many bytes or times its size, whichever is more. Tables rarely shrink to a hundredth.
UNPACKED_BYTES, UNPACKED_TIMES = 1 << 30, 100
Records = Iterator[tuple[int, list[str]]]  # line number and cells

_DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*", re.ASCII)
_SEPARATOR_LINE = re.compile(r"\s*\"?sep=([,;|\t])\"?\s*", re.IGNORECASE)  # a first line for Excel, not a header
_QUOTED = re.compile(r'(^|[,;\t])"(?:[^"]|"")*("|$)')  # a quoted cell, at the start of the line or after a separator


def ending(path: Path) -> str:
    """Return the ending of a table's name, in lower case; for text tables, without ``.gz``.

    >>> ending(Path("rows.CSV.gz")), ending(Path("rows.parquet.gz"))
    ('.csv', '.gz')
    """
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    return inner if suffix == ".gz" and inner in TEXT_ENDINGS else suffix


def records_of(
    path: Path, decimal: str = ".", keep_blank: bool = False, on_share: Callable[[float], None] | None = None
) -> Records:
    """Yield the :func:`records` of a file, compressed or not.

    Args:
        path: the file.
        decimal, keep_blank: as in :func:`records`.
        on_share: called with the share of the file's bytes that has been read, every 256 KB of text.

    Raises GsscError that names the file if it is missing, cut short or damaged.
    """
    packed = path.suffix.lower() == ".gz"
    try:
        size = path.stat().st_size
        most = max(UNPACKED_BYTES, UNPACKED_TIMES * size) if packed else None
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) if packed else nullcontext(raw) as file:
            on_read = None if on_share is None else lambda: on_share(min(1.0, raw.tell() / max(size, 1)))
            yield from records(Lines(file, path, most, on_read), ending(path), path, decimal, keep_blank=keep_blank)
    except (OSError, EOFError, zlib.error) as error:  # the last two are those of a damaged .gz
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise GsscError(f"cannot read {path}: {reason}; copy it again") from None


class Lines:
    """The lines of a text, read from bytes in UTF-8, of bounded length; a byte order mark is skipped.

    Args:
        file: source of the bytes; may be a pipe.
        path: path shown in errors.
        most_bytes: maximum length of the text; None for no limit.
        on_read: called after each read.

    Attributes:
        ready: whether a line has been read, so that the next one comes without waiting for a pipe.
    """

    def __init__(self, file: Any, path: Path, most_bytes: int | None = None, on_read: Callable[[], None] | None = None):
        self._file, self._path, self._most, self._on_read = file, path, most_bytes, on_read
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._lines: deque[str] = deque()
        self._given = self._bytes = 0
        self._rest = ""  # the beginning of a line whose end is still to come
        self._at_end = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self._lines:
            if self._at_end:
                raise StopIteration
            self._read()
        self._given += 1
        return self._lines.popleft()

    @property
    def ready(self) -> bool:
        return bool(self._lines)

    def _read(self) -> None:
        """Read at least to the end of a line, or to the end of the file."""
        parts, length = [self._rest], len(self._rest)
        while True:
            piece = self._file.read1(PIECE_BYTES)
            self._bytes += len(piece)
            if self._on_read is not None:
                self._on_read()
            if self._most is not None and self._bytes > self._most:
                raise GsscError(
                    f"{self._path} unpacks to more than {self._most:,} bytes: unpack it first if that is right"
                )
            text = self._decoded(piece)
            parts.append(text)
            length += len(text)
            if not piece or "\n" in text or "\r" in text:
                break
            if length > LONGEST_LINE:
                number = self._given + 1
                raise GsscError(
                    f"{self._path}:{number}: not a text table: the line has over {LONGEST_LINE:,} characters"
                )
        # The line ends of the csv module: only \n, \r and \r\n.
        self._lines.extend(io.StringIO("".join(parts), newline=""))
        self._at_end, self._rest = not piece, ""
        if piece and self._lines and not self._lines[-1].endswith("\n"):
            self._rest = self._lines.pop()

    def _decoded(self, piece: bytes) -> str:
        try:
            return self._decode(piece, not piece)
        except UnicodeDecodeError as error:
            content = bytes(error.object)
            if self._bytes == len(piece) and (kind := _known_kind(content)):
                raise GsscError(f"{self._path}: not a text table but {kind}") from None
            number, byte = self._given + content.count(b"\n", 0, error.start) + 1, content[error.start]
            raise GsscError(
                f"{self._path}: not a text table: line {number}, byte {byte:#04x} is not UTF-8; save it as UTF-8"
            ) from None


def _known_kind(content: bytes) -> str:
    """Return what a file is that begins with these bytes, and what to do; empty if it is unknown."""
    if content.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return "an Excel workbook or a ZIP archive: save the sheet as CSV (UTF-8)"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "text in UTF-16: save it as UTF-8"
    if content.startswith(b"\x1f\x8b"):
        return "compressed: its name must end in .gz"
    return "Parquet: its name must end in .parquet" if content.startswith(b"PAR1") else ""


def find_delimiter(first_line: str, decimal: str = ".") -> str:
    """Return the separator of the columns.

    Where a comma marks decimals, spreadsheets save a semicolon or a tab; a few save a comma and put numbers in quotes.

    >>> find_delimiter("load;heat, mean;speed"), find_delimiter('"load;heat;speed",weight')
    (';', ',')
    >>> find_delimiter("1,5;2,5;3,5", decimal=","), find_delimiter('id,load,"heat, mean"', decimal=",")
    (';', ',')
    """
    count = _QUOTED.sub(r"\1", first_line).count
    if decimal != ",":
        return max(",;\t", key=count)
    between = max(";\t", key=count)
    return "," if not count(between) and count(",") and not _DECIMAL_COMMA.fullmatch(first_line) else between


def records(
    lines: Iterable[str],
    kind: str,
    path: Path,
    decimal: str = ".",
    most_blank: int | None = None,
    keep_blank: bool = False,
) -> Records:
    """Yield the cells of every line that is not blank, with the number of the line they begin on.

    Args:
        lines: the lines of a table, each with its end.
        kind: its ending; in ``.tsv`` and ``.tab`` only a tab separates cells. A first line such as ``sep=;``, which is
            meant for Excel, names the separator.
        path: path shown in errors.
        decimal: "," reads a cell such as 1,5 as 1.5, in every column; cells are then separated by ; or a tab, or by a
            comma if cells with a decimal comma are in quotes.
        most_blank: maximum number of blank lines; None for no limit.
        keep_blank: whether to yield blank lines after the first line as well; an empty one has no cells.
    """
    if decimal not in (".", ","):
        raise GsscError(f"decimal is {decimal!r}: use a point or a comma")
    lines, blank, first = iter(lines), 0, ""
    for first in lines:
        if first.strip():
            break
        blank += 1
        _refuse_blank(blank, most_blank, path)
    before = blank  # lines that the csv module does not see
    if stated := _SEPARATOR_LINE.fullmatch(first):
        delimiter, first, before = stated[1], next(lines, ""), before + 1
    else:
        delimiter = "\t" if kind in (".tsv", ".tab") else find_delimiter(first, decimal)
    reader, line = csv.reader(chain([first], lines), delimiter=delimiter, strict=True), before + 1
    try:
        for cells in reader:
            if keep_blank or any(map(str.strip, cells)):
                yield line, [_with_point(cell) for cell in cells] if decimal == "," else cells
            else:
                blank += 1
                _refuse_blank(blank, most_blank, path)
            line = before + reader.line_num + 1
    except csv.Error as error:
        raise GsscError(f"{path}:{line}: not a text table: {error}") from None


def _refuse_blank(count: int, most: int | None, path: Path) -> None:
    if most is not None and count > most:
        raise GsscError(f"{path}: more than {most:,} blank lines; leave them out")


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell


def named_columns(path: Path, lines: Records, is_named: Callable[[list[str]], bool]) -> tuple[list[str], Records]:
    """Return the names of the columns, all different, and the rows with their line numbers, all of one length.

    Args:
        path: path shown in errors.
        lines: its :func:`records`.
        is_named: whether a first line names the columns; if it does not, they are called "column 1" and so on.
    """
    line, first = next(lines, (0, []))
    if not first:
        raise GsscError(f"{path} is empty: give a header and at least one row")
    if not is_named(first):
        return default_names(len(first)), _of_width(path, chain([(line, first)], lines), len(first))
    names = [cell.strip() for cell in first]
    if names.count("") > 1:
        raise GsscError(f"{path}:{line}: {_unnamed(names)} no name; name or delete them")
    if (twice := first_repeated(names)) is not None:
        raise GsscError(f"{path}:{line}: column {twice!r} appears twice; rename one")
    return names, _of_width(path, lines, len(first))


def _unnamed(names: Sequence[str]) -> str:
    """Return which columns have no name, such as ``columns 4 and 5 have``."""
    places = [str(place) for place, name in enumerate(names, 1) if not name]
    if len(places) > 3:
        return f"columns {', '.join(places[:3])} and {len(places) - 3} more have"
    return f"columns {', '.join(places[:-1])} and {places[-1]} have"


def _of_width(path: Path, lines: Records, width: int) -> Records:
    for line, cells in lines:
        if len(cells) != width:
            advice = (
                "complete the row (a cut-off file ends like this)"
                if len(cells) < width
                else "remove the extra cells, or put cells that contain the separator in quotes"
            )
            raise GsscError(
                f"{path}:{line}: {counted(len(cells), 'column')} where the first line has {width}; {advice}"
            )
        yield line, cells


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that repeats an earlier one, if any.

    >>> first_repeated(["a", "b", "a"])
    'a'
    """
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def is_header(cells: Sequence[str]) -> bool:
    """Return whether a first line names columns: some cell is not a number, or they count 0, 1, 2, ... as pandas does.

    A first line of 0 and 1 alone is data, since it may be an edge.

    >>> is_header(["load", "7"]), is_header(["0", "1", "2"]), is_header(["0", "1"]), is_header(["0", "1", "0.5"])
    (True, True, False, False)
    """
    return not all(map(is_number, cells)) or (len(cells) > 2 and counts_from_zero(cells))


def counts_from_zero(cells: Sequence[str]) -> bool:
    """Return whether cells are 0, 1, 2, ..., which is what pandas calls columns without names."""
    return [cell.strip() for cell in cells] == [str(index) for index in range(len(cells))]


def default_names(count: int) -> list[str]:
    """Return the names of columns where the first line is data; prediction finds them by the same names."""
    return [f"column {number}" for number in range(1, count + 1)]


def is_number(cell: str) -> bool:
    """Return whether a cell can be read as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


DECIMAL_OPTION = "decimal=',' (--decimal ,)"  # in Python and on the command line; a server has others


def advice_on_cell(cell: object, otherwise: str) -> str:
    """Return what to do about a cell that is not a number.

    Args:
        cell: its content.
        otherwise: the advice for a cell that holds neither a number with commas nor a mark such as NA.

    >>> advice_on_cell("3,14", "encode it")
    "write decimals with a point, or read decimal commas with decimal=',' (--decimal ,)"
    >>> advice_on_cell("12,500.75", "encode it"), advice_on_cell("red", "encode it")
    ('write thousands without a separator', 'encode it')
    """
    text = cell.strip() if isinstance(cell, str) else ""
    if text.lower() in MISSING_MARKS:
        return "fill in the missing value or leave the row out"
    decimals = f"read decimal commas with {DECIMAL_OPTION}"
    is_decimal = is_number(text.replace(",", ".", 1))
    if _THOUSANDS.fullmatch(text):
        thousands = "write thousands without a separator"
        return f"{thousands}, or {decimals}" if is_decimal else thousands  # 1,500 may be either
    return f"write decimals with a point, or {decimals}" if is_decimal else otherwise
