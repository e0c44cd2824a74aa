"""The interface of callbacks, a group of them, and the registry of trackers for the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gssc.errors import GsscError
from gssc.names import nearest

if TYPE_CHECKING:
    from gssc.run import Run
    from gssc.train.selection import Epoch

TRACKERS = {
    "tensorboard": ("gssc.tracking.tensorboard", "TensorBoard"),
    "mlflow": ("gssc.tracking.mlflow", "MLflow"),
}


class Callback:
    """Follows one run. Override what you need; each method does nothing by default.

    Attributes:
        look: how to view what was logged, for the last line of ``gssc train``; may be empty.

    Example:
        >>> class Best(Callback):
        ...     def epoch(self, record):
        ...         if record.best:
        ...             self.score = record.val_score
    """

    look: str = ""

    def start(self, run: Run) -> None:
        """Called before the first epoch, also when a run is resumed; ``run.resumed`` and ``run.config`` are set."""

    def epoch(self, record: Epoch) -> None:
        """Called after each epoch, once its line is in metrics.jsonl."""

    def end(self, metrics: Mapping[str, Any] | None) -> None:
        """Called once at the end with the content of metrics.json, or None if training failed or was interrupted."""


class Callbacks(Callback):
    """Several callbacks as one, called in order."""

    def __init__(self, callbacks: Iterable[Callback]):
        self.callbacks = list(callbacks)

    def start(self, run: Run) -> None:
        """Start each of them."""
        for callback in self.callbacks:
            callback.start(run)

    def epoch(self, record: Epoch) -> None:
        """Pass the epoch to each of them."""
        for callback in self.callbacks:
            callback.epoch(record)

    def end(self, metrics: Mapping[str, Any] | None) -> None:
        """End each of them."""
        for callback in self.callbacks:
            callback.end(metrics)


def epoch_numbers(record: Epoch) -> dict[str, float]:
    """Return the finite numbers of an epoch record, by name, without the number of the epoch."""
    values = asdict(record)
    values.pop("epoch")
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def result_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of metrics.json, by name, prefixed with ``result_``.

    >>> result_numbers({"val_score": 0.5, "dataset": "cora", "test_score": None})
    {'result_val_score': 0.5}
    """
    return {
        f"result_{name}": float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def flat_settings(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of all sections as one dict, by ``section.name``.

    >>> flat_settings({"train": {"lr": 0.01}, "data": {"dataset": "cora"}})
    {'train.lr': 0.01, 'data.dataset': 'cora'}
    """
    return {f"{section}.{name}": value for section, values in settings.items() for name, value in values.items()}


def make_tracker(name: str) -> Callback:
    """Return a new tracker by its name in :data:`TRACKERS`. Raises GsscError with the closest match otherwise."""
    if name not in TRACKERS:
        raise GsscError(f"there is no tracker {name!r}: {nearest(name, TRACKERS)}")
    module, kind = TRACKERS[name]
    tracker: Callback = getattr(import_module(module), kind)()
    return tracker
