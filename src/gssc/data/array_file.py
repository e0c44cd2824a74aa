"""Read parts of a memory-mapped array from its file by system calls instead of through the map."""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any

import numpy as np

from gssc.data.map_copy import PARTS_AT_A_TIME, MapCopy
from gssc.errors import GsscError

SMALL_FILE = 1 << 27  # bytes of an array that may be held in memory
VALUES_AT_A_TIME = 1 << 20  # per read, when a whole array is read


class ArrayFile:
    """Reads parts of a memory-mapped array from its file by system calls; other arrays are indexed as usual.

    A process that reads a map of a file that another process has just cut short is ended by the system (SIGBUS). A read
    of such a file returns fewer bytes instead, which raises GsscError here. Scattered rows are copied from the map by
    the system, hundreds at a time (:mod:`gssc.data.map_copy`), if the file takes less than half of the memory. Those of
    larger files are read one by one: through the map, each would be a page fault that maps 64 KB, which have to be
    released again.

    Args:
        array: any array, memory-mapped or not.
        hold: whether to read a file of at most 128 MB into memory right away.
    """

    def __init__(self, array: Any, hold: bool = False):
        self.array, self.handle = array, -1
        self.copy: MapCopy | None = None  # created on first use, if possible
        self.looked = False  # whether a copier was looked for
        mapped = isinstance(getattr(array, "base", None), mmap.mmap) and hasattr(array, "filename")
        if not mapped or not array.flags.c_contiguous or not hasattr(os, "pread"):
            return
        try:
            self.handle = os.open(array.filename, os.O_RDONLY)
        except OSError:
            return  # the file was deleted, but is still mapped
        close = weakref.finalize(self, os.close, self.handle)
        if hold and array.nbytes <= SMALL_FILE:
            self.array = self.whole()
            self.handle = -1
            close()

    def __getitem__(self, nodes: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers, [n, d]; negative numbers are refused for a file."""
        if self.handle < 0 or not len(nodes):
            return np.asarray(self.array[nodes])
        for number in (nodes.min(), nodes.max()):
            if not 0 <= number < len(self.array):
                last = len(self.array) - 1
                raise GsscError(f"{self.array.filename} has no row {number}: they run from 0 to {last}")
        begins = np.flatnonzero(np.diff(nodes, prepend=nodes[0] - 2) != 1)  # where runs of consecutive rows begin
        sizes = np.diff(begins, append=len(nodes))
        row = self._row_length()
        parts = list(zip((row * nodes[begins].astype(np.int64)).tolist(), (row * sizes).tolist(), strict=True))
        self._find_copier()
        groups = (parts[first : first + PARTS_AT_A_TIME] for first in range(0, len(parts), PARTS_AT_A_TIME))
        return self._rows(b"".join([self._parts(group) for group in groups]), len(nodes))

    def block(self, start: int, stop: int) -> np.ndarray:
        """Return consecutive rows, [stop - start, d] or fewer at the end."""
        if self.handle < 0:
            return np.asarray(self.array[start:stop])
        stop, row = min(stop, len(self.array)), self._row_length()
        return self._rows(self._read(row * start, row * (stop - start)), stop - start)

    def keep_mapped(self, start: int, stop: int) -> None:
        """Map consecutive rows that have just been read, because scattered ones of them will be read again."""
        self._find_copier()
        if self.copy is not None:
            self.copy.populate(self._row_length() * start, self._row_length() * stop)

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

    def _find_copier(self) -> None:
        if self.handle >= 0 and not self.looked:
            self.copy, self.looked = MapCopy.of(self.array, self.handle), True

    def _parts(self, parts: list[tuple[int, int]]) -> bytes:
        """Return parts of the array, given by first byte and size, one after another."""
        found = self.copy.parts(parts) if self.copy else None
        return b"".join([self._read(*part) for part in parts]) if found is None else found

    def _read(self, place: int, size: int) -> bytes:
        """Return ``size`` bytes of the array from ``place`` on. Raises GsscError if the file has fewer."""
        found = os.pread(self.handle, size, self.array.offset + place)
        if len(found) != size:
            raise GsscError(f"{self.array.filename} was cut short while it was read; build the graph again")
        return found
