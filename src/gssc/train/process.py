"""Threads, memory and signals of the process during training, restored afterwards."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gssc.errors import GsscError
from gssc.signals import ENDING, interrupted_by

# Parameter numbers of mallopt in glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_ONE_GIB = 2**30
# By default glibc raises its thresholds up to these values as large blocks are freed. The first call of mallopt ends
# that mode for good, so the thresholds are set to these values afterwards.
_USUAL_MMAP, _USUAL_TRIM = 32 * 2**20, 64 * 2**20

_depth = 0  # number of runs in progress


@contextmanager
def computing(threads: int) -> Iterator[None]:
    """Set the number of threads of matrix products and reuse freed memory, within the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _freed_memory_reused():
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _freed_memory_reused() -> Iterator[None]:
    """Let the allocator reuse large blocks within this process.

    Every batch allocates and frees the same few matrices of several megabytes. By default glibc returns such blocks to
    the system and requests them again, and the system clears every page again. Does nothing if the C library has no
    such setting.
    """
    global _depth
    library = _c_library()
    if library is None:
        yield
        return
    if _depth == 0:
        library.mallopt(_MMAP_THRESHOLD, _ONE_GIB)
        library.mallopt(_TRIM_THRESHOLD, _ONE_GIB)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            library.mallopt(_MMAP_THRESHOLD, _USUAL_MMAP)
            library.mallopt(_TRIM_THRESHOLD, _USUAL_TRIM)
            library.malloc_trim(0)


def _c_library() -> Any | None:
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


class Interruption:
    """Postpones the first Ctrl+C, SIGTERM or SIGHUP, so that the current epoch can be finished and saved.

    A second signal takes effect immediately. SIGHUP stays ignored if it was, as under ``nohup``. Only the main thread
    can handle signals; in other threads nothing is postponed.

    Args:
        on_request: called when the first signal arrives.

    Attributes:
        requested: the first signal, or None. :func:`gssc.signals.interrupted_by` has its exception.
    """

    def __init__(self, on_request: Callable[[], None] | None = None):
        self.on_request = on_request
        self.requested: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, *(each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN)]
            self._before = {number: signal.signal(number, self._request) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: Any) -> None:
        if self.requested is not None:
            raise interrupted_by(number)
        self.requested = number
        if self.on_request:
            self.on_request()


def is_mixed(setting: str, device: torch.device) -> bool:
    """Return whether ``train.mixed_precision`` selects bfloat16 on this device."""
    return setting == "on" or (setting == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported())


def usable_device(name: str) -> torch.device:
    """Return the torch device with this name. Raises GsscError if it cannot be used on this machine."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # there and back: a meta device takes numbers and returns none
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise GsscError(f"train.device is {name!r}, which cannot be used here ({reason}); use cpu") from None
    return device
