"""The argument parser of every command: help that keeps its examples' lines, errors that are one line."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import jsonargparse

from gssc.errors import GsscError

MANY_OPTIONS = 12


class HelpFormatter(jsonargparse.DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Leaves the line breaks of examples as they are written, and what goes without saying unsaid."""

    def add_usage(self, usage: str | None, actions: Iterable[argparse.Action], *args: Any, **kwargs: Any) -> None:
        """Show a dozen options or more as one word: the list below the usage says it all again."""
        actions = list(actions)
        optional = [action for action in actions if action.option_strings and not action.required]
        if usage is None and len(optional) >= MANY_OPTIONS:
            named = [action for action in actions if action not in optional]
            shown = " ".join(_shown(action) for action in sorted(named, key=lambda action: not action.option_strings))
            usage = f"%(prog)s [options] {shown}"
        super().add_usage(usage, actions, *args, **kwargs)

    def _expand_help(self, action: argparse.Action) -> str:
        text = super()._expand_help(action)
        text = re.sub(r"\b(type: str( \| null)?|default: (null|False|\[\]))(, )?", "", text)
        return re.sub(r", \)", ")", text).removesuffix(" ()")


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
            known = list(option_strings(self))
        elif wrong := re.search(r"invalid choice: '([^']*)'", message):
            known = re.findall(r"'([^']+)'", message[wrong.end() :])
        else:
            return None
        near = difflib.get_close_matches(wrong[1], known, n=1)
        return near[0] if near else None


def _shown(action: argparse.Action) -> str:
    if action.option_strings:
        return f"{action.option_strings[-1]} {action.dest.upper()}"
    return f"[{action.dest}]" if action.nargs == "?" else action.dest


def option_strings(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield every option of a parser and of its subcommands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from option_strings(child)
