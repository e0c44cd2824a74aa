"""``gssc completion``: a script that completes commands and options in bash, zsh or fish."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gssc.errors import GsscError
from gssc.names import nearest

EXAMPLES = """\
examples:
  gssc completion bash > ~/.local/share/bash-completion/completions/gssc
  gssc completion zsh > ~/.zfunc/_gssc          in ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit
  gssc completion fish > ~/.config/fish/completions/gssc.fish

Write the script again after an update: it lists the options of the installed version.
"""
Words = dict[str, list[str]]  # words that may follow a command, by its name

BASH = """\
# bash completion of gssc
_gssc() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options="" names=""
    if [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    elif [[ $COMP_CWORD == 2 ]]; then
        COMPREPLY=($(compgen -W "$names" -- "$word") $(compgen -f -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _gssc gssc
"""
ZSH = """\
#compdef gssc
# zsh completion of gssc
_gssc() {{
    local -a names options
    if (( CURRENT == 2 )); then
        names=({commands} --help --version)
        compadd -- $names
        return
    fi
    case $words[2] in
{cases}
    esac
    if [[ $words[CURRENT] == -* ]]; then
        compadd -- $options
    else
        (( CURRENT == 3 && $#names )) && compadd -- $names
        _files
    fi
}}
if [[ $funcstack[1] == _gssc ]]; then _gssc "$@"; else compdef _gssc gssc; fi
"""


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("shell", type=str, help="bash, zsh or fish")


def run(args: Any) -> None:
    """Print the script."""
    if args.shell not in SHELLS:
        raise GsscError(f"there is no completion for {args.shell!r}: {nearest(args.shell, SHELLS)}")
    sys.stdout.write(SHELLS[args.shell](*words()))


def words() -> tuple[Words, Words]:
    """Return the options of every command, and the names that may follow it: subcommands, datasets or shells."""
    from gssc.cli.data_parser import SUMMARIES
    from gssc.cli.main import COMMANDS
    from gssc.data import DATASETS

    options = {name: _options_of(name) for name in COMMANDS}
    graphs = [name for name, dataset in DATASETS.items() if dataset.level != "graph"]
    following = {"data": list(SUMMARIES), "train": list(DATASETS), "tune": graphs, "completion": list(SHELLS)}
    return options, following


def _options_of(name: str) -> list[str]:
    from gssc.cli.main import parser_of
    from gssc.cli.parser import option_strings

    return sorted(set(option_strings(parser_of(name)[1])))


def bash(options: Words, following: Words) -> str:
    """Return the script for bash."""
    cases = "\n".join(
        f'        {name}) options="{" ".join(given)}"; names="{" ".join(following.get(name, []))}" ;;'
        for name, given in options.items()
    )
    return BASH.format(commands=" ".join(options), cases=cases)


def zsh(options: Words, following: Words) -> str:
    """Return the script for zsh."""
    cases = "\n".join(
        f"        {name}) options=({' '.join(given)}); names=({' '.join(following.get(name, []))}) ;;"
        for name, given in options.items()
    )
    return ZSH.format(commands=" ".join(options), cases=cases)


def fish(options: Words, following: Words) -> str:
    """Return the script for fish."""
    lines = ["# fish completion of gssc"]
    lines += [f"complete -c gssc -n __fish_use_subcommand -f -a '{' '.join(options)}'"]
    lines += [
        "complete -c gssc -n __fish_use_subcommand -l help",
        "complete -c gssc -n __fish_use_subcommand -l version",
    ]
    for name, given in options.items():
        inside = f"complete -c gssc -n '__fish_seen_subcommand_from {name}'"
        long = [option.removeprefix("--") for option in given if option.startswith("--")]
        lines += [f"{inside} -l {option}" for option in long]
        if name in following:
            lines.append(f"{inside} -a '{' '.join(following[name])}'")
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[Words, Words], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
