"""Suggestions for names that are almost right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(wrong: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, or all of them.

    >>> nearest("hiden", ["hidden", "layers"])
    "did you mean 'hidden'?"
    >>> nearest("x", ["hidden", "layers"])
    'known are hidden, layers'
    """
    names = list(known)
    near = difflib.get_close_matches(str(wrong), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
