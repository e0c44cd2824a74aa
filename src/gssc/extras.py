"""Optional dependencies: imported late, and missing ones say which extra to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gssc.errors import GsscError


def require(module: str, extra: str) -> Any:
    """Import ``module``, or raise a :class:`GsscError` that names the extra it belongs to.

    >>> require("json", extra="tables").loads("[1]")
    [1]
    >>> require("no_such_module", extra="tables")
    Traceback (most recent call last):
    gssc.errors.GsscError: no_such_module is not installed: pip install 'gssc[tables]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # Only the package itself being absent is the user's to mend; a broken import inside it is not.
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise
        raise GsscError(f"{top} is not installed: pip install 'gssc[{extra}]'") from None
