"""Feature rows from files: npz, npy, text tables and parquet, checked before they are given to a model."""

from __future__ import annotations

import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gssc.deploy.columns import feature_columns, wrong_width
from gssc.deploy.forward import is_sparse
from gssc.deploy.table_rows import TableRows, parquet_blocks, text_blocks
from gssc.errors import GsscError
from gssc.files import require_regular
from gssc.text_tables import PARQUET_ENDINGS, TEXT_ENDINGS, Lines, ending, records, records_of

ARRAY_ENDINGS = (".npz", ".npy")
FORMATS = (*ARRAY_ENDINGS, *TEXT_ENDINGS, *PARQUET_ENDINGS)
STREAM = "-"  # standard input, which holds a text table
STANDARD_INPUT = Path("standard input")  # its name in errors
# Errors that NumPy and zipfile raise for damaged files.
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
ARRAY_ROWS = 65_536  # rows per block in which memory-mapped arrays are checked and returned


def read_rows(
    path: str | Path,
    feature_names: Sequence[str] | None = None,
    width: int | None = None,
    *,
    id_name: str | None = None,
    decimal: str = ".",
) -> TableRows:
    """Return the feature rows of a file. Raises GsscError that names the row and column of an invalid value.

    Args:
        path: ``.npz`` (``x``, or ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``, or what
            ``scipy.sparse.save_npz`` writes), ``.npy``, ``.csv``, ``.tsv``, ``.tab``, ``.txt`` (text also ``.gz``),
            ``.parquet`` or ``.pq``.
        feature_names: the feature columns of a model. A table with named columns gives these, in this order, and must
            have them all; without this argument every column but an id, a label or a split is a feature.
        width: number of features of a model without feature names.
        id_name: column of the ids of a table; by default one called id, node_id or node, else, if the features have
            names, a first column that is not a feature: the column that ``gssc data import`` would take.
        decimal: decimal mark in text tables, a point or a comma.
    """
    path, wanted = Path(path), _texts(feature_names)
    with _explained(path):
        if _kind(path) in ARRAY_ENDINGS:
            _refuse_id_name(path, id_name)
            return _array(path, wanted, width)
        return TableRows.joined(list(row_blocks(path, wanted, width, id_name=id_name, decimal=decimal)))


def row_blocks(
    path: str | Path,
    feature_names: Sequence[str] | None = None,
    width: int | None = None,
    *,
    id_name: str | None = None,
    decimal: str = ".",
) -> Iterator[TableRows]:
    """Yield the rows of :func:`read_rows` a block at a time, so that a table need not fit into memory.

    A path of ``-`` is a text table on standard input, whose rows come as they arrive.
    """
    path, wanted = Path(path), _texts(feature_names)
    width = width if wanted is None else len(wanted)
    with _explained(path):
        if _kind(path) in ARRAY_ENDINGS:
            _refuse_id_name(path, id_name)
            yield from _parts(_array(path, wanted, width))
            return
        for number, block in enumerate(_blocks_of_table(path, wanted, width, id_name, decimal)):
            if number == 0:
                _refuse_nothing(block, STANDARD_INPUT if str(path) == STREAM else path)
            yield block


def _blocks_of_table(
    path: Path, wanted: list[str] | None, width: int | None, id_name: str | None, decimal: str
) -> Iterator[TableRows]:
    if str(path) == STREAM:
        lines = Lines(sys.stdin.buffer, STANDARD_INPUT)
        found = records(lines, ".csv", STANDARD_INPUT, decimal)
        return text_blocks(STANDARD_INPUT, found, wanted, width, lambda: lines.ready, id_name=id_name)
    if _kind(path) in PARQUET_ENDINGS:
        return parquet_blocks(path, path, wanted, width, id_name=id_name)
    return text_blocks(path, records_of(path, decimal), wanted, width, id_name=id_name)


def _refuse_id_name(path: Path, id_name: str | None) -> None:
    if id_name is not None:
        raise GsscError(f"{path} holds arrays, not columns, so there is no {id_name!r}: put ids under the key node_id")


def _kind(path: Path) -> str:
    """Return how the name of a file that can be read ends; "" for standard input."""
    if str(path) == STREAM:
        return ""
    kind = ending(path)
    if kind not in FORMATS:
        raise GsscError(f"cannot read {path}: its name must end in one of {', '.join(FORMATS)} (text also .gz)")
    if not path.exists():
        raise GsscError(f"cannot read {path}: there is no such file")
    require_regular(path)
    return kind


def _texts(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise errors of NumPy, zipfile or the system about a file as a GsscError of one sentence."""
    try:
        yield
    except OSError as error:
        raise GsscError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGED as error:
        # NumPy's own message, without its advice to allow pickles, which is unsafe for untrusted files.
        reason = "it holds Python objects, not numbers" if "pickle" in str(error) else _one_line(error)
        raise GsscError(f"cannot read {path}: {reason}") from error


def _array(path: Path, wanted: list[str] | None, width: int | None) -> TableRows:
    """Return the rows of ``.npz`` or ``.npy``, the latter left on disk."""
    if ending(path) == ".npz":
        rows = _in_order(_read_npz(path), wanted)
    else:
        rows = TableRows(np.load(path, mmap_mode="r", allow_pickle=False))
    _check(rows, path)
    width = width if wanted is None else len(wanted)
    if width is not None and rows.features.shape[1] != width:
        raise GsscError(f"{path}: {wrong_width(rows.features.shape[1], width, wanted)}")
    return rows


def _parts(rows: TableRows) -> Iterator[TableRows]:
    for start in range(0, len(rows), ARRAY_ROWS):
        ids = None if rows.ids is None else rows.ids[start : start + ARRAY_ROWS]
        yield TableRows(rows.features[start : start + ARRAY_ROWS], ids, rows.feature_names)


def _read_npz(path: Path) -> TableRows:
    # NumPy leaves a file it opened itself open when the archive is broken.
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        if not hasattr(file, "files"):
            raise GsscError(f"cannot read {path}: it is a single array; name it .npy")
        ids = _decoded(file["node_id"], "id") if "node_id" in file else None
        names = _names_of_npz(file["feature_names"]) if "feature_names" in file else None
        if "x" in file:
            return TableRows(file["x"], ids, names)
        for prefix in ("x_", ""):
            keys = [prefix + part for part in ("data", "indices", "indptr", "shape")]
            if all(key in file for key in keys):
                return TableRows(_csr(file, *(file[key] for key in keys)), ids, names)
        found = ", ".join(file.files) or "nothing"
    raise GsscError(f"{path} has no key 'x' and no sparse 'x_data', 'x_indices', 'x_indptr', 'x_shape'; it has {found}")


def _names_of_npz(names: np.ndarray) -> list[str]:
    if names.ndim != 1:
        raise ValueError(f"feature_names have shape {names.shape}; give a list, one name per column")
    return [str(name) for name in _decoded(names, "feature name")]


def _decoded(texts: np.ndarray, what: str) -> np.ndarray:
    """Return an array of bytes as text, and any other array unchanged."""
    if texts.dtype.kind != "S":
        return texts
    try:
        return np.char.decode(texts, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"the {what} {error.object!r} is not UTF-8; write it as text") from None


def _in_order(rows: TableRows, wanted: list[str] | None) -> TableRows:
    """Return the wanted columns, in order, if both the file and the model have feature names."""
    if wanted is None or rows.feature_names is None or rows.feature_names == wanted or rows.features.ndim != 2:
        return rows
    if len(rows.feature_names) != rows.features.shape[1]:
        raise ValueError(f"{len(rows.feature_names)} feature_names for {rows.features.shape[1]} columns")
    columns = feature_columns(rows.feature_names, wanted)
    return TableRows(rows.features[:, columns], rows.ids, [rows.feature_names[column] for column in columns])


def _csr(file: Any, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: np.ndarray) -> Any:
    from scipy import sparse

    if "format" in file and (kind := str(np.asarray(file["format"]).astype(str))) != "csr":
        raise ValueError(f"the sparse matrix is stored as {kind}; save it as csr")
    matrix = sparse.csr_matrix((data, indices, indptr), shape=tuple(int(size) for size in shape))
    matrix.check_format(full_check=True)
    return matrix


def _check(rows: TableRows, path: Path) -> None:
    features, names = rows.features, rows.feature_names
    if features.ndim != 2:
        raise GsscError(f"{path}: features have shape {features.shape}; they must be a table, one row per node")
    _refuse_nothing(rows, path)
    if features.dtype.kind not in "fiub":
        raise GsscError(f"{path}: features hold {features.dtype}; they must be numbers")
    sparse = is_sparse(features)
    for start in range(0, features.shape[0], ARRAY_ROWS):
        block = features[start : start + ARRAY_ROWS]
        if not np.isfinite(block.data if sparse else block).all():
            bad = ~np.isfinite(block.toarray() if sparse else block)
            row, column = np.argwhere(bad)[0]
            where = column if names is None else repr(names[column])
            raise GsscError(f"{path}: row {start + row}, column {where} is NaN or infinite; fix or drop the row")
    if names is not None and len(names) != features.shape[1]:
        raise GsscError(f"{path}: {len(names)} feature names for {features.shape[1]} features")
    if rows.ids is not None and rows.ids.shape != (features.shape[0],):
        raise GsscError(f"{path}: ids have shape {rows.ids.shape} for {features.shape[0]} rows; give one per row")


def _refuse_nothing(rows: TableRows, path: Path) -> None:
    if 0 in rows.features.shape:
        what = "rows" if rows.features.shape[0] == 0 else "feature columns"
        raise GsscError(f"{path} has no {what}: there is nothing to predict")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
