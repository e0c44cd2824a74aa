""".npy files that are written piece by piece.

Values are written to the file, not to a map of it and not by ``ndarray.tofile``: on a full disk a write to a map ends
the process (SIGBUS), and ``tofile`` raises an error without its cause.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from gssc.errors import GsscError


class NpyAppender:
    """An .npy file that grows row by row; its header is completed at the end.

    Args:
        path: the file.
        dtype: data type of the values.
        shape: shape of one row.
        rows: number of rows to keep of an existing file. Raises GsscError if it has fewer.
        checksum: checksum of these rows. Raises GsscError if they have another.

    Attributes:
        checksum: CRC-32 of all rows.
    """

    def __init__(
        self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], rows: int = 0, checksum: int | None = None
    ):
        self.dtype, self.shape, self.rows = dtype, shape, rows
        if rows and not path.exists():
            raise cut_short(path)
        self.file: IO[bytes] = path.open("r+b" if rows else "w+b")
        start = write_header(self.file, dtype, (rows, *shape))
        size = start + rows * dtype.itemsize * int(np.prod(shape))
        if self.file.seek(0, os.SEEK_END) < size:
            self.file.close()
            raise cut_short(path)
        self.file.truncate(size)
        self.file.seek(start)
        self.checksum = checksum_of(self.file)
        if checksum is not None and self.checksum != checksum:
            self.file.close()
            raise damaged(path)

    def __enter__(self) -> NpyAppender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Complete the header and close the file."""
        try:
            write_header(self.file, self.dtype, (self.rows, *self.shape))
        finally:
            self.file.close()

    def append(self, block: np.ndarray) -> None:
        """Append a block of rows."""
        self.checksum = write_values(self.file, block.astype(self.dtype, copy=False), self.checksum)
        self.rows += len(block)

    def flush(self) -> None:
        """Write buffered rows to the file."""
        self.file.flush()


class NpyColumns:
    """An .npy file of few long rows, of known shape, that is filled from left to right.

    Args:
        path: the file, which is replaced.
        dtype: data type of the values.
        shape: [rows, columns], or [columns] for a single row.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]):
        self.dtype, self.columns, self.done = dtype, shape[-1], 0
        self.file: IO[bytes] = path.open("w+b")
        self.start = write_header(self.file, dtype, shape)

    def __enter__(self) -> NpyColumns:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        """Close the file. Raises GsscError if columns are missing, because a file they were read from was cut short."""
        self.file.close()
        if error is None and self.done != self.columns:
            raise cut_short(Path(self.file.name))

    def append(self, part: np.ndarray) -> None:
        """Write the next columns, [rows, n] or [n]."""
        for number, values in enumerate(np.atleast_2d(part)):
            self.file.seek(self.start + self.dtype.itemsize * (number * self.columns + self.done))
            write_values(self.file, values.astype(self.dtype, copy=False))
        self.done += part.shape[-1]


def write_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Write the header, with room for a greater number of rows, and return its length."""
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return file.tell()


def write_values(file: IO[bytes], values: np.ndarray, checksum: int = 0) -> int:
    """Write the bytes of an array of any type and return their CRC-32, continued from ``checksum``."""
    content = bytes_of(values)
    file.write(content)
    return zlib.crc32(content, checksum)


def bytes_of(values: np.ndarray) -> memoryview:
    """Return the bytes of an array of any type."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def checksum_of(file: IO[bytes]) -> int:
    """Return the CRC-32 of the rest of a file."""
    found = 0
    while piece := file.read(1 << 20):
        found = zlib.crc32(piece, found)
    return found


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array to an .npy file."""
    with path.open("wb") as file:
        write_header(file, array.dtype, array.shape)
        write_values(file, array)


def cut_short(path: Path) -> GsscError:
    """Return the error for a file of a build that is shorter than recorded, as after a power cut."""
    return GsscError(f"{path} was cut short; delete {path.parent} and build the graph again")


def damaged(path: Path) -> GsscError:
    """Return the error for a file of a build whose content is not what was written."""
    return GsscError(f"{path} is damaged: its checksum differs; delete {path.parent} and build the graph again")
