"""The results store: SQLite, one row per run, named by a digest of everything that determines the result."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
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
    "metric": "TEXT",  # metric of the two scores: accuracy, roc_auc
    "val_score": "REAL",
    "test_score": "REAL",
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
DIGEST = "digest"  # column with the digest of the row; null in rows of earlier versions
JSON_COLUMNS = ("noise", "config", "versions")
# Columns of earlier versions by their names today.
RENAMED = {"val_accuracy": "val_score", "test_accuracy": "test_score"}
# Columns of the table of claims: which process works on which run, see gssc.evaluate.claims.
CLAIMS = "key TEXT PRIMARY KEY, owner TEXT NOT NULL, process TEXT NOT NULL, beats INTEGER NOT NULL"
WAIT_SECONDS = 60


@dataclass
class Store:
    """Runs on disk. Any number of processes may write at the same time; each write is atomic and durable.

    Args:
        path: path of the SQLite file; created if it does not exist.
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
        self._use_write_ahead_log(connection)
        columns = ", ".join(f"{name} {kind}" for name, kind in {**COLUMNS, DIGEST: "TEXT"}.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS runs ({columns})")
        connection.execute(f"CREATE TABLE IF NOT EXISTS claims ({CLAIMS})")
        self._upgrade(connection)
        present = _columns(connection)
        if missing := COLUMNS.keys() - present:
            raise GsscError(
                f"{self.path} is a results store of another version (no column {min(missing)}); use a new file"
            )
        self._ready = True

    @staticmethod
    def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
        """Turn on SQLite's write-ahead log, with which readers and a writer work at the same time.

        SQLite does not wait for another process that turns it on in a new file, so this method does.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    @staticmethod
    def _upgrade(connection: sqlite3.Connection) -> None:
        """Bring a store of an earlier version up to date: it held accuracies only, or rows without a digest."""
        if "val_accuracy" not in _columns(connection) and DIGEST in _columns(connection):
            return
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if DIGEST not in _columns(connection):
                connection.execute(f"ALTER TABLE runs ADD COLUMN {DIGEST} TEXT")
            if "val_accuracy" in _columns(connection):  # another process may have done it meanwhile
                for old, new in RENAMED.items():
                    connection.execute(f"ALTER TABLE runs RENAME COLUMN {old} TO {new}")
                connection.execute("ALTER TABLE runs ADD COLUMN metric TEXT")
                connection.execute("UPDATE runs SET metric = 'accuracy' WHERE status = 'done'")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a transaction that excludes other writers; it is on disk when it ends."""
        with self._open() as connection:
            connection.execute("PRAGMA synchronous = FULL")  # survives a power cut
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def put(self, row: dict[str, Any]) -> None:
        """Write one run; a finished one is not replaced by a failed one."""
        values = [json.dumps(value) if isinstance(value, dict) else value for value in map(row.get, COLUMNS)]
        values.append(_digest(dict(zip(COLUMNS, values, strict=True))))
        into = f"INTO runs ({', '.join(COLUMNS)}, {DIGEST}) VALUES ({', '.join('?' for _ in values)})"
        with self.writing() as connection:
            if row["status"] != "done":
                connection.execute("DELETE FROM runs WHERE key = ? AND status != 'done'", (row["key"],))
                connection.execute(f"INSERT OR IGNORE {into}", values)
            else:
                connection.execute(f"INSERT OR REPLACE {into}", values)

    def status(self, key: str) -> tuple[str, str] | None:
        """Return ``done`` or ``failed`` and the time it finished; None if the run is not in the store."""
        with self._open() as connection:
            row = connection.execute("SELECT status, finished_at FROM runs WHERE key = ?", (key,)).fetchone()
        return tuple(row) if row else None

    def statuses(self) -> dict[str, tuple[str, str]]:
        """Return the :meth:`status` of every run in the store."""
        with self._open() as connection:
            rows = connection.execute("SELECT key, status, finished_at FROM runs")
            return {key: (status, finished) for key, status, finished in rows}

    def runs(self, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return all runs, or those with these keys, in a fixed order."""
        with self._open() as connection:
            order = "dataset, setting, label_noise, structure_noise, feature_noise, model, sparsifier, seed, key"
            runs = [dict(row) for row in connection.execute(f"SELECT * FROM runs ORDER BY {order}")]
        if keys is not None:
            wanted = set(keys)
            runs = [row for row in runs if row["key"] in wanted]
        for row in runs:
            if wrong := _damage(row):
                raise GsscError(
                    f"{self.path}: run {str(row['key'])[:12]} has {wrong}: the store was edited or damaged; "
                    "run these cells again with --rerun or use a new file"
                )
            del row[DIGEST]
        return runs


def _columns(connection: sqlite3.Connection) -> set[str]:
    return {row["name"] for row in connection.execute("PRAGMA table_info(runs)")}


def _damage(row: dict[str, Any]) -> str | None:
    """Return the first thing wrong with a row, or None. SQLite itself accepts any value in any column."""
    types: dict[str, Any] = {"TEXT": str, "INTEGER": int, "REAL": (int, float)}
    for name, declared in COLUMNS.items():
        value: Any = row[name]
        kind = declared.split()[0]
        if value is None:
            if "NOT NULL" in declared or "KEY" in declared:
                return f"no {name}"
        elif not isinstance(value, types[kind]) or (kind == "REAL" and not math.isfinite(value)):
            return f"{name} {str(value)[:40]!r} where {'text' if kind == 'TEXT' else 'a number'} belongs"
        elif name in JSON_COLUMNS and not _is_mapping(value):
            return f"{name} {value[:40]!r} where JSON belongs"
    if row["status"] not in ("done", "failed"):
        return f"status {row['status'][:40]!r}"
    return "a digest that is not that of its values" if row[DIGEST] not in (None, _digest(row)) else None


def _digest(row: dict[str, Any]) -> str:
    """Return the SHA-256 of a row's values as SQLite returns them."""
    real = {name for name, declared in COLUMNS.items() if declared.startswith("REAL")}
    given = {name: float(row[name]) if name in real and row[name] is not None else row[name] for name in COLUMNS}
    values = [None if value != value else value for value in given.values()]  # SQLite has null for NaN
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()


def _is_mapping(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
