"""Copies of scattered parts of a memory-mapped file, in few system calls and without the risk of SIGBUS."""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

PARTS_AT_A_TIME = 1024  # maximum number of parts that Linux takes in one call (IOV_MAX)
LARGEST = 1 << 22  # bytes copied in one call; beyond it, copying twice costs more than the calls it saves
POPULATE_READ = 22  # MADV_POPULATE_READ, which mmap has no name for before Python 3.13
UNLIMITED = 1 << 60


class MapCopy:
    """Copies parts of a memory-mapped array through a file in memory.

    Reading a map of a file that another process has just cut short ends the process (SIGBUS), unless the kernel does
    the reading: a write *from* the map fails with an error instead. One such write copies up to a thousand scattered
    parts, where ``pread`` takes a system call for each part and releases the interpreter lock each time.

    Parts of the file that were read stay mapped. They count as resident memory of the process, but they are page cache,
    which the system takes back when memory is short.

    Args:
        array: a memory-mapped array, C-contiguous.
        handle: file descriptor of its file.
    """

    def __init__(self, array: Any, handle: int):
        self.bytes = memoryview(array.reshape(-1).view(np.uint8))
        self.map, self.offset, self.end = array.base, array.offset % mmap.ALLOCATIONGRANULARITY, array.nbytes
        self.handle, self.size = handle, array.offset + array.nbytes
        self.lock = threading.Lock()
        self.process = os.getpid()
        self.scratch = os.memfd_create("gssc-rows")
        weakref.finalize(self, os.close, self.scratch)
        self.map.madvise(mmap.MADV_RANDOM)  # a missing page is read alone

    @classmethod
    def of(cls, array: Any, handle: int) -> MapCopy | None:
        """Return a copier of the array, or None if it exceeds half of the usable memory or the system has no memfd."""
        if not hasattr(os, "memfd_create") or array.nbytes > usable_memory() / 2:
            return None
        try:
            return cls(array, handle)
        except OSError:
            return None

    def parts(self, parts: list[tuple[int, int]]) -> bytes | None:
        """Return parts of the array one after another, or None if they are too large or could not all be copied.

        Args:
            parts: first byte and number of bytes of each part, at most :data:`PARTS_AT_A_TIME`.
        """
        total = sum(size for _, size in parts)
        if total > LARGEST or os.getpid() != self.process:  # a forked process shares the file in memory, not the lock
            return None
        with self.lock:
            try:
                copied = os.pwritev(self.scratch, [self.bytes[start : start + size] for start, size in parts], 0)
                found = os.pread(self.scratch, total, 0)
            except OSError:
                return None
        # The rest of a page that is cut short reads as zeros: only the size of the file shows it.
        return found if copied == total and os.fstat(self.handle).st_size >= self.size else None

    def populate(self, start: int, stop: int) -> None:
        """Map these bytes of the array, which have just been read, so that reading them again takes no page fault."""
        page = mmap.PAGESIZE
        first, last = (self.offset + start) // page * page, self.offset + min(stop, self.end)
        try:
            self.map.madvise(POPULATE_READ, first, last - first)
        except OSError:
            return  # an older system, or a file that was cut short, which the next read reports


def usable_memory() -> int:
    """Return the bytes of memory that this process may use: those of the machine, or a lower limit."""
    import resource

    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS):
        soft, _ = resource.getrlimit(kind)
        limits.append(UNLIMITED if soft == resource.RLIM_INFINITY else soft)
    return min(*limits, *_group_limits())


def _group_limits() -> list[int]:
    """Return the memory limits of this process's control groups, of version 2 and 1."""
    found = []
    try:
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kind, place = line.split(":", 2)
            root, name = {
                "": ("/sys/fs/cgroup", "memory.max"),
                "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            }.get(kind, ("", ""))
            if root:  # in a container the path of the group may be that of the machine, and its root the group itself
                found += [Path(root, place.lstrip("/"), name), Path(root, name)]
    except (OSError, ValueError):
        return []
    return [limit for path in found for limit in _limit(path)]


def _limit(path: Path) -> list[int]:
    try:
        return [int(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError):  # no such file, or "max"
        return []
