"""The argument parser of every command: help that keeps the line breaks of examples, errors of one line."""

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
    """Keeps the line breaks of examples, and shows help texts without Python types."""

    def add_usage(self, usage: str | None, actions: Iterable[argparse.Action], *args: Any, **kwargs: Any) -> None:
        """Show a dozen options or more as one word: the list below repeats them."""
        actions = list(actions)
        optional = [action for action in actions if action.option_strings and not action.required]
        if usage is None and len(optional) >= MANY_OPTIONS:
            named = [action for action in actions if action not in optional]
            shown = " ".join(_shown(action) for action in sorted(named, key=lambda action: not action.option_strings))
            usage = f"%(prog)s [options] {shown}".rstrip()
        self._prog = self._prog.replace(" [options]", "")  # of the command, before the name of a subcommand
        super().add_usage(usage, actions, *args, **kwargs)

    def start_section(self, heading: str | None) -> None:
        """Show the first line of a docstring, which is the heading of a section of settings, without markup."""
        super().start_section(heading and plain_help(heading))

    def _expand_help(self, action: argparse.Action) -> str:
        if "configuration file" in (action.help or ""):
            return "YAML file with the settings of this section"
        return plain_help(super()._expand_help(action))


def plain_help(text: str) -> str:
    """Return a help text without markup, Python types and obvious remarks.

    >>> plain_help("``a`` or ``b``; see :func:`gssc.trust.edge_trust`. (type: Literal['a', 'b'], default: a)")
    'a or b; see edge_trust. (default: a)'
    >>> plain_help("seed of the run (type: int)"), plain_help("feature rows (required)")
    ('seed of the run', 'feature rows')
    """
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("`", "")
    text, _, facts = (
        text.rpartition(" (") if re.search(r" \((type: |default: |required)[^()]*\)$", text) else (text, "", "")
    )
    default = re.search(r"default: (.*?)\)?$", facts)
    if default is None or default[1] in ("null", "None", "False", "[]", ""):
        return text
    return f"{text} (default: {default[1].lower() if default[1] == 'True' else default[1]})"


def sentence(summary: str) -> str:
    """Return a summary as a sentence.

    >>> sentence("learn from a graph")
    'Learn from a graph.'
    """
    return f"{summary[0].upper()}{summary[1:]}."


class CommandParser(jsonargparse.ArgumentParser):
    """Raises :class:`GsscError`, with the nearest known name, where argparse would print its usage and exit."""

    def __init__(self, *args: Any, **kwargs: Any):
        # Abbreviated options would change their meaning whenever a new option is added.
        super().__init__(*args, **{"formatter_class": HelpFormatter, "allow_abbrev": False, **kwargs})

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Turn any error message of argparse or jsonargparse into one readable line."""
        text = " ".join(message.split())
        text = re.sub(r'^Parser key "([^"]+)":', lambda found: f"{self._typed(found[1])}:", text)
        text = re.sub(r"^argument (?:-\w/)?(--[\w.-]+):", r"\1:", text)
        text = re.sub(r"Expected a (.+)\. Got value: (.*)$", _expected, text)
        text = re.sub(r"Does not validate .* - Expected a (.+?) - Expected .* Given value: (.*)$", _expected, text)
        text = re.sub(r"Exceeds the limit \(\d+ digits\).*$", "the number is too long", text)
        if missing := re.match(r"the following arguments are required: (.*)", text):
            text = f"missing {', '.join(map(self._typed, missing[1].split(', ')))}"
        if choices := re.match(r'expected "subcommand" to be one of \{(.*)\}', text):
            text = f"name a subcommand: {choices[1].replace(',', ', ')}"
        hint = self._nearest(text)
        text = re.sub(r"^argument [\w|]+: invalid choice: ('[^']*')", r"unknown subcommand \1", text)
        text = re.sub(r" \(choose from .*\)$", "", text) if hint else text
        inside = f" {named[1]}" if (named := re.search(r"are required: (\w+)\.\w", message)) else ""
        end = f"did you mean {hint!r}?" if hint else f"see {self.prog.replace(' [options]', '')}{inside} --help"
        section = "" if hint else self._section(text)
        raise GsscError("; ".join(filter(None, (text.rstrip("."), section, end)))) from None

    def _typed(self, key: str) -> str:
        """Return what the user types for an argument: its option, or its name in capitals.

        jsonargparse prefixes arguments of subcommands with the name of the subcommand (``import.nodes``).
        """
        actions = [action for parser in (self, *subcommands(self)) for action in parser._actions]
        for name in (key, key.partition(".")[2]):
            for action in actions:
                if action.dest == name:
                    return action.option_strings[-1] if action.option_strings else action.dest.upper()
        return f"--{key}"

    def _nearest(self, message: str) -> str | None:
        if wrong := re.match(r"unrecognized arguments: (?:.* )?(--?[\w.-]+)", message, re.IGNORECASE):
            known = list(option_strings(self))
            section, dot, name = wrong[1].partition(".")
            inside = [option.partition(".")[2] for option in known if option.startswith(f"{section}{dot}")]
            if dot and inside:  # settings of one section are compared without its name
                near = difflib.get_close_matches(name, inside, n=1)
                return f"{section}.{near[0]}" if near else None
        elif wrong := re.search(r"invalid choice: '([^']*)'", message):
            known = re.findall(r"'([^']+)'", message[wrong.end() :])
        else:
            return None
        near = difflib.get_close_matches(wrong[1], known, n=1)
        return near[0] if near else None

    def _section(self, message: str) -> str:
        """Return text that lists the settings of the section of an unknown one; empty if there is no such section."""
        wrong = re.match(r"unrecognized arguments: (?:.* )?(--(\w+)\.)", message, re.IGNORECASE)
        known = [option for option in option_strings(self) if wrong and option.startswith(wrong[1])]
        if not wrong or not known:
            return ""
        whose = "this model's settings" if "--model.name" in option_strings(self) else "settings"
        return f"{whose} of {wrong[2]} are {', '.join(option.removeprefix(wrong[1]) for option in known)}"


def _shown(action: argparse.Action) -> str:
    if action.option_strings:
        return f"{action.option_strings[-1]} {action.dest.upper()}"
    return f"[{action.dest}]" if action.nargs == "?" else action.dest


def _expected(found: re.Match[str]) -> str:
    """Return an error message about a value, without Python types."""
    wanted, given = re.sub(r"<class '(\w+)'>", r"\1", found[1]), found[2].strip("'")
    if choices := re.findall(r"'([^']*)'", wanted):
        return f"must be {' or '.join(filter(None, (', '.join(choices[:-1]), choices[-1])))}, not {given!r}"
    names = {"int": "a whole number", "float": "a number", "bool": "true or false"}
    return f"must be {names.get(wanted, wanted)}, not {given!r}"


def subcommands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of every subcommand."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def option_strings(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield every option of a parser and of its subcommands."""
    for action in parser._actions:
        yield from action.option_strings
    for child in subcommands(parser):
        yield from option_strings(child)
