"""Claims on runs: sweeps that share a store never train the same run at the same time.

A claim is a row in the store that names the process that works on a run, and a counter that this process increases
while it runs. A claim is void once its process has ended (on the same machine) or its counter has not changed for
:data:`SILENCE_SECONDS` (anywhere). Clocks of different machines are never compared.
"""

from __future__ import annotations

import os
import platform
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gssc.errors import GsscError
from gssc.evaluate.store import Store

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 60.0


@dataclass
class Claims:
    """The claims of one sweep on a store.

    Use it inside ``with claims.alive():``, which increases the counters and releases every claim at the end.
    """

    store: Store
    owner: str = field(default_factory=lambda: secrets.token_hex(8))
    _seen: dict[str, tuple[str, int, float]] = field(default_factory=dict, repr=False)

    def take(self, key: str) -> bool:
        """Claim a run; return False if another running process holds it."""
        with self.store.writing() as connection:
            row = connection.execute("SELECT owner, process, beats FROM claims WHERE key = ?", (key,)).fetchone()
            if row is not None and row["owner"] != self.owner and not self._is_void(key, row):
                return False
            values = (key, self.owner, this_process(), 0)
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", values)
        return True

    def release(self, key: str) -> None:
        """Release a run, done or not."""
        with self.store.writing() as connection:
            connection.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self.owner))

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Increase the counters of this sweep's claims every few seconds; release all of them at the end."""
        stop = threading.Event()
        beating = threading.Thread(target=self._beat, args=(stop,), daemon=True)
        beating.start()
        try:
            yield
        finally:
            stop.set()
            beating.join()
            with self.store.writing() as connection:
                connection.execute("DELETE FROM claims WHERE owner = ?", (self.owner,))

    def _beat(self, stop: threading.Event) -> None:
        while not stop.wait(BEAT_SECONDS):
            # A store that cannot be written now may be written at the next beat; the sweep itself reports errors.
            with suppress(GsscError), self.store.writing() as connection:
                connection.execute("UPDATE claims SET beats = beats + 1 WHERE owner = ?", (self.owner,))

    def _is_void(self, key: str, row: sqlite3.Row) -> bool:
        if is_gone(row["process"]):
            return True
        now = time.monotonic()
        owner, beats, since = self._seen.get(key, ("", -1, now))
        if (owner, beats) != (row["owner"], row["beats"]):
            since = now
        self._seen[key] = (row["owner"], row["beats"], since)
        return now - since > SILENCE_SECONDS


def this_process() -> str:
    """Return a name for this process: where it runs, its id, when it began."""
    return f"{_machine()} {os.getpid()} {_began(os.getpid())}"


def is_gone(process: str) -> bool:
    """Return whether a process has ended, as far as this machine can detect; False for processes of other machines."""
    machine, number, began = process.rsplit(" ", 2)
    return machine == _machine() and began != "" and _began(int(number)) != began


def _machine() -> str:
    """Return an id of this machine since it booted; containers with their own process ids count as machines."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{platform.node()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


def _began(process: int) -> str:
    """Return when a process began, in ticks since the machine booted; empty if it has ended or this is unknown."""
    with suppress(OSError, IndexError):
        # The name of the program, in brackets, may contain blanks.
        state, *fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return "" if state in "ZX" else fields[18]
    return ""
