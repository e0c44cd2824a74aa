"""Conversion of user input to NumPy arrays and to text, and headers of .npy files."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from gssc.errors import GsscError


def as_array(values: Any, what: str) -> np.ndarray:
    """Return `values` as an array (memory maps are kept). Raises GsscError that names `what` if it cannot be one."""
    try:
        return np.asanyarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise GsscError(f"{what} cannot be read as an array ({error}): give rows of equal length") from None


def frame_names(frame: Any) -> tuple[Any, Any]:
    """Return the row and column names of a DataFrame; None for either if it is the default 0, 1, 2, ..."""
    if not hasattr(frame, "iloc"):
        return None, None
    rows, columns = (None if np.array_equal(names, np.arange(len(names))) else names for names in frame.axes)
    return rows, columns


def as_text(value: Any, what: str) -> str:
    """Return a value as text, decoding bytes as UTF-8. Raises GsscError that names `what` if they are not UTF-8."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise GsscError(f"{what} is {value!r}, which is not UTF-8 text: save it as UTF-8") from None


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and dtype of an .npy file, and leave it positioned at the values."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)
