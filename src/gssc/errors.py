"""The one exception a person is meant to read."""

from __future__ import annotations


class GsscError(Exception):
    """Something the user can mend: a file, an option, a table.

    The message is one line that says what is wrong, where, and what to do. The command line prints it
    without a traceback and exits with code 2.
    """
