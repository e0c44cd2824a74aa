"""Training in a worker that reports its progress, so that the time left is known before the first job ends."""

from __future__ import annotations

from collections.abc import Callable

from gssc.config import RunConfig
from gssc.evaluate.executor import report
from gssc.graph import Graph
from gssc.progress import Forecast
from gssc.result import Result, finished, make_training
from gssc.train.training import Epoch


def reported_fit(
    graph: Graph,
    config: RunConfig,
    on_epoch: Callable[[Epoch], None] | None = None,
    part: int = 0,
    parts: int = 1,
) -> Result:
    """Train like :func:`gssc.fit`, and report the share of the current job that is done after every epoch.

    Args:
        graph: the problem.
        config: all settings.
        on_epoch: called with the record of every epoch.
        part: number of this training in the job, from 0 on.
        parts: number of trainings of the job.
    """
    training = make_training(graph, config)
    forecast = Forecast(training)

    def follow(record: Epoch) -> None:
        forecast.add(record)
        report((part + forecast.share()) / parts)
        if on_epoch:
            on_epoch(record)

    return finished(training, follow)
