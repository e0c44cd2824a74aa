"""The argument parser of every command: help that keeps its examples' lines, errors that are one line."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import jsonargparse

from gssc.errors import GsscError


class HelpFormatter(jsonargparse.DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Leaves the line breaks of a description and of examples as they are written."""


class CommandParser(jsonargparse.ArgumentParser):
    """Raises :class:`GsscError`, with the nearest known name, where argparse would print its usage and exit."""

    def __init__(self, *args: Any, **kwargs: Any):
        # Abbreviated options would change their meaning whenever a new option is added.
        super().__init__(*args, **{"formatter_class": HelpFormatter, "allow_abbrev": False, **kwargs})

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Turn any complaint of argparse or jsonargparse into one readable line."""
        text = " ".join(message.split())
        text = re.sub(r'^Parser key "([^"]+)":', r"--\1:", text)
        text = re.sub(r"<class '([\w.]+)'>", r"\1", text)
        hint = self._nearest(text)
        end = f"did you mean {hint!r}?" if hint else f"see {self.prog} --help"
        raise GsscError(f"{text.rstrip('.')}; {end}") from None

    def _nearest(self, message: str) -> str | None:
        if wrong := re.match(r"unrecognized arguments: (?:.* )?(--?[\w.-]+)", message, re.IGNORECASE):
            known = list(_options(self))
        elif wrong := re.search(r"invalid choice: '([^']*)'", message):
            known = re.findall(r"'([^']+)'", message[wrong.end() :])
        else:
            return None
        near = difflib.get_close_matches(wrong[1], known, n=1)
        return near[0] if near else None


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option of a parser and of its subcommands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _options(child)
