"""The progress of a training: a bar with the time left on a terminal, a line every ten seconds in a log."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from gssc.config import ContrastConfig
from gssc.learner.learner import LearnerTraining
from gssc.learner.progress import kind_of, records_ahead
from gssc.names import counted
from gssc.progress_bar import clock
from gssc.train.distill import DistillTraining
from gssc.train.stream import StreamedTraining

if TYPE_CHECKING:
    from gssc.train.training import Epoch, Training

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BEFORE_STAGE = 2.0  # before a log gets a line about the work that precedes the first epoch
USUAL_COST = {"students": 0.25, "rows": 0.5}  # relative time of an epoch of this kind, until one was measured
WIDE = 110  # width of a terminal, in characters, from which the best score and the edges are shown too


class Pace:
    """Estimates the time left from the mean time per epoch of each kind of work.

    >>> pace = Pace()
    >>> pace.add("pairs", 2.0); pace.add("pairs", 4.0)
    >>> pace.left({"pairs": 10, "students": 4})  # students usually take a quarter of the time
    33.0
    >>> pace.add("students", 1.0)
    >>> pace.left({"students": 4})
    4.0
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.epochs: dict[str, int] = {}

    def add(self, kind: str, seconds: float) -> None:
        """Count one epoch."""
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds
        self.epochs[kind] = self.epochs.get(kind, 0) + 1

    def left(self, ahead: dict[str, int]) -> float | None:
        """Return the seconds left for the epochs ahead, or None before the first epoch."""
        if not self.epochs:
            return None
        usual = sum(self.seconds.values()) / sum(
            count * USUAL_COST.get(kind, 1.0) for kind, count in self.epochs.items()
        )
        return sum(count * self._mean_of(kind, usual) for kind, count in ahead.items())

    def _mean_of(self, kind: str, usual: float) -> float:
        return self.seconds[kind] / self.epochs[kind] if kind in self.epochs else usual * USUAL_COST.get(kind, 1.0)


def epochs_ahead(training: Training) -> dict[str, int]:
    """Return the number of epochs still to come if none ends early, by kind of work."""
    config = training.config
    if isinstance(training, LearnerTraining):
        return records_ahead(training)
    if isinstance(training, StreamedTraining | DistillTraining):
        return training.epochs_ahead()
    if isinstance(config, ContrastConfig):
        phase, done = getattr(training, "phase", ""), training.epoch
        warm_up, alternate = config.train.warmup_epochs, config.train.epochs
        ahead = {"consolidate": config.consolidate.epochs - getattr(training, "consolidated", 0)}
        if phase != "consolidate":
            ahead["alternate"] = min(alternate, warm_up + alternate - done)
        if phase in ("pretrain", "warm-up"):
            ahead["warm-up"] = warm_up - done
        return {kind: max(0, count) for kind, count in ahead.items()}
    return {"": max(0, config.total_epochs - training.epoch)}


class Forecast:
    """Estimates how much of a training is done and how long the rest takes.

    Args:
        training: the training, before its first epoch or resumed.
    """

    def __init__(self, training: Training):
        self.training, self.pace = training, Pace()
        self.done, self.ahead, self.seen = training.epoch, epochs_ahead(training), time.monotonic()
        self.before = 0.0  # seconds of the work before the first epoch

    def add(self, epoch: Epoch) -> None:
        """Count an epoch that has just ended."""
        now = time.monotonic()
        if not self.pace.epochs and (prepared := getattr(self.training, "prepared", 0.0)) > self.seen:
            self.before, self.seen = prepared - self.seen, prepared
        self.pace.add(self._kind(epoch), now - self.seen)
        self.seen, self.done, self.ahead = now, self.done + 1, epochs_ahead(self.training)

    def _kind(self, epoch: Epoch) -> str:
        """Return the kind of work of an epoch, by the names of :func:`epochs_ahead`."""
        if isinstance(self.training, LearnerTraining):
            return kind_of(epoch.phase)
        return "" if "" in self.ahead else epoch.phase

    @property
    def total(self) -> int:
        """The expected number of epochs."""
        return self.done + sum(self.ahead.values())

    @property
    def spent(self) -> float:
        """The seconds of all epochs so far, and of the work before the first."""
        return self.before + sum(self.pace.seconds.values())

    def left(self) -> float | None:
        """Return the seconds left, or None before the first epoch; they count down during an epoch."""
        left = self.pace.left(self.ahead)
        return None if left is None else max(0.0, left - (time.monotonic() - self.seen))

    def share(self) -> float:
        """Return the share of the expected time that has passed, as of the last epoch."""
        left = self.pace.left(self.ahead)
        return 0.0 if left is None else self.spent / max(self.spent + left, 1e-9)


class EpochProgress:
    """Shows the progress of a training on standard error.

    On a terminal it is one bar that is redrawn, elsewhere one line every ten seconds, however long an epoch takes.

    Args:
        training: the training to show.
        console: where to show it; standard error if left out.
    """

    def __init__(self, training: Training, console: Any = None):
        from rich.console import Console

        self.console = console or Console(stderr=True, markup=False, highlight=False)
        self.training, self.forecast, self.best = training, Forecast(training), math.nan
        self.phase, self.numbers = "starting", ""
        self.bar = self._bar() if self.console.is_terminal else None
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def _bar(self) -> Any:
        from rich.progress import BarColumn, Progress, TextColumn

        narrow = self.console.width < WIDE
        columns = [
            TextColumn("{task.description}"),
            BarColumn(bar_width=12 if narrow else 24),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[numbers]}"),
        ]
        bar = Progress(*columns, console=self.console, transient=True)
        self.task = bar.add_task(self.phase, total=1.0, left="", numbers="")
        return bar

    def __enter__(self) -> EpochProgress:
        if self.bar:
            self.bar.start()
        self._ticker.start()
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        self._ended.set()
        self._ticker.join()
        if self.bar:
            self.bar.stop()
        elif self.forecast.spent and not failed:
            epochs = counted(sum(self.forecast.pace.epochs.values()), "epoch")
            self.console.print(f"trained {epochs} in {clock(self.forecast.spent)}", soft_wrap=True)

    def show(self, epoch: Epoch) -> None:
        """Update with the record of an epoch."""
        self.forecast.add(epoch)
        self.best = epoch.val_score if epoch.best else self.best
        self.phase, self.numbers = epoch.phase, self._numbers(epoch)
        self._draw()

    def _numbers(self, epoch: Epoch) -> str:
        losses = (epoch.smoothness_loss, epoch.classification_loss)
        parts = [f"loss {sum(losses):.3f}"] if any(losses) else []
        parts += [] if math.isnan(epoch.val_score) else [f"val {epoch.val_score:.1%}"]
        if self.console.width >= WIDE or not self.bar:
            parts += [] if math.isnan(self.best) else [f"kept so far {self.best:.1%}"]
            parts += [f"edges {epoch.edges_kept:,}"] if epoch.edges_kept else []
        return ", ".join(parts)

    def time_left(self) -> str:
        """Return the time left, such as ``1:05 left``; before the first epoch the time of its preparation so far."""
        left = self.forecast.left()
        if left is not None:
            return f"{clock(left)} left"
        return f"{clock(time.monotonic() - self.forecast.seen)} so far" if self.preparing() else ""

    def preparing(self) -> str:
        """Return the stage of the work before the first epoch, such as ``teacher``; empty if there is none."""
        return "" if self.forecast.pace.epochs else getattr(self.training, "preparing", "")

    def line(self) -> str:
        """Return the state as one line of a log."""
        if stage := self.preparing():
            return f"preparing: {stage}, {self.time_left()}"
        parts = [f"{self.phase}: epoch {self.forecast.done} of about {self.forecast.total}", self.time_left()]
        return ", ".join(filter(None, [*parts, self.numbers]))

    def _draw(self) -> None:
        if self.bar:
            fields = {"left": self.time_left(), "numbers": self.numbers}
            phase = self.preparing() or self.phase
            self.bar.update(self.task, description=phase, completed=self.forecast.share(), **fields)

    def _tick(self) -> None:
        if not self.bar and not self._ended.wait(SECONDS_BEFORE_STAGE) and self.preparing():
            self.console.print(self.line(), soft_wrap=True)
        pause = 0.5 if self.bar else SECONDS_BETWEEN_LINES
        while not self._ended.wait(pause):
            if self.bar:
                self._draw()
            else:
                self.console.print(self.line(), soft_wrap=True)
