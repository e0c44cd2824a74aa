"""Signals that end a process, raised as an exception, so that files in progress are removed before it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

# What `kill` and a service manager send, and a terminal that closes; SIGINT is a KeyboardInterrupt already.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(KeyboardInterrupt):
    """Raised when the process receives a signal that ends it.

    Args:
        number: the signal.
    """

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


@contextmanager
def ending_signals_raised() -> Iterator[None]:
    """Raise :class:`Stopped` on a signal that ends the process, wherever it is at that moment.

    A signal that is ignored, as under ``nohup``, or that has a handler stays as it is. Only the main thread can handle
    signals; in others nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    usual = [number for number in ENDING if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in usual:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in usual:
            signal.signal(number, signal.SIG_DFL)


def interrupted_by(number: int) -> KeyboardInterrupt:
    """Return the exception of a signal: KeyboardInterrupt for Ctrl+C, :class:`Stopped` for the others."""
    return KeyboardInterrupt() if number == signal.SIGINT else Stopped(number)


def _stop(number: int, frame: Any) -> NoReturn:
    raise Stopped(number)
