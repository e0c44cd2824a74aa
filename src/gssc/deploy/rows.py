"""Feature rows from files: npz, npy, text tables and parquet, checked before a model sees them."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gssc.errors import GsscError
from gssc.extras import require
from gssc.text_tables import (
    ID_NAMES,
    LABEL_NAMES,
    PARQUET_ENDINGS,
    TEXT_ENDINGS,
    default_names,
    ending,
    has_decimal_comma,
    is_header,
    is_number,
    records_of,
)

ID_COLUMNS = (*ID_NAMES, "")  # pandas leaves its index unnamed
OTHER_COLUMNS = (*LABEL_NAMES, "split")
FORMATS = (".npz", ".npy", *TEXT_ENDINGS, *PARQUET_ENDINGS)
LARGEST = np.finfo(np.float32).max
# What NumPy and zipfile raise over damaged files.
_DAMAGED = (
    ValueError,
    EOFError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    TypeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_CHECK_ROWS = 65_536  # memory-mapped rows are checked in blocks, never read whole


@dataclass
class Rows:
    """Feature rows of a table.

    Attributes:
        features: float array [rows, features], possibly memory-mapped, or a SciPy CSR matrix.
        ids: one number or text a row, from a column such as ``id`` or ``node_id``, if there is one.
        feature_names: names of the columns, if the file has any.
    """

    features: Any
    ids: np.ndarray | None = None
    feature_names: list[str] | None = None

    def __len__(self) -> int:
        return int(self.features.shape[0])


def read_rows(path: str | Path, feature_names: Sequence[str] | None = None, width: int | None = None) -> Rows:
    """Read feature rows, or raise a :class:`GsscError` that says where the file is wrong.

    Args:
        path: ``.npz`` (``x``, or ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``, or what
            ``scipy.sparse.save_npz`` writes), ``.npy``, ``.csv``, ``.tsv``, ``.tab``, ``.txt`` (text also ``.gz``),
            ``.parquet`` or ``.pq``.
        feature_names: the columns a model wants. A table with named columns gives these, in this order, and must
            have them all; without this argument every column but an id, a label or a split is a feature.
        width: how many features a model wants, if it does not know their names.
    """
    path = Path(path)
    kind = ending(path)
    if kind not in FORMATS:
        raise GsscError(f"cannot read {path}: its name must end in one of {', '.join(FORMATS)} (text also .gz)")
    if not path.is_file():
        raise GsscError(f"cannot read {path}: {'it is a folder' if path.is_dir() else 'there is no such file'}")
    wanted = None if feature_names is None else [str(name) for name in feature_names]
    try:
        if kind == ".npz":
            rows = _in_order(_read_npz(path), wanted)
        elif kind == ".npy":
            rows = Rows(np.load(path, mmap_mode="r", allow_pickle=False))
        elif kind in PARQUET_ENDINGS:
            rows = _read_parquet(path, wanted)
        else:
            rows = _read_text(path, wanted)
    except OSError as error:
        raise GsscError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGED as error:
        # NumPy's own words; its advice to allow pickles is not for files from elsewhere.
        reason = "it holds Python objects, not numbers" if "pickle" in str(error) else _one_line(error)
        raise GsscError(f"cannot read {path}: {reason}") from error
    _check(rows, path)
    width = width if wanted is None else len(wanted)
    if width is not None and rows.features.shape[1] != width:
        raise GsscError(f"{path}: {wrong_width(rows.features.shape[1], width, wanted)}")
    return rows


def wrong_width(found: int, width: int, feature_names: Sequence[str] | None) -> str:
    """What is wrong with rows that have too many or too few features, and what to do.

    >>> wrong_width(3, 2, ["load", "heat"])
    'rows have 3 features, but the model was trained on 2: give the columns it was trained on, in order (load, heat)'
    """
    names = list(feature_names or ())
    shown = ", ".join(names[:5] + ["..."] * (len(names) > 5))
    which = f" ({shown})" if names else ""
    return (
        f"rows have {found} features, but the model was trained on {width}: "
        f"give the columns it was trained on, in order{which}"
    )


def feature_columns(header: Sequence[str], wanted: Sequence[str] | None) -> list[int]:
    """Which columns of a table are features: the wanted ones, or all that are not known to be something else.

    >>> feature_columns(["id", "b", "a", "label"], ["a", "b"])
    [2, 1]
    >>> feature_columns(["id", "b", "a", "label"], None)
    [1, 2]
    """
    if wanted is None:
        known = {*ID_COLUMNS, *OTHER_COLUMNS}
        return [index for index, name in enumerate(header) if name.lower() not in known]
    # Readers of text tables take the blanks off names, and whoever fitted a model may have left them on.
    place = {name.strip(): index for index, name in enumerate(header)} | {
        name: index for index, name in enumerate(header)
    }
    wanted = [name if name in place else name.strip() for name in wanted]
    missing = [name for name in wanted if name not in place]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"the model needs {len(wanted)} feature columns; the table lacks {missing[0]!r}{others}")
    return [place[name] for name in wanted]


def find_id_column(header: Sequence[str]) -> int | None:
    """Which column of a table holds the ids, if any; an unnamed one only if nothing else does.

    >>> find_id_column(["", "load", "ID"])
    2
    """
    names = [name.lower() for name in header]
    return next((names.index(name) for name in ID_COLUMNS if name in names), None)


def _read_npz(path: Path) -> Rows:
    # NumPy leaves a file it opened itself open when the archive is broken.
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        if not hasattr(file, "files"):
            raise GsscError(f"cannot read {path}: it is a single array; name it .npy")
        ids = _decoded(file["node_id"], "id") if "node_id" in file else None
        names = _names_of_npz(file["feature_names"]) if "feature_names" in file else None
        if "x" in file:
            return Rows(file["x"], ids, names)
        for prefix in ("x_", ""):
            keys = [prefix + part for part in ("data", "indices", "indptr", "shape")]
            if all(key in file for key in keys):
                return Rows(_csr(file, *(file[key] for key in keys)), ids, names)
        found = ", ".join(file.files) or "nothing"
    raise GsscError(f"{path} has no key 'x' and no sparse 'x_data', 'x_indices', 'x_indptr', 'x_shape'; it has {found}")


def _names_of_npz(names: np.ndarray) -> list[str]:
    if names.ndim != 1:
        raise ValueError(f"feature_names have shape {names.shape}; give a list, one name a column")
    return [str(name) for name in _decoded(names, "feature name")]


def _decoded(texts: np.ndarray, what: str) -> np.ndarray:
    """Bytes as text; anything else as it is."""
    if texts.dtype.kind != "S":
        return texts
    try:
        return np.char.decode(texts, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"the {what} {error.object!r} is not UTF-8; write it as text") from None


def _in_order(rows: Rows, wanted: list[str] | None) -> Rows:
    """The columns that are wanted, if both sides have names."""
    if wanted is None or rows.feature_names is None or rows.feature_names == wanted or rows.features.ndim != 2:
        return rows
    if len(rows.feature_names) != rows.features.shape[1]:
        raise ValueError(f"{len(rows.feature_names)} feature_names for {rows.features.shape[1]} columns")
    columns = feature_columns(rows.feature_names, wanted)
    return Rows(rows.features[:, columns], rows.ids, [rows.feature_names[column] for column in columns])


def _csr(file: Any, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: np.ndarray) -> Any:
    from scipy import sparse

    if "format" in file and (kind := str(np.asarray(file["format"]).astype(str))) != "csr":
        raise ValueError(f"the sparse matrix is stored as {kind}; save it as csr")
    matrix = sparse.csr_matrix((data, indices, indptr), shape=tuple(int(size) for size in shape))
    matrix.check_format(full_check=True)
    return matrix


def _read_parquet(path: Path, wanted: list[str] | None) -> Rows:
    require("pyarrow", extra="tables")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            header = list(file.schema_arrow.names)
            if twice := next((name for name, count in Counter(header).items() if count > 1), None):
                raise GsscError(f"{path}: column {twice!r} is there twice")
            columns = feature_columns(header, wanted)
            id_column = find_id_column(header)
            chosen = [header[index] for index in columns]
            table = file.read(columns=chosen if id_column is None else [*chosen, header[id_column]])
    except pa.ArrowException as error:
        raise GsscError(f"cannot read {path}: {_one_line(error)}") from error
    features = np.empty((table.num_rows, len(chosen)), dtype=np.float32)
    for number, name in enumerate(chosen):
        column = table.column(name)
        kind = column.type
        if pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = _numbers_in_text(path, name, column)
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise GsscError(f"{path}: column {name!r} holds {kind}; features must be numbers")
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise GsscError(f"{path}: row {row + 1}, column {name!r} is empty; fill it or drop the row")
        numbers = column.to_numpy()
        fits = np.abs(numbers) <= LARGEST
        if not fits.all():
            row = int(fits.argmin())
            wrong = "too large; rescale the column" if np.isfinite(numbers[row]) else "not finite; mend or drop the row"
            raise GsscError(f"{path}: row {row + 1}, column {name!r} is {numbers[row]:g}: {wrong}")
        features[:, number] = numbers
    ids = None
    if id_column is not None:
        column = table.column(header[id_column])
        ids = (
            column.to_numpy()
            if pa.types.is_integer(column.type) and not column.null_count
            else _texts(column.to_pylist())
        )
    return Rows(features, ids, chosen)


def _numbers_in_text(path: Path, name: str, column: Any) -> Any:
    import pyarrow as pa

    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        raise GsscError(f"{path}: column {name!r} holds text; features must be numbers") from None


def _read_text(path: Path, wanted: list[str] | None) -> Rows:
    lines = records_of(path)
    first = next(lines, None)
    if first is None:
        raise GsscError(f"{path} is empty")
    return parse_records(path, first, lines, wanted)


def parse_records(
    path: Path, first: tuple[int, list[str]], lines: Iterator[tuple[int, list[str]]], wanted: list[str] | None
) -> Rows:
    """Rows from the lines of a text table: the first line with its number, the rest, the columns that are wanted."""
    line, cells = first
    stripped = [cell.strip() for cell in cells]
    if is_header(cells) or (wanted and {name.strip() for name in wanted} <= set(stripped)):
        header = stripped
        if len(set(header)) != len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise GsscError(f"{path}:{line}: column {twice!r} is there twice")
    else:
        header, lines = default_names(len(cells)), chain([first], lines)
        wanted = wanted if wanted is not None and set(wanted) <= set(header) else None
    columns, id_column = feature_columns(header, wanted), find_id_column(header)
    all_columns = columns == list(range(len(cells)))
    features, ids = [], []
    for line, record in lines:
        if len(record) != len(cells):
            raise GsscError(f"{path}:{line}: {len(record)} columns where the first line has {len(cells)}")
        chosen = record if all_columns else [record[index] for index in columns]
        try:
            values = list(map(float, chosen))
        except ValueError:
            raise GsscError(f"{path}:{line}: {_first_text(chosen, columns, header)}") from None
        numbers = np.array(values, dtype=np.float64)
        # One sum, not NumPy's, which would warn, finds every NaN and infinity.
        if not math.isfinite(sum(values)) or np.abs(numbers).max(initial=0) > LARGEST:
            at = int(np.argmax(~(np.abs(numbers) <= LARGEST)))
            raise GsscError(
                f"{path}:{line}: column {header[columns[at]]!r} is {chosen[at].strip()}; mend or drop the row"
            )
        features.append(numbers.astype(np.float32))
        if id_column is not None:
            ids.append(record[id_column].strip())
    table = np.stack(features) if features else np.empty((0, len(columns)), dtype=np.float32)
    return Rows(table, None if id_column is None else _texts(ids), [header[index] for index in columns])


def _first_text(chosen: list[str], columns: list[int], header: list[str]) -> str:
    at = next(index for index, cell in enumerate(chosen) if not is_number(cell))
    name, cell = header[columns[at]], chosen[at]
    if not cell.strip():
        return f"column {name!r} is empty"
    hint = "; write decimals with a point" if has_decimal_comma(cell) else ""
    return f"column {name!r} is {cell!r} where a number belongs{hint}"


def _texts(ids: Sequence[Any]) -> np.ndarray:
    """Ids as whole numbers if all are written the way a whole number prints, as text otherwise."""
    texts = ["" if value is None else _text(value) for value in ids]
    try:
        numbers = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=np.str_)
    return numbers if [str(number) for number in numbers.tolist()] == texts else np.array(texts, dtype=np.str_)


def _text(value: Any) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise ValueError(f"the id {value!r} is not UTF-8; write it as text") from None


def _check(rows: Rows, path: Path) -> None:
    features, names = rows.features, rows.feature_names
    if features.ndim != 2:
        raise GsscError(f"{path}: features have shape {features.shape}; they must be a table, one row a node")
    if 0 in features.shape:
        what = "rows" if features.shape[0] == 0 else "feature columns"
        raise GsscError(f"{path} has no {what}: there is nothing to predict")
    if features.dtype.kind not in "fiub":
        raise GsscError(f"{path}: features hold {features.dtype}; they must be numbers")
    for start in range(0, features.shape[0], _CHECK_ROWS):
        block = features[start : start + _CHECK_ROWS]
        if not np.isfinite(getattr(block, "data", block) if hasattr(block, "tocsr") else block).all():
            bad = ~np.isfinite(block.toarray() if hasattr(block, "tocsr") else block)
            row, column = np.argwhere(bad)[0]
            where = column if names is None else repr(names[column])
            raise GsscError(f"{path}: row {start + row}, column {where} is NaN or infinite; mend or drop the row")
    if names is not None and len(names) != features.shape[1]:
        raise GsscError(f"{path}: {len(names)} feature names for {features.shape[1]} features")
    if rows.ids is not None and rows.ids.shape != (features.shape[0],):
        raise GsscError(f"{path}: ids have shape {rows.ids.shape} for {features.shape[0]} rows; give one a row")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
