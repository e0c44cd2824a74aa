"""A sweep: many cells, a store of their results, and an executor that runs the missing ones."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from gssc.evaluate.cell import Cell, key_of
from gssc.evaluate.claims import Claims
from gssc.evaluate.executor import Executor, LocalProcesses
from gssc.evaluate.store import Store
from gssc.settings import Settings

KILO = 1024  # bytes per kilobyte, kilobytes per megabyte
SECONDS_BETWEEN_LOOKS = 1.0  # between checks of runs that another sweep has claimed


@dataclass(frozen=True)
class Job:
    """A cell with everything needed to run it and to store its result.

    Args:
        cell: the cell.
        typed: settings that were typed for its sparsifier.
        key: key of its row in the store.
        training: key of the cell whose training it shares, its own in most cases.
        identity: what the key is a digest of.
    """

    cell: Cell
    typed: Settings = field(default_factory=dict, hash=False)
    key: str = ""
    training: str = ""
    identity: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass
class Sweep:
    """Runs the cells that the store does not have yet.

    Any number of sweeps may share a store: each claims a run before it begins, so that none is trained twice.

    Args:
        cells: the runs of the comparison.
        store: where results are kept.
        executor: where runs are computed; processes of this machine if left out.
        typed: settings of the sparsifiers that replace the models' own.
        again: run finished cells again.
        retry: run cells again that failed.
    """

    cells: Sequence[Cell]
    store: Store
    executor: Executor = field(default_factory=lambda: LocalProcesses(run_job))
    typed: Settings = field(default_factory=dict)
    again: bool = False
    retry: bool = False

    def __post_init__(self) -> None:
        self.jobs = [self._job(cell) for cell in self.cells]
        self._known = self.store.statuses()
        self.missing = [job for job in self.jobs if self._wanted(self._known.get(job.key, (None,))[0])]

    def _job(self, cell: Cell) -> Job:
        identity = cell.identity(self.typed)
        key = training = key_of(identity)
        if cell.trained_as != cell:
            training = key_of(cell.trained_as.identity(self.typed))
        return Job(cell, self.typed, key, training, identity)

    def _wanted(self, status: str | None) -> bool:
        return self.again or status is None or (status == "failed" and self.retry)

    @property
    def keys(self) -> list[str]:
        """The keys of this sweep's runs in the store."""
        return [job.key for job in self.jobs]

    def run(self, listener: Listener | None = None) -> None:
        """Run the missing cells. Each result is on disk before the sweep waits for the next one.

        Runs that another sweep has claimed come last: this one waits for them, and runs them if their sweep dies.
        """
        listener = listener or Silence()
        claims, left = Claims(self.store), {job.key: job for job in self.missing}
        with claims.alive():
            while left:
                for finished in self.executor.run(self._claimed(left, claims, listener), listener.started):
                    for job in [job for job in left.values() if job.training == finished.job.training]:
                        row = row_of(job, finished.result, finished.error)
                        self.store.put(row)
                        del left[job.key]
                        listener.ended(job, row)
                    claims.release(finished.job.training)
                if left:
                    time.sleep(SECONDS_BETWEEN_LOOKS)

    def _claimed(self, left: dict[str, Job], claims: Claims, listener: Listener) -> Iterator[Job]:
        """Yield the jobs that no other process works on, one per training; finished ones are left out."""
        begun: set[str] = set()
        for job in list(left.values()):
            if job.key not in left or job.training in begun or not claims.take(job.training):
                continue
            # Checked under the claim: no other process can finish it from here on.
            found = self.store.status(job.key)
            if found is not None and found != self._known.get(job.key):
                claims.release(job.training)
                del left[job.key]
                listener.found(job)
            else:
                begun.add(job.training)
                yield job


class Listener(Protocol):
    """Follows a sweep; a progress bar is one."""

    def started(self, job: Job) -> None:
        """Called when a run begins."""

    def ended(self, job: Job, row: dict[str, Any]) -> None:
        """Called when a run is in the store, done or failed."""

    def found(self, job: Job) -> None:
        """Called when another process has finished a run."""


class Silence:
    """A listener that does nothing."""

    def started(self, job: Job) -> None: ...

    def ended(self, job: Job, row: dict[str, Any]) -> None: ...

    def found(self, job: Job) -> None: ...


def run_job(job: Job) -> dict[str, Any]:
    """Run one job in a worker and return the measured columns of its row."""
    import torch

    torch.set_num_threads(1)
    _forget_peak_memory()
    result, noise = job.cell.run(job.typed)
    return {
        "metric": result.graph.task.metric,
        **result.outcome.measured(),
        "peak_memory_mb": _peak_memory(),
        "noise": noise,
    }


def row_of(job: Job, result: dict[str, Any] | None, error: str | None) -> dict[str, Any]:
    """Return the row of the store for a job that ended."""
    from gssc.versions import versions

    return {
        **vars(job.cell),
        **{name: job.identity[name] for name in ("split", "data", "code")},
        "key": job.key,
        "config": job.identity["settings"],
        "status": "failed" if error else "done",
        "error": error,
        "versions": versions(),
        "host_cores": os.cpu_count(),
        "finished_at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        **(result or {}),
    }


def _forget_peak_memory() -> None:
    """Reset the peak memory of the process, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_memory() -> float:
    """Return the peak memory in megabytes since :func:`_forget_peak_memory`, or of the whole process."""
    with suppress(OSError, IndexError, ValueError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return round(int(status.split("VmHWM:")[1].split()[0]) / KILO, 1)
    import resource

    unit = KILO * KILO if platform.system() == "Darwin" else KILO  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
