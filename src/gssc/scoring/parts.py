"""Score one input file into part files: streamed in bounded memory, each part complete or absent, resumable.

A part records in its own footer which rows of which file it holds, so that the parts alone show what is done:
after a crash, a file is continued after its last whole part.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gssc.deploy import DeployedModel
from gssc.deploy.columns import feature_columns, find_id_column
from gssc.deploy.store import DESCRIPTION
from gssc.deploy.table_rows import TableRows, parquet_blocks, text_blocks
from gssc.deploy.tables import column_names, predicted_names
from gssc.errors import GsscError
from gssc.extras import require
from gssc.files import atomic_write, sha256
from gssc.text_tables import PARQUET_ENDINGS, ending, is_header, records_of

ROWS_PER_PART = 1 << 20
BUFFERED_VALUES = 1 << 18  # probabilities in memory before they are written
NOTE = b"gssc.score"
ROWS_PREFIX = ".rows-"
SECONDS_BETWEEN_COUNTS = 1.0


@dataclass(frozen=True)
class FileJob:
    """One input file to score.

    Args:
        run: folder of the model.
        path: the file.
        name: name of the file in the output.
        number: its place among the input files.
        out: folder of the parts.
        many: whether it is one of several; rows without ids then have the name of their file next to the row number.
        rows_per_part: rows of every part but the last.
        decimal: decimal mark in text tables, a point or a comma.
        key: type of the ids in its parts, see :func:`head_of`; None for the type in the file itself.
        digest: digest of the model, see :func:`digest_of_model`; a model that was replaced since then is refused.
    """

    run: str
    path: str
    name: str
    number: int
    out: str
    many: bool = False
    rows_per_part: int = ROWS_PER_PART
    decimal: str = "."
    key: str | None = None
    digest: str | None = None

    def part(self, number: int) -> Path:
        """Return the path of a part; in the order of their names, parts have the order of the rows."""
        return Path(self.out) / f"part-{self.number:06d}-{number:06d}.parquet"

    @property
    def rows_file(self) -> Path:
        """Path of a text file that exists while the file is scored: the number of rows predicted so far."""
        return Path(self.out) / f"{ROWS_PREFIX}{self.number:06d}"

    @property
    def state(self) -> list[int]:
        """Size and modification time of the file; if either changes, the file is scored again."""
        try:
            status = Path(self.path).stat()
        except OSError:
            raise self.changed() from None
        return [status.st_size, status.st_mtime_ns]

    def changed(self) -> GsscError:
        """Return the error for a file that was written to, moved or deleted before all files were scored."""
        return GsscError(f"{self.path} changed while it was scored; give the same command again")


def score_file(job: FileJob) -> dict[str, Any]:
    """Score the rows of a file that no part has yet and return the number of rows and parts of the whole file."""
    state = job.state
    done = parts_of(job, read=True)
    if not (done and done[-1]["last"]):
        skip, number = sum(part["rows"] for part in done), len(done)
        for stale in sorted(Path(job.out).glob(f"part-{job.number:06d}-*.parquet"))[number:]:
            stale.unlink()  # damaged, or of another state of the file
        try:
            _score(job, state, _after(_blocks(job), skip), number, skip)
        finally:
            job.rows_file.unlink(missing_ok=True)
        done = all_parts_of(job)
    return {"name": job.name, "rows": sum(part["rows"] for part in done), "parts": len(done)}


def all_parts_of(job: FileJob) -> list[dict[str, Any]]:
    """Return the notes of all parts of a scored file. Raises GsscError if they are not those of its present state."""
    notes = parts_of(job)
    if not (notes and notes[-1]["last"]):
        raise job.changed()
    return notes


def parts_of(job: FileJob, read: bool = False) -> list[dict[str, Any]]:
    """Return the notes of the parts that are whole, without a gap from the first row on.

    Args:
        job: the file.
        read: also read every part and compare the checksums of its pages, as for parts of an earlier call.
    """
    notes: list[dict[str, Any]] = []
    state = job.state
    while (note := _note(job.part(len(notes)), read)) is not None:
        begins = sum(part["rows"] for part in notes)
        if note["state"] != state or note["name"] != job.name or note["start"] != begins or note["key"] != job.key:
            break
        notes.append(note)
        if note["last"]:
            break
    return notes


def _note(path: Path, read: bool) -> dict[str, Any] | None:
    """Return the note in the footer of a part; None if the part is missing, incomplete or, when read, damaged."""
    pa, pq = require("pyarrow", extra="tables"), require("pyarrow.parquet", extra="tables")
    if not path.is_file():
        return None
    try:
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            note = json.loads((file.metadata.metadata or {})[NOTE])
            whole = note["rows"] == file.metadata.num_rows
            if read:
                whole = whole and note["rows"] == sum(batch.num_rows for batch in file.iter_batches())
            return note if whole and note.keys() >= {"name", "state", "start", "last", "key"} else None
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        return None


def _score(job: FileJob, state: list[int], blocks: Iterator[TableRows], number: int, start: int) -> None:
    model = _model(job.run, job.digest)
    block = next(blocks, None)
    while block is not None or start == 0:
        with _Part(job, state, model, number, start) as part:
            while block is not None and part.rows < job.rows_per_part:
                room = job.rows_per_part - part.rows
                part.write(_rows(block, 0, room))
                block = _rows(block, room, len(block)) if len(block) > room else next(blocks, None)
            part.last = block is None
        if part.last:
            return
        start, number = start + part.rows, number + 1


class _Part:
    """A part being written: rows go to disk as they come, the file appears when it is closed."""

    def __init__(self, job: FileJob, state: list[int], model: DeployedModel, number: int, start: int):
        self.job, self.state, self.model, self.number, self.start = job, state, model, number, start
        self.rows, self.last = 0, False
        self._stack = ExitStack()
        self._waiting: list[Any] = []
        self._counted = time.monotonic()
        self._buffered = max(1, BUFFERED_VALUES // model.widths[-1])

    def __enter__(self) -> _Part:
        pa, pq = require("pyarrow", extra="tables"), require("pyarrow.parquet", extra="tables")
        self._pa, self._key_types = pa, _key_types(self.job)
        numbers = [(name, pa.float32()) for name in column_names(self.model, "")[2:]]
        self._schema = pa.schema([*self._key_types.items(), ("prediction", pa.string()), *numbers])
        temporary = self._stack.enter_context(atomic_write(self.job.part(self.number)))
        self._writer = self._stack.enter_context(
            pq.ParquetWriter(temporary, self._schema, write_page_checksum=True, compression="zstd")
        )
        self._stack.push(self._complete)  # on the stack, so that a full disk is handled like any other error
        return self

    def write(self, block: TableRows) -> None:
        """Predict and keep a block; write what is kept when it is enough for a row group."""
        pa = self._pa
        probabilities = self.model.predict_proba(block.features).astype(np.float32, copy=False)
        first = self.start + self.rows
        keys = {
            "id": lambda: _key_array(pa, block.ids, self._key_types["id"]),
            "file": lambda: pa.array([self.job.name] * len(block), pa.string()),
            "row": lambda: pa.array(np.arange(first, first + len(block)), pa.int64()),
        }
        arrays = [keys[name]() for name in self._key_types]
        arrays.append(pa.array(predicted_names(self.model, probabilities).tolist(), pa.string()))
        arrays += [pa.array(np.ascontiguousarray(column)) for column in probabilities.T]
        self._waiting.append(pa.record_batch(arrays, schema=self._schema))
        self.rows += len(block)
        self._count()
        if sum(batch.num_rows for batch in self._waiting) >= self._buffered:
            self._flush()

    def _count(self) -> None:
        """Write the number of rows so far, for progress bars, at most once per second."""
        if time.monotonic() - self._counted >= SECONDS_BETWEEN_COUNTS:
            self._counted = time.monotonic()
            with suppress(OSError):
                self.job.rows_file.write_text(str(self.start + self.rows), encoding="ascii")

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(self._pa.Table.from_batches(self._waiting, self._schema))
            self._waiting = []

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def _complete(self, *error: Any) -> None:
        """Write the remaining rows and the note about the part, unless an error ended it."""
        if error[0] is None:
            self._flush()
            note = {"name": self.job.name, "state": self.state, "start": self.start, "rows": self.rows}
            text = json.dumps({**note, "last": self.last, "key": self.job.key})
            self._writer.add_key_value_metadata({NOTE.decode(): text})


def _blocks(job: FileJob) -> Iterator[TableRows]:
    model, path = _model(job.run, job.digest), Path(job.path)
    wanted, width = model.feature_names, model.widths[0]
    if ending(path) in PARQUET_ENDINGS:
        return parquet_blocks(path, path, wanted, width)
    return text_blocks(path, records_of(path, job.decimal), wanted, width)


def _after(blocks: Iterator[TableRows], skip: int) -> Iterator[TableRows]:
    """Yield blocks without the first ``skip`` rows of the table."""
    for block in blocks:
        if skip < len(block):
            yield _rows(block, skip, len(block))
        skip = max(0, skip - len(block))


def _rows(block: TableRows, first: int, end: int) -> TableRows:
    """Return the rows of a block from ``first`` up to ``end``."""
    ids = None if block.ids is None else block.ids[first:end]
    return TableRows(block.features[first:end], ids, block.feature_names)


@dataclass(frozen=True)
class Head:
    """What a table is read by.

    Attributes:
        features: names of its feature columns; None if it has no names.
        key: type of its ids in the words of pyarrow, ``string`` unless they are whole numbers; empty without ids.
    """

    features: list[str] | None
    key: str


def head_of(path: Path, wanted: Sequence[str] | None, decimal: str = ".") -> Head:
    """Return the head of a table for a model with these feature names, if it has names."""
    pa, pq = require("pyarrow", extra="tables"), require("pyarrow.parquet", extra="tables")
    if ending(path) in PARQUET_ENDINGS:
        schema = pq.read_schema(path)
        names, named = list(schema.names), True
    else:
        names = [cell.strip() for cell in next(iter(records_of(path, decimal)), (1, []))[1]]
        named = is_header(names)
    if not named:  # its columns are taken by position, all of them
        return Head(None, "")
    at = find_id_column(names, wanted)
    features = [names[index] for index in feature_columns(names, None)]
    if at is None:
        return Head(features, "")
    kind = schema.field(at).type if ending(path) in PARQUET_ENDINGS else pa.string()
    return Head(features, str(kind) if pa.types.is_integer(kind) else "string")


def _key_types(job: FileJob) -> dict[str, Any]:
    """Return the types of the columns that identify rows: ids (whole numbers keep their type) or row numbers."""
    pa = require("pyarrow", extra="tables")
    key = job.key
    if key is None:
        key = head_of(Path(job.path), _model(job.run, job.digest).feature_names, job.decimal).key
    if key:
        return {"id": pa.type_for_alias(key)}
    return {**({"file": pa.string()} if job.many else {}), "row": pa.int64()}


def _key_array(pa: Any, ids: np.ndarray | None, kind: Any) -> Any:
    assert ids is not None
    values = ids.tolist()
    if pa.types.is_integer(kind):  # ids of a block with a missing one are text
        return pa.array([None if value == "" else int(value) for value in values], kind)
    return pa.array([str(value) for value in values], kind)


def digest_of_model(run: str | Path) -> str:
    """Return a digest of the model in a folder: of its description, which has the digest of its weights."""
    return sha256(Path(run) / DESCRIPTION)


@lru_cache(maxsize=1)
def _model(run: str, digest: str | None) -> DeployedModel:
    """Return the model in a folder, loaded once per process. Raises GsscError if it is not the one with this digest."""
    model = DeployedModel.load(run)
    if digest is not None and digest_of_model(run) != digest:
        raise GsscError(f"the model in {run} was replaced while it was in use; score everything with --overwrite")
    return model
