"""Trackers by name, for the command line."""

from __future__ import annotations

from importlib import import_module

from gssc.errors import GsscError
from gssc.names import nearest
from gssc.tracking.callback import Callback

TRACKERS = {
    "tensorboard": ("gssc.tracking.tensorboard", "TensorBoard"),
    "mlflow": ("gssc.tracking.mlflow", "MLflow"),
}


def make_tracker(name: str) -> Callback:
    """Return a new tracker by its name in :data:`TRACKERS`. Raises GsscError with the closest match otherwise."""
    if name not in TRACKERS:
        raise GsscError(f"there is no tracker {name!r}: {nearest(name, TRACKERS)}")
    module, kind = TRACKERS[name]
    tracker: Callback = getattr(import_module(module), kind)()
    return tracker
