"""Tables in, float32 rows out: a process of its own, which hostile files may kill and the server outlives.

Run as ``python -m gssc.deploy.serve.reader``. The first line of stdin is :class:`Settings` as JSON. After it, each
table is a line of JSON (``kind``, ``name``, ``size``) and ``size`` bytes; each answer on stdout is a line of JSON
(``error``, or ``rows``, ``columns``, ``ids``) and rows x columns float32 numbers. It ends when stdin does.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from gssc.deploy.rows import Rows, feature_columns, find_id_column, parse_records, wrong_width
from gssc.errors import GsscError
from gssc.text_tables import records

KINDS = ("csv", "tsv", "parquet")
# Columns a table may have beside the features: ids, labels, remarks.
SPARE_COLUMNS = 1000


@dataclass
class Settings:
    """What a table must fit.

    Args:
        width: number of features.
        feature_names: names of the columns, if the model knows them.
        max_rows: rows of a table.
        max_values: numbers of a table, and characters of its ids.
        max_memory: bytes the process may take beyond what it has at the start; 0 is no bound.
    """

    width: int
    feature_names: list[str] | None
    max_rows: int
    max_values: int
    max_memory: int = 0


def read_table(kind: str, name: str, body: bytes, settings: Settings) -> Rows:
    """Read a table, or raise a :class:`GsscError` that says where it is wrong."""
    path = Path(name)
    rows = _read_parquet(path, body, settings) if kind == "parquet" else _read_text(kind, path, body, settings)
    columns = rows.features.shape[1]
    if columns != settings.width:
        raise GsscError(f"{path}: {wrong_width(columns, settings.width, settings.feature_names)}")
    if len(rows) == 0:
        raise GsscError(f"{path} has no rows: there is nothing to predict")
    if rows.ids is not None and rows.ids.dtype.kind == "U" and rows.ids.itemsize * len(rows) > 4 * settings.max_values:
        raise GsscError(f"{path}: the ids are too long")
    return rows


def _read_text(kind: str, path: Path, body: bytes, settings: Settings) -> Rows:
    try:
        text = io.StringIO(body.decode("utf-8-sig"), newline="")
        lines = _within_limits(records(text, f".{kind}", path), path, settings)
        first = next(lines, None)
        if first is None:
            raise GsscError(f"{path} is empty")
        rows = parse_records(path, first, lines, settings.feature_names)
    except UnicodeDecodeError as error:
        raise GsscError(
            f"{path} is not a text table in UTF-8: byte {error.start} is {body[error.start]:#04x}"
        ) from None
    except ValueError as error:
        raise GsscError(f"{path}: {error}") from None
    if len(rows) > settings.max_rows:
        raise _too_many(path, settings)
    return rows


def _within_limits(
    lines: Iterator[tuple[int, list[str]]], path: Path, settings: Settings
) -> Iterator[tuple[int, list[str]]]:
    """The same lines, until there are too many of them or of their cells."""
    for count, (line, cells) in enumerate(lines):
        if count > settings.max_rows:  # the first may be the names
            raise _too_many(path, settings)
        if len(cells) > settings.width + SPARE_COLUMNS:
            raise GsscError(f"{path}:{line}: {len(cells)} columns; the model was trained on {settings.width}")
        yield line, cells


def _read_parquet(path: Path, body: bytes, settings: Settings) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    limits = {"thrift_string_size_limit": len(body), "thrift_container_size_limit": len(body)}
    try:
        with pq.ParquetFile(pa.BufferReader(body), **limits) as file:
            schema = file.schema_arrow
            if file.metadata.num_rows > settings.max_rows:
                raise _too_many(path, settings)
            if len(schema.names) > settings.width + SPARE_COLUMNS:
                found = len(schema.names)
                raise GsscError(f"{path}: {found} columns; the model was trained on {settings.width}")
            chosen, id_name = _columns(path, schema, settings.feature_names)
            if file.metadata.num_rows * len(chosen) > settings.max_values:
                most = settings.max_values // len(chosen)
                raise GsscError(f"{path}: too many numbers; send at most {most:,} rows of {len(chosen)} at a time")
            features = np.empty((file.metadata.num_rows, len(chosen)), dtype=np.float32)
            ids: list[Any] = []
            start = 0
            names = [*chosen, *([] if id_name is None else [id_name])]
            for batch in file.iter_batches(batch_size=1024, columns=names, use_threads=False):
                _fill(path, features, start, batch, chosen)
                start += batch.num_rows
                if id_name is not None:
                    ids += batch.column(id_name).to_pylist()
    except pa.ArrowMemoryError:  # an ArrowException, too
        raise MemoryError from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise GsscError(f"{path}: not a Parquet table: {' '.join(str(error).split())[:200]}") from None
    if start != len(features):
        raise GsscError(f"{path}: {start} rows where its head says {len(features)}")
    return Rows(features, None if id_name is None else _id_array(ids), chosen)


def _columns(path: Path, schema: Any, wanted: list[str] | None) -> tuple[list[str], str | None]:
    """Names of the feature columns and of the id's, all of kinds that can be read."""
    import pyarrow as pa

    header = list(schema.names)
    if len(set(header)) != len(header):
        raise GsscError(f"{path}: a column name is there twice")
    chosen = [header[index] for index in feature_columns(header, wanted)]
    types = pa.types
    for name in chosen:
        kind = schema.field(name).type
        if not any(fits(kind) for fits in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)):
            raise GsscError(f"{path}: column {name!r} holds {str(kind)[:60]}; features must be numbers")
    if not chosen:
        raise GsscError(f"{path} has no feature columns")
    id_column = find_id_column(header)
    id_name = None if id_column is None else header[id_column]
    if id_name is not None:
        kind = schema.field(id_name).type
        if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
            raise GsscError(f"{path}: column {id_name!r} holds {str(kind)[:60]}; ids must be whole numbers or text")
    return chosen, id_name


def _fill(path: Path, features: np.ndarray, start: int, batch: Any, chosen: list[str]) -> None:
    """Copy the numbers of some rows to their place."""
    import pyarrow as pa

    if start + batch.num_rows > len(features):
        raise GsscError(f"{path} has more rows than its head says")
    target = features[start : start + batch.num_rows]
    for number, name in enumerate(chosen):
        column = batch.column(name)
        if column.null_count:
            row = start + column.is_null().to_pylist().index(True) + 1
            raise GsscError(f"{path}: row {row}, column {name!r} is empty; fill it or drop the row")
        # Not to_numpy, which imports pandas where that is installed.
        numbers = column.cast(pa.float32(), safe=False)
        target[:, number] = np.frombuffer(numbers.buffers()[1], np.float32, len(numbers), 4 * numbers.offset)
    finite = np.isfinite(target)
    if not finite.all():
        row, at = np.argwhere(~finite)[0]
        raise GsscError(
            f"{path}: row {start + row + 1}, column {chosen[at]!r} is not finite or does not fit into float32; "
            "mend or drop the row"
        )


def _id_array(ids: list[Any]) -> np.ndarray:
    texts = ["" if value is None else value for value in ids]
    try:
        return np.array(texts, dtype=np.int64 if all(isinstance(value, int) for value in texts) else np.str_)
    except OverflowError:
        return np.array(texts, dtype=np.str_)


def _too_many(path: Path, settings: Settings) -> GsscError:
    return GsscError(f"{path} has more than {settings.max_rows:,} rows; send fewer at a time")


def bound_memory(extra: int) -> None:
    """Let the process take so many bytes more and no further; where the system cannot, let it be."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    most = pages * resource.getpagesize() + extra
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def answer(stdin: IO[bytes], stdout: IO[bytes], settings: Settings) -> bool:
    """Read one table and write what is in it; false when there is none left."""
    line = stdin.readline()
    if not line:
        return False
    request = json.loads(line)
    body = stdin.read(request["size"])
    try:
        rows = read_table(request["kind"], request["name"], body, settings)
        ids = None if rows.ids is None else rows.ids.tolist()
        reply = {"rows": len(rows), "columns": settings.width, "ids": ids}
        numbers = rows.features.tobytes()
    except GsscError as error:
        reply, numbers = {"error": str(error)}, b""
    except MemoryError:
        reply, numbers = {"error": f"{request['name']} takes too much memory to read; send fewer rows at a time"}, b""
    stdout.write(json.dumps(reply).encode() + b"\n")
    stdout.write(numbers)
    stdout.flush()
    return True


def main() -> None:
    """Answer until stdin ends."""
    # The server decides when this ends, also when a signal goes to the whole group of processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stdin = sys.stdin.buffer
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    settings = Settings(**json.loads(stdin.readline()))
    import pyarrow.compute  # before the bound, which is for what tables need
    import pyarrow.parquet  # noqa: F401

    if settings.max_memory:
        bound_memory(settings.max_memory)
    while answer(stdin, stdout, settings):
        pass


if __name__ == "__main__":
    main()
