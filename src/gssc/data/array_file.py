"""Parts of a memory-mapped array, read from its file by system calls instead of through the map."""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any

import numpy as np

from gssc.errors import GsscError

SMALL_FILE = 1 << 27  # bytes of features that may be held in memory
VALUES_AT_A_TIME = 1 << 20  # of an array that is read whole


class ArrayFile:
    """Parts of a memory-mapped array, read from its file by system calls; other arrays are indexed as usual.

    A process that reads a map of a file that another process has just cut short is ended by the system (SIGBUS). A read
    of such a file returns fewer bytes instead, which raises GsscError here. Reading a row takes the same time however
    large the file is. Through the map, every scattered row of a large file is a page fault that maps 64 KB, which have
    to be released again.

    Args:
        array: any array, memory-mapped or not.
        hold: read a file of at most 128 MB into memory right away.
    """

    def __init__(self, array: Any, hold: bool = False):
        self.array, self.handle = array, -1
        mapped = isinstance(getattr(array, "base", None), mmap.mmap) and hasattr(array, "filename")
        if not mapped or not array.flags.c_contiguous or not hasattr(os, "pread"):
            return
        try:
            self.handle = os.open(array.filename, os.O_RDONLY)
        except OSError:
            return  # the file is gone, but not its map
        close = weakref.finalize(self, os.close, self.handle)
        if hold and array.nbytes <= SMALL_FILE:
            self.array = self.whole()
            self.handle = -1
            close()

    def __getitem__(self, nodes: np.ndarray) -> np.ndarray:
        """Return the rows of these numbers, [n, d]."""
        if self.handle < 0 or not len(nodes):
            return np.asarray(self.array[nodes])
        begins = np.flatnonzero(np.diff(nodes, prepend=nodes[0] - 2) != 1)  # of runs of consecutive rows
        sizes = np.diff(begins, append=len(nodes))
        row = self._row_length()
        parts = zip((row * nodes[begins].astype(np.int64)).tolist(), (row * sizes).tolist(), strict=True)
        return self._rows(b"".join([self._read(*part) for part in parts]), len(nodes))

    def block(self, start: int, stop: int) -> np.ndarray:
        """Return consecutive rows, [stop - start, d] or fewer at the end."""
        if self.handle < 0:
            return np.asarray(self.array[start:stop])
        stop, row = min(stop, len(self.array)), self._row_length()
        return self._rows(self._read(row * start, row * (stop - start)), stop - start)

    def whole(self, dtype: Any = None) -> np.ndarray:
        """Return a copy of the array in memory."""
        if self.handle < 0:
            return np.array(self.array, dtype=dtype)
        found = np.empty(self.array.shape, dtype=dtype or self.array.dtype)
        flat, size = found.reshape(-1), self.array.itemsize
        for start in range(0, found.size, VALUES_AT_A_TIME):
            part = flat[start : start + VALUES_AT_A_TIME]
            part[:] = np.frombuffer(self._read(size * start, size * len(part)), dtype=self.array.dtype)
        return found

    def columns(self, start: int, stop: int) -> np.ndarray:
        """Return consecutive columns of every row, [N, stop - start] or fewer at the end; for arrays of few rows."""
        if self.handle < 0:
            return np.asarray(self.array[:, start:stop])
        row, size = self._row_length(), self.array.itemsize
        width = size * (min(stop, self.array.shape[1]) - start)
        found = b"".join([self._read(row * number + size * start, width) for number in range(len(self.array))])
        return np.frombuffer(found, dtype=self.array.dtype).reshape(len(self.array), -1)

    def _row_length(self) -> int:
        return int(self.array.strides[0])

    def _rows(self, found: bytes, rows: int) -> np.ndarray:
        return np.frombuffer(found, dtype=self.array.dtype).reshape(rows, *self.array.shape[1:])

    def _read(self, place: int, size: int) -> bytes:
        """Return some bytes of the array; raises GsscError if the file has fewer."""
        found = os.pread(self.handle, size, self.array.offset + place)
        if len(found) != size:
            raise GsscError(f"{self.array.filename} was cut short while it was read; build the graph again")
        return found
