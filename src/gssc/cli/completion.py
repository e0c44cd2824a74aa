"""``gssc completion``: a script that completes commands and options in bash, zsh or fish."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gssc.cli.parser import subcommands
from gssc.errors import GsscError
from gssc.names import nearest

EXAMPLES = """\
examples:
  gssc completion bash > ~/.local/share/bash-completion/completions/gssc
  gssc completion zsh > ~/.zfunc/_gssc          in ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit
  gssc completion fish > ~/.config/fish/completions/gssc.fish

Write the script again after an update: it lists the options of the installed version.
"""
Words = dict[str, list[str]]

BASH = """\
# bash completion of gssc
_gssc() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options="" names="" values=""
    if [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{options}
    esac
    case ${{COMP_WORDS[@]:1:COMP_CWORD-1}} in
{names}
    esac
    case "${{COMP_WORDS[1]}} $before" in
{values}
    esac
    if [[ $values ]]; then
        COMPREPLY=($(compgen -W "$values" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$names" -- "$word") $(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _gssc gssc
"""
ZSH = """\
#compdef gssc
# zsh completion of gssc
_gssc() {{
    local -a names options values
    if (( CURRENT == 2 )); then
        names=({commands} --help --version)
        compadd -- $names
        return
    fi
    case $words[2] in
{options}
    esac
    case "$words[2,CURRENT-1]" in
{names}
    esac
    case "$words[2] $words[CURRENT-1]" in
{values}
    esac
    if (( $#values )); then
        compadd -- $values
    elif [[ $words[CURRENT] == -* ]]; then
        compadd -- $options
    else
        (( $#names )) && compadd -- $names
        _files
    fi
}}
if [[ $funcstack[1] == _gssc ]]; then _gssc "$@"; else compdef _gssc gssc; fi
"""


@dataclass(frozen=True)
class Candidates:
    """The words that a shell completes.

    Attributes:
        options: the options of every command.
        names: what may follow a command or a subcommand: subcommands, datasets or shells.
        values: the values of an option, by ``COMMAND --OPTION``.
    """

    options: Words
    names: Words
    values: Words


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("shell", type=str, help="bash, zsh or fish")


def run(args: Any) -> None:
    """Print the script."""
    if args.shell not in SHELLS:
        raise GsscError(f"there is no completion for {args.shell!r}: {nearest(args.shell, SHELLS)}")
    sys.stdout.write(SHELLS[args.shell](candidates()))


def candidates() -> Candidates:
    """Return the words that complete the commands of this version."""
    from gssc.cli.data_parser import SUMMARIES
    from gssc.cli.main import COMMANDS, parser_of
    from gssc.data import DATASETS

    options: Words = {}
    values: Words = {}
    for command in COMMANDS:
        parser = parser_of(command)[1]
        actions = [action for each in (parser, *subcommands(parser)) for action in each._actions]
        options[command] = sorted({option for action in actions for option in action.option_strings})
        for action in actions:
            if found := _values_of(command, action):
                values |= {f"{command} {option}": found for option in action.option_strings}
    graphs = [name for name, dataset in DATASETS.items() if dataset.level != "graph"]
    names = {"data": list(SUMMARIES), "data info": list(DATASETS), "data build": graphs}
    names |= {"train": list(DATASETS), "tune": graphs, "completion": list(SHELLS)}
    return Candidates(options, names, values)


def _values_of(command: str, action: argparse.Action) -> list[str]:
    """Return the values that an option accepts; empty if it accepts any, or is a list or a mark."""
    from gssc.cli.bench import ENGINES
    from gssc.deploy.export import FORMATS
    from gssc.graph import LEARNING_SETTINGS
    from gssc.models.registry import MODELS
    from gssc.recipes import PRESETS
    from gssc.sparsify.registry import SPARSIFIERS
    from gssc.tracking import TRACKERS

    listed: dict[str, Iterable[str]] = {
        "--data.setting": LEARNING_SETTINGS,
        "--engine": ENGINES,
        "--model": MODELS,
        "--model.name": MODELS,
        "--preset": PRESETS,
        "--setting": LEARNING_SETTINGS,
        "--sparsifier": SPARSIFIERS,
        "--sparsifier.name": SPARSIFIERS,
        "--style": ("light", "dark"),
        "--track": TRACKERS,
        "export --format": FORMATS,
        "plot --format": ("png", "svg", "pdf"),
    }
    if command == "bench":  # its --sparsifier is a file of settings
        listed = {"--engine": ENGINES}
    for option in action.option_strings:
        if found := listed.get(f"{command} {option}") or listed.get(option):
            return list(found)
    if isinstance(action.metavar, str) and action.metavar.startswith("{"):
        return action.metavar.strip("{}").split(",")
    words = [str(choice) for choice in action.choices or () if str(choice).isidentifier()]
    return words if action.option_strings else []


def bash(words: Candidates) -> str:
    """Return the script for bash."""
    return BASH.format(
        commands=" ".join(words.options),
        options=_cases('options="{}"', words.options),
        names=_cases('names="{}"', words.names),
        values=_cases('values="{}"', words.values),
    )


def zsh(words: Candidates) -> str:
    """Return the script for zsh."""
    return ZSH.format(
        commands=" ".join(words.options),
        options=_cases("options=({})", words.options),
        names=_cases("names=({})", words.names),
        values=_cases("values=({})", words.values),
    )


def _cases(assignment: str, words: Words) -> str:
    """Return the branches of a ``case`` statement, one per key, each with an assignment of its words."""
    return "\n".join(f'        "{key}") {assignment.format(" ".join(found))} ;;' for key, found in words.items())


def fish(words: Candidates) -> str:
    """Return the script for fish."""
    lines = ["# fish completion of gssc"]
    lines += [f"complete -c gssc -n __fish_use_subcommand -f -a '{' '.join(words.options)}'"]
    lines += [
        "complete -c gssc -n __fish_use_subcommand -l help",
        "complete -c gssc -n __fish_use_subcommand -l version",
    ]
    for command, given in words.options.items():
        inside = f"complete -c gssc -n '__fish_seen_subcommand_from {command}'"
        for option in given:
            values = words.values.get(f"{command} {option}")
            if option.startswith("--"):
                lines.append(f"{inside} -l {option[2:]}" + (f" -x -a '{' '.join(values)}'" if values else ""))
    for key, names in words.names.items():
        where = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in key.split())
        # Subcommands are offered until one is there.
        more = f"; and not __fish_seen_subcommand_from {' '.join(names)}" if key == "data" else ""
        lines.append(f"complete -c gssc -n '{where}{more}' -a '{' '.join(names)}'")
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[Candidates], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
