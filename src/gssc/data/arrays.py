"""Whatever the user had at hand as a NumPy array, or as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from gssc.errors import GsscError


def as_array(values: Any, what: str) -> np.ndarray:
    """An array, or an error that names what is no array; a memory map stays one."""
    try:
        return np.asanyarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise GsscError(f"{what} cannot be read as an array ({error}): give rows of equal length") from None


def as_text(value: Any, what: str) -> str:
    """Text of a value; bytes are read as UTF-8, and `what` names them where they are none."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise GsscError(f"{what} is {value!r}, which is not UTF-8 text: save it as UTF-8") from None
