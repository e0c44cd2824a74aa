"""GsscError, the exception for errors that the user can fix."""

from __future__ import annotations


class GsscError(Exception):
    """An error that the user can fix: a file, an option, a table.

    The message is one line: what is wrong, where, and what to do. The command line prints it
    without a traceback and exits with code 2.
    """
