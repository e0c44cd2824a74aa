"""Keep freed memory for the next batch instead of handing it back to the system."""

from __future__ import annotations

import ctypes
from functools import cache

# Parameter numbers of glibc's mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_ONE_GIB = 2**30


@cache
def reuse_freed_memory() -> None:
    """Let the allocator reuse large blocks within this process.

    Every batch allocates and frees the same few matrices of some megabytes. By default glibc returns such blocks to the
    system and asks for them anew, and the system clears every page again. Does nothing where the C library has no such
    setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _ONE_GIB)
    mallopt(_TRIM_THRESHOLD, _ONE_GIB)
