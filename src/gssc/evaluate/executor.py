"""Executors, which run jobs: the interface, and processes of this machine. For Ray see :mod:`ray_executor`."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from gssc.errors import GsscError
from gssc.signals import ending_signals_raised


@dataclass
class Finished:
    """A job that ended, with its result or its error."""

    job: Any
    result: Any = None
    error: str | None = None


class Executor(Protocol):
    """Runs jobs and yields them as they end, in any order."""

    def run(self, jobs: Iterable[Any], on_start: Callable[[Any], None]) -> Iterator[Finished]:
        """Run every job; ``on_start`` is called with each as it begins. Jobs are taken as workers become free."""
        ...

    def in_flight(self) -> float:
        """Return the sum of the shares that running jobs have reported as done; 0 if they cannot report."""
        ...


@dataclass
class LocalProcesses:
    """Runs jobs on processes of this machine, one thread each; a process that dies fails its job and no other.

    Args:
        work: a function of one job, at module level; its result must be picklable.
        jobs: number of processes.
    """

    work: Callable[[Any], Any]
    jobs: int = 1
    _workers: list[_Worker] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        return f"{self.jobs} {'process' if self.jobs == 1 else 'processes'}"

    def run(self, jobs: Iterable[Any], on_start: Callable[[Any], None]) -> Iterator[Finished]:
        """Run every job, at most :attr:`jobs` at once."""
        waiting = iter(jobs)
        try:
            self._fill(waiting, on_start)
            while busy := [worker for worker in self._workers if worker.job is not None]:
                wait([handle for worker in busy for handle in (worker.connection, worker.process.sentinel)])
                for worker in busy:
                    finished = worker.collect()
                    if finished is not None:
                        self._fill(waiting, on_start)
                        yield finished
        finally:
            for worker in self._workers:
                worker.stop()
            self._workers.clear()

    def in_flight(self) -> float:
        """Return the sum of the shares that running jobs have reported as done."""
        return sum(worker.share for worker in self._workers)

    def _fill(self, waiting: Iterator[Any], on_start: Callable[[Any], None]) -> None:
        while sum(worker.job is not None for worker in self._workers) < self.jobs:
            job = next(waiting, None)
            if job is None:
                return
            self._workers = [worker for worker in self._workers if worker.usable]
            idle = [worker for worker in self._workers if worker.job is None]
            if not idle:
                idle.append(_Worker(self.work))
                self._workers.append(idle[-1])
            on_start(job)
            idle.pop().give(job)


class _Worker:
    def __init__(self, work: Callable[[Any], Any]):
        # A fresh interpreter: nothing of the parent's threads and locks is inherited.
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, other), daemon=True)
        before = {name: os.environ.get(name) for name in _ONE_THREAD}
        os.environ.update(_ONE_THREAD)
        try:
            self.process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        other.close()
        self.job: Any = None
        self.share = 0.0  # share of the job that is done, as reported
        self.alive = True

    @property
    def usable(self) -> bool:
        """Whether it can take a job or is doing one."""
        return self.alive and (self.job is not None or self.process.is_alive())

    def give(self, job: Any) -> None:
        self.job = job
        with suppress(OSError):  # the worker has just died; collect() reports it
            self.connection.send(job)

    def collect(self) -> Finished | None:
        """Return the finished job, or None if it is still running."""
        job = self.job
        try:
            if not self.connection.poll():
                if self.process.is_alive():
                    return None
                raise EOFError
            message = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            self.alive, self.job, self.share = False, None, 0.0
            code = self.process.exitcode
            how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            return Finished(job, error=f"the process that ran it ended by {how} (out of memory?)")
        if isinstance(message, float):
            self.share = message
            return None
        self.job, self.share = None, 0.0
        return Finished(job, *message)

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


SECONDS_BETWEEN_REPORTS = 0.5
_send_share: Callable[[float], None] = lambda share: None  # noqa: E731 - replaced in a worker of LocalProcesses


def report(share: float) -> None:
    """Report the share of the current job that is done, from 0 to 1. Jobs call this; elsewhere it does nothing."""
    _send_share(share)


_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def attempt(work: Callable[[Any], Any], job: Any) -> tuple[Any, str | None]:
    """Do a job; return its result and None, or None and the error with its place in the code."""
    try:
        return work(job), None
    except GsscError as error:
        return None, str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"


def _serve(work: Callable[[Any], Any], connection: Connection) -> None:
    """Run a worker: take a job, do it, send its result or its error, until the other end closes."""
    global _send_share
    sent = -math.inf

    def send_share(share: float) -> None:
        nonlocal sent
        if time.monotonic() - sent >= SECONDS_BETWEEN_REPORTS:
            sent = time.monotonic()
            connection.send(float(share))

    _send_share = send_share
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        with ending_signals_raised():  # stop() sends SIGTERM: unfinished files are then removed
            while True:
                job = connection.recv()
                connection.send(attempt(work, job))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


def _die_with_parent() -> None:
    """End this process when the sweep that started it is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
