"""Executors that run jobs on a Ray cluster, or on a local Ray if there is no cluster (extra ``ray``)."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gssc.errors import GsscError
from gssc.evaluate.executor import Finished, attempt
from gssc.extras import require

# Times that a job is restarted after its worker or machine died; an error of the job itself is final.
RETRIES = 2
# Environment variables that workers on other machines need.
CARRIED_OVER = ("GSSC_DATA_ROOT", "GSSC_CACHE")


@dataclass
class RayTasks:
    """Runs jobs as Ray tasks of one core each. A job whose worker dies is restarted elsewhere.

    Args:
        work: a function of one job, at module level; its result must be picklable.
        jobs: maximum number of jobs at a time; the number of cores of the cluster if left out.
    """

    work: Callable[[Any], Any]
    jobs: int | None = None

    def __str__(self) -> str:
        return f"Ray, {self.jobs} at once" if self.jobs else "every core of the Ray cluster"

    def in_flight(self) -> float:
        """Return 0: tasks of Ray do not report their progress."""
        return 0.0

    def run(self, jobs: Iterable[Any], on_start: Callable[[Any], None]) -> Iterator[Finished]:
        """Run every job, at most :attr:`jobs` at once."""
        with ray_cluster(self.jobs) as ray:
            task = ray.remote(num_cpus=1, max_retries=RETRIES)(attempt)
            room = self.jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
            waiting = iter(jobs)
            running: dict[Any, Any] = {}  # the job of each task
            try:
                while True:
                    while len(running) < room and (job := next(waiting, None)) is not None:
                        on_start(job)
                        running[task.remote(self.work, job)] = job
                    if not running:
                        return
                    (done, *_), _ = ray.wait(list(running))
                    yield _finished(ray, done, running.pop(done))
            finally:
                for left in running:
                    ray.cancel(left, force=True)


@dataclass
class RayData:
    """Runs jobs as rows of a Ray Dataset, which Ray spreads over the cluster and repeats where a worker dies.

    Args:
        work: a function of one job, at module level; jobs and results must be picklable.
        jobs: maximum number of jobs at a time; the number of cores of the cluster if left out.
    """

    work: Callable[[Any], Any]
    jobs: int | None = None

    def __str__(self) -> str:
        return f"Ray Data, {self.jobs} at once" if self.jobs else "every core of the Ray cluster"

    def in_flight(self) -> float:
        """Return 0: tasks of Ray do not report their progress."""
        return 0.0

    def run(self, jobs: Iterable[Any], on_start: Callable[[Any], None]) -> Iterator[Finished]:
        """Run every job; all are submitted at once, and yielded as Ray finishes them."""
        waiting = list(jobs)
        if not waiting:
            return
        for job in waiting:
            on_start(job)
        with ray_cluster(self.jobs):
            data = require("ray.data", extra="ray")
            data.DataContext.get_current().enable_progress_bars = False
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            rows = [{"number": number, "job": pickle.dumps(job)} for number, job in enumerate(waiting)]
            # One block per job: a block is what Ray gives to a worker.
            results = data.from_items(rows, override_num_blocks=len(rows)).map(
                _attempt_row, fn_args=(self.work,), num_cpus=1, compute=data.TaskPoolStrategy(self.jobs)
            )
            for row in results.iter_rows():
                result, error = pickle.loads(row["answer"])
                yield Finished(waiting[row["number"]], result, error)


def _attempt_row(row: dict[str, Any], work: Callable[[Any], Any]) -> dict[str, Any]:
    """Run one job in a worker of Ray Data, which passes plain values only: job and answer are pickled here."""
    return {"number": row["number"], "answer": pickle.dumps(attempt(work, pickle.loads(row["job"])))}


def _finished(ray: Any, done: Any, job: Any) -> Finished:
    try:
        result, error = ray.get(done)
    except ray.exceptions.RayError as lost:
        return Finished(job, error=f"its Ray worker died {RETRIES + 1} times ({type(lost).__name__}; out of memory?)")
    return Finished(job, result, error)


@contextmanager
def ray_cluster(cores: int | None = None) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at ``RAY_ADDRESS``, or else to a local one with this number of cores.

    An existing connection is used and left open.
    """
    ray = require("ray", extra="ray")
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics, unless the user allows them
    where: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": cores, "include_dashboard": False}
    environment = {name: os.environ[name] for name in CARRIED_OVER if name in os.environ}
    try:
        ray.init(
            **where,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
            runtime_env={"env_vars": environment},
        )
    except Exception as error:  # Ray raises plain ones too, such as when a node does not start in time
        raise GsscError(f"cannot connect to Ray: {' '.join(str(error).split())}; check RAY_ADDRESS") from None
    try:
        yield ray
    finally:
        ray.shutdown()
