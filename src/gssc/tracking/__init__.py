"""Callbacks that follow a run: TensorBoard and MLflow, or your own.

A callback is any object with the three methods of :class:`Callback`; pass it to :meth:`gssc.run.Run.train`.
"""

from gssc.tracking.callback import TRACKERS, Callback, Callbacks, make_tracker

__all__ = ["TRACKERS", "Callback", "Callbacks", "make_tracker"]
