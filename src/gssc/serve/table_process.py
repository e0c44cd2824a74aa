"""Reads tables into float32 rows in a separate process, so that a malicious file cannot crash the server.

Run as ``python -m gssc.serve.table_process``. The first line of stdin is :class:`TableShape` as JSON. After it, each
table is a line of JSON (``kind``, ``name``, ``decimal``, ``size``) and ``size`` bytes; each answer on stdout is a line
of JSON (``error``, or ``rows``, ``columns``, ``ids``) and rows x columns float32 numbers. It ends when stdin does.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gssc.deploy.table_rows import TableLimits, TableRows, parquet_blocks, text_blocks
from gssc.errors import GsscError
from gssc.text_tables import Lines, records

KINDS = ("csv", "tsv", "parquet")
# Columns a table may have in addition to the features: ids, labels, remarks.
SPARE_COLUMNS = 1000


@dataclass
class TableShape:
    """The features and the limits of a table.

    Args:
        width: number of features.
        feature_names: names of the columns, if the model has them.
        max_rows: rows of a table.
        max_values: numbers of a table, and characters of its ids.
        max_memory: bytes the process may take in addition to what it has at the start; 0 for no limit.
    """

    width: int
    feature_names: list[str] | None
    max_rows: int
    max_values: int
    max_memory: int = 0


def read_table(kind: str, name: str, body: bytes, shape: TableShape, decimal: str = ".") -> TableRows:
    """Return the rows of a table. Raises GsscError that names the row and column of an invalid value."""
    path, wanted, width = Path(name), shape.feature_names, shape.width
    limits = TableLimits(shape.max_rows, width + SPARE_COLUMNS, shape.max_values)
    if kind == "parquet":
        import pyarrow as pa

        bounds: dict[str, Any] = {"thrift_string_size_limit": len(body), "thrift_container_size_limit": len(body)}
        blocks = parquet_blocks(path, pa.BufferReader(body), wanted, width, limits, **bounds)
    else:
        lines = records(Lines(io.BytesIO(body), path), f".{kind}", path, decimal, most_blank=limits.max_blank)
        blocks = text_blocks(path, lines, wanted, width, limits=limits)
    try:
        rows = TableRows.joined(list(blocks))
    except ValueError as error:
        raise GsscError(f"{path}: {error}") from None
    if len(rows) == 0:
        raise GsscError(f"{path} has no rows: there is nothing to predict")
    if rows.ids is not None and rows.ids.dtype == object and sum(map(len, rows.ids.tolist())) > shape.max_values:
        raise GsscError(f"{path}: the ids are too long")
    return rows


def bound_memory(extra: int) -> None:
    """Limit the memory of the process to what it has now plus ``extra`` bytes, if the system supports it."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    most = pages * resource.getpagesize() + extra
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def answer(stdin: IO[bytes], stdout: IO[bytes], shape: TableShape) -> bool:
    """Read one table and write its rows; return False when there is none left."""
    line = stdin.readline()
    if not line:
        return False
    request = json.loads(line)
    body = stdin.read(request["size"])
    try:
        rows = read_table(request["kind"], request["name"], body, shape, request["decimal"])
        ids = None if rows.ids is None else rows.ids.tolist()
        reply = {"rows": len(rows), "columns": shape.width, "ids": ids}
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
    # The server ends this process; a signal to the whole process group must not.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stdin = sys.stdin.buffer
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints must not be read as an answer
    shape = TableShape(**json.loads(stdin.readline()))
    import pyarrow.compute  # before the limit, which is for the memory of tables only
    import pyarrow.parquet  # noqa: F401

    if shape.max_memory:
        bound_memory(shape.max_memory)
    while answer(stdin, stdout, shape):
        pass


if __name__ == "__main__":
    main()
