"""Helpers for messages: suggestions for names that are almost right, text that is safe to show, counts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MOST_SHOWN = 40  # names listed in a message


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return advice for an error message about an unknown name: the closest known one, or all of them, at most 40.

    >>> nearest("hiden", ["hidden", "layers"])
    "did you mean 'hidden'?"
    >>> nearest("x", ["hidden", "layers"])
    'choose from hidden, layers'
    >>> nearest("x", [f"column {number}" for number in range(5000)])[-29:]
    'column 39, ... (5,000 in all)'
    """
    names = list(known)
    near = difflib.get_close_matches(str(wrong), names, n=1)
    more = [f"... ({len(names):,} in all)"] if len(names) > MOST_SHOWN else []
    return f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(names[:MOST_SHOWN] + more)}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun if number == 1 else noun + 's'}"


# Control characters, which a terminal obeys; line separators; marks that reverse the direction of writing; halves of
# surrogate pairs, which cannot be written.
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return text with control characters, which a terminal would obey, replaced by escape sequences.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _UNSHOWABLE.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), text)
