"""The results store: SQLite, one row a run, named by a digest of everything that determines the result."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gssc.errors import GsscError

COLUMNS = {
    "key": "TEXT PRIMARY KEY",
    "status": "TEXT NOT NULL",  # done or failed
    "model": "TEXT NOT NULL",
    "sparsifier": "TEXT NOT NULL",
    "dataset": "TEXT NOT NULL",
    "split": "TEXT NOT NULL",
    "setting": "TEXT NOT NULL",
    "label_noise": "TEXT NOT NULL",
    "structure_noise": "TEXT NOT NULL",
    "feature_noise": "TEXT NOT NULL",
    "seed": "INTEGER NOT NULL",
    "max_epochs": "INTEGER NOT NULL",
    "val_accuracy": "REAL",
    "test_accuracy": "REAL",
    "seconds": "REAL",
    "epochs": "INTEGER",
    "edges_kept": "INTEGER",
    "edges_total": "INTEGER",
    "peak_memory_mb": "REAL",
    "noise": "TEXT",  # realised rates and counts, JSON
    "config": "TEXT NOT NULL",  # JSON
    "code": "TEXT NOT NULL",
    "data": "TEXT NOT NULL",
    "versions": "TEXT NOT NULL",  # JSON
    "host_cores": "INTEGER",
    "error": "TEXT",
    "finished_at": "TEXT NOT NULL",
}
WAIT_SECONDS = 60


@dataclass
class Store:
    """Runs on disk. Any number of processes may write at once; each write is whole and durable when it returns.

    Args:
        path: of the SQLite file; made if it is not there.
    """

    path: Path
    _ready: bool = field(default=False, repr=False)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS)
        except sqlite3.OperationalError as error:
            raise GsscError(f"cannot open the results store {self.path}: {error}") from None
        connection.row_factory = sqlite3.Row
        try:
            if not self._ready:
                self._prepare(connection)
            with connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise GsscError(f"cannot use the results store {self.path}: {error}; choose another with --store") from None
        finally:
            connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # A log of changes beside the file lets readers and a writer work at once; FULL survives a power cut.
        connection.execute("PRAGMA journal_mode = WAL")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS runs ({columns})")
        present = {row["name"] for row in connection.execute("PRAGMA table_info(runs)")}
        if missing := COLUMNS.keys() - present:
            raise GsscError(
                f"{self.path} is a results store of another version (no column {min(missing)}); use a new file"
            )
        self._ready = True

    def put(self, row: dict[str, Any]) -> None:
        """Write one run; a finished one is not replaced by a failed one."""
        values = [json.dumps(value) if isinstance(value, dict) else value for value in map(row.get, COLUMNS)]
        marks = ", ".join("?" for _ in COLUMNS)
        with self._open() as connection:
            connection.execute("PRAGMA synchronous = FULL")
            if row["status"] != "done":
                connection.execute("DELETE FROM runs WHERE key = ? AND status != 'done'", (row["key"],))
                connection.execute(f"INSERT OR IGNORE INTO runs VALUES ({marks})", values)
            else:
                connection.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", values)

    def status(self, key: str) -> str | None:
        """``done``, ``failed`` or nothing."""
        with self._open() as connection:
            row = connection.execute("SELECT status FROM runs WHERE key = ?", (key,)).fetchone()
        return row["status"] if row else None

    def statuses(self) -> dict[str, str]:
        """The status of every run in the store."""
        with self._open() as connection:
            return {row["key"]: row["status"] for row in connection.execute("SELECT key, status FROM runs")}

    def rows(self, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """All runs, or those with these keys, in a fixed order."""
        with self._open() as connection:
            order = "dataset, setting, label_noise, structure_noise, feature_noise, model, sparsifier, seed, key"
            rows = [dict(row) for row in connection.execute(f"SELECT * FROM runs ORDER BY {order}")]
        if keys is None:
            return rows
        wanted = set(keys)
        return [row for row in rows if row["key"] in wanted]
