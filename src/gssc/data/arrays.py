"""Whatever the user had at hand as a NumPy array."""

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
