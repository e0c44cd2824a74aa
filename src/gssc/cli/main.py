"""``gssc``: finds the command, runs it, and turns errors that the user can fix into one line on stderr.

A command is one module with two functions, ``add_arguments(parser)`` and ``run(args)``, and optionally a text
``EXAMPLES`` for the end of its help; with ``DEFAULTS_IN_ARGS = False`` it gets only the options that were typed.
With ``SETTINGS_BY_ARGUMENTS = True`` its options depend on the arguments: it has a function ``expanded(arguments)``
that rewrites them, and ``add_arguments(parser, arguments)`` gets the result.
Only the chosen command's module is imported, so ``gssc --help`` is quick.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from gssc import __version__
from gssc.errors import GsscError
from gssc.extras import missing_extra, require_all
from gssc.names import nearest, printable
from gssc.signals import Stopped, ending_signals_raised

if TYPE_CHECKING:
    from gssc.cli.parser import CommandParser

# Parts of error messages that torch, threads and the dynamic loader raise when memory runs out.
NO_MEMORY = ("allocate memory", "can't start new thread", "failed to map segment")
# Advice for each command when memory runs out.
LESS_MEMORY = {
    "train": "use a smaller model (--model.hidden) or a graph on disk (gssc data build), which is streamed",
    "tune": "search smaller models (model.hidden), or run fewer workers at once",
    "bench": "run fewer at once (--jobs), or compare on a smaller graph",
    "score": "score fewer files at once (--jobs)",
    "data": "gssc data build makes a graph on disk, in bounded memory",
}
# Packages that a command needs, each with its extra: all that are missing are named before the work begins.
NEEDED = {
    "tune": (("torch", "train"), ("optuna", "tune")),
    "plot": (("torch", "train"), ("matplotlib", "report")),
}
# Commands that import torch and scikit-learn. With less address space (ulimit -v) the imports may end the process.
TORCH_COMMANDS, TORCH_BYTES = ("train", "tune", "bench", "demo", "plot"), 1 << 30
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BY_SIGNAL = 128  # plus the number of the signal, as shells report it


class Command(NamedTuple):
    """The module of a command, and its summary in one line."""

    module: str
    summary: str


COMMANDS = {
    "train": Command("gssc.cli.train", "learn from a graph; writes a run folder with the model in it"),
    "predict": Command("gssc.cli.predict", "classify feature rows with a trained model; needs no graph"),
    "export": Command(
        "gssc.cli.export", "write a trained model as ONNX, for NumPy alone or for torch, with a model card"
    ),
    "audit": Command("gssc.cli.audit", "rank the edges and training labels of a graph by how doubtful they are"),
    "plot": Command("gssc.cli.plot", "draw learning curves, errors, calibration, embeddings and edges of a run"),
    "bench": Command("gssc.cli.bench", "compare models with any sparsifier and noise; every run is stored"),
    "score": Command("gssc.cli.score", "classify the rows of Parquet or CSV files of any size, in parallel, resumable"),
    "tune": Command("gssc.cli.tune", "search settings by validation score, never by test labels"),
    "serve": Command("gssc.cli.serve", "serve a trained model over HTTP, with a web page to try it"),
    "data": Command("gssc.cli.data_parser", "list the datasets, describe one, or import your own tables"),
    "completion": Command("gssc.cli.completion", "print a script that completes commands in bash, zsh or fish"),
    "demo": Command("gssc.cli.demo", "train on the embedded digits graph and compare, in less than a minute"),
}

HELP = """\
usage: gssc COMMAND ...

A graph goes in, a plain MLP comes out: learn node classes from a graph, predict from feature rows alone.

commands:
{commands}

options:
  -h, --help     show this help; gssc COMMAND --help explains a command
  --version      show the version

examples:
  gssc demo
  gssc train cora --out runs/cora
  gssc data import --nodes nodes.csv --edges edges.csv --out my_graph.npz
  gssc train --graph my_graph.npz --out runs/mine
  gssc predict runs/mine rows.csv --out predictions.csv
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0; 2 for an error that the user can fix; 130 when interrupted.

    A signal that ends it (SIGTERM, SIGHUP) gives 128 and its number, once files in progress are removed.
    """
    typed = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with ending_signals_raised(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            _dispatch(typed)
            sys.stdout.flush()
    except GsscError as error:
        return _complain(str(error))
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        return _complain(str(missing))
    except BrokenPipeError:
        # The reader of our output (`gssc data list | head`) has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (MemoryError, RuntimeError, ImportError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in NO_MEMORY):
            raise
        advice = LESS_MEMORY.get(typed[0] if typed else "")
        return _complain(f"not enough memory: {advice}" if advice else "not enough memory")
    except Stopped as stopped:
        _complain(str(stopped))
        return EXIT_BY_SIGNAL + stopped.number
    except KeyboardInterrupt:
        _complain("interrupted")
        return EXIT_INTERRUPTED
    return 0


def _dispatch(arguments: list[str]) -> None:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        lines = (f"  {command:<14} {COMMANDS[command].summary}" for command in COMMANDS)
        sys.stdout.write(HELP.format(commands="\n".join(lines)))
    elif name == "--version":
        sys.stdout.write(f"gssc {__version__}\n")
    elif name in COMMANDS:
        _run(name, arguments[1:])
    else:
        what = "option" if name.startswith("-") else "command"
        raise GsscError(f"unknown {what} {name!r}: {nearest(name, [*COMMANDS, '--help', '--version'])}")


def parser_of(name: str, arguments: Sequence[str] = ()) -> tuple[ModuleType, CommandParser]:
    """Return the module of a command, and its parser; options of ``train`` depend on the arguments."""
    from gssc.cli.parser import CommandParser, sentence

    module = import_module(COMMANDS[name].module)
    description = sentence(COMMANDS[name].summary)
    parser = CommandParser(prog=f"gssc {name}", description=description, epilog=getattr(module, "EXAMPLES", None))
    if getattr(module, "SETTINGS_BY_ARGUMENTS", False):
        module.add_arguments(parser, module.expanded(arguments))
    else:
        module.add_arguments(parser)
    return module, parser


def _run(name: str, arguments: list[str]) -> None:
    module, parser = parser_of(name, arguments)
    arguments = module.expanded(arguments) if getattr(module, "SETTINGS_BY_ARGUMENTS", False) else arguments
    # A command with layered settings gets only what the user typed: the rest comes from recipe and preset.
    args = parser.parse_args(arguments, defaults=getattr(module, "DEFAULTS_IN_ARGS", True))
    require_all(*NEEDED.get(name, ()))
    if name in TORCH_COMMANDS:
        _require_room_for_torch()
    module.run(args)


def _require_room_for_torch() -> None:
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < TORCH_BYTES:
        raise GsscError(
            f"not enough memory: torch and scikit-learn take about {TORCH_BYTES >> 20} MB of address space, and "
            f"the limit is {limit >> 20} MB; raise it (ulimit -v)"
        )


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Show a warning of this package as a note; those of other packages are for programmers and stay as they are."""
    from rich.console import Console
    from rich.text import Text

    if Path(filename).is_relative_to(Path(__file__).parents[1]):
        note = Text.assemble(("note ", "yellow"), printable(str(message)))
        Console(stderr=True).print(note, soft_wrap=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


def _complain(message: str) -> int:
    # A message may quote a name from a file, and a name may contain control sequences of a terminal.
    line = f"error: {printable(' '.join(message.split()))}"
    with suppress(OSError):  # the terminal may be closed
        try:
            from rich.console import Console
            from rich.text import Text
        except (MemoryError, ImportError, OSError):  # no memory is left for the import
            sys.stderr.write(f"{line}\n")
        else:
            Console(stderr=True).print(Text(line, style="red"), soft_wrap=True)
    return EXIT_USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
