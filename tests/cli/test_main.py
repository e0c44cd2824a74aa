from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gssc import __version__
from gssc.cli import main as main_module
from gssc.cli.main import COMMANDS, Command, main
from gssc.cli.parser import subcommands
from gssc.errors import GsscError
from gssc.models.registry import MODELS
from gssc.molecules.registry import MODELS as MOLECULE_MODELS
from gssc.sparsify.registry import SPARSIFIERS

INTERNAL = r"Literal|Optional|`|\btype: |:(func|class|mod|data|meth):|\(required\)|\bnull\b|import\.\w"
WITHOUT_MEANING = r"^  --\S+ [A-Z_]+\s+(\(default|--)"  # an option with no text, or with its default alone


def test_help_names_every_command(gssc) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        run = gssc(*arguments)
        assert run.returncode == 0
        assert all(f"\n  {command} " in run.stdout for command in COMMANDS)
        assert "examples:" in run.stdout


def test_version(gssc) -> None:
    assert gssc("--version").stdout == f"gssc {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prdict"], "error: unknown command 'prdict': did you mean 'predict'?\n"),
        (["xyzzy"], f"error: unknown command 'xyzzy': choose from {', '.join(COMMANDS)}, --help, --version\n"),
        (["--versoin"], "error: unknown option '--versoin': did you mean '--version'?\n"),
        (["predict", "a", "b", "--ouput", "c"], "error: unrecognized arguments: --ouput c; did you mean '--out'?\n"),
        (["predict", "a", "b", "--ou", "c"], "error: unrecognized arguments: --ou c; did you mean '--out'?\n"),
        (["predict", "a", "b"], "error: missing --out; see gssc predict --help\n"),
        (["data", "import", "--out", "c"], "error: missing --nodes; see gssc data import --help\n"),
        (
            ["train", "cora", "--train.normalise", "row"],
            "error: unrecognized arguments: --train.normalise row; did you mean '--train.normalize'?\n",
        ),
        (
            ["train", "cora", "--train.lr", "1"],
            "error: unrecognized arguments: --train.lr 1; this model's settings of train are normalize, class_weight, "
            "seed, threads, memory; see gssc train --help\n",
        ),
        (["data", "imprt"], "error: unknown subcommand 'imprt'; did you mean 'import'?\n"),
        (["predict", "a", "b", "--out"], "error: --out: expected one argument; see gssc predict --help\n"),
    ],
)
def test_misspelt(gssc, arguments: list[str], message: str) -> None:
    run = gssc(*arguments)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", message)


def test_help_of_a_command_teaches(gssc) -> None:
    run = gssc("predict", "--help")
    assert run.returncode == 0
    assert "--overwrite" in run.stdout
    assert "\n  gssc predict runs/cora rows.npz --out predictions.parquet\n" in run.stdout


@pytest.mark.parametrize("command", ["train", "tune"])
def test_help_shows_that_a_model_is_chosen_by_name(command: str) -> None:
    _, parser = main_module.parser_of(command, [])
    shown = parser.format_help()
    assert "  --model NAME " in shown
    assert "short for --model.name NAME" in " ".join(shown.split())
    assert "  --train CONFIG " in shown


@pytest.mark.parametrize(
    "typed",
    [
        *([command] for command in COMMANDS),
        *(["train", "--model.name", model] for model in MODELS),
        *(["train", "--model.name", "gcn", "--sparsifier.name", sparsifier] for sparsifier in SPARSIFIERS),
        *(["train", "bbbp", "--model.name", model] for model in MOLECULE_MODELS),
    ],
    ids=" ".join,
)
def test_help_is_for_people(typed: list[str]) -> None:
    """No Python types, no markup, no names of the parser's own, and a meaning for every option."""
    _, parser = main_module.parser_of(typed[0], typed[1:])
    for one in (parser, *subcommands(parser)):
        shown = one.format_help()
        assert not re.search(INTERNAL, shown)
        assert not re.search(WITHOUT_MEANING, shown, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--train.normalize=abc", "--train.normalize: must be auto, row, standard, asinh or none, not 'abc'"),
        ("--data.setting=abc", "--data.setting: must be transductive, inductive or cold-start, not 'abc'"),
        ("--train.threads=abc", "--train.threads: must be a whole number, not 'abc'"),
        ("--teachers.trees=abc", "--teachers.trees: must be true or false, not 'abc'"),
    ],
)
def test_a_wrong_value_is_explained_in_words(capsys, option: str, message: str) -> None:
    assert main(["train", "csbm", option]) == 2
    assert capsys.readouterr().err.replace("\n", " ") == f"error: {message}; see gssc train --help "


class Failing:
    """A command that raises; stands in for a module."""

    def __init__(self, error: BaseException):
        self.error = error

    def add_arguments(self, parser: object) -> None:
        pass

    def run(self, args: object) -> None:
        raise self.error


OUT_OF_MEMORY = "error: not enough memory\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (GsscError("first\n  second"), 2, "error: first second\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
        (OSError(28, "No space left on device", "big.npz"), 2, "error: big.npz: No space left on device\n"),
        (MemoryError(), 2, OUT_OF_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 2, OUT_OF_MEMORY),
        (RuntimeError("can't start new thread"), 2, OUT_OF_MEMORY),
        (ImportError("lib.so: failed to map segment from shared object"), 2, OUT_OF_MEMORY),
    ],
)
def test_what_the_user_can_fix_is_one_line(monkeypatch, capsys, error: BaseException, code: int, line: str) -> None:
    monkeypatch.setitem(main_module.COMMANDS, "fail", Command("fail", "fails"))
    monkeypatch.setattr(main_module, "import_module", lambda name: Failing(error))
    assert main(["fail"]) == code
    assert capsys.readouterr() == ("", line)


def test_advice_on_memory_fits_the_command(monkeypatch, capsys) -> None:
    monkeypatch.setattr(main_module, "import_module", lambda name: Failing(MemoryError()))
    told = {}
    for command in ("train", "data", "predict"):
        assert main([command]) == 2
        told[command] = capsys.readouterr().err
    assert "(--model.hidden)" in told["train"]
    assert "gssc data build" in told["data"]
    assert "hidden" not in told["data"] + told["predict"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space")
@pytest.mark.parametrize("command", [("train", "digits"), ("demo",)])
def test_a_limit_that_torch_does_not_fit_in_is_one_line(command: tuple[str, ...]) -> None:
    """Imports aborted the process with the first limit, left no room for a message with the second, or crashed."""
    for megabytes in (586, 684, 840):
        code = (
            f"import resource, sys; resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20,) * 2); "
            f"from gssc.cli.main import main; sys.exit(main({list(command)}))"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
        assert ended.stderr.startswith("error: not enough memory: torch and scikit-learn take about")


def test_a_message_needs_no_package(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown command 'nothing'")


def test_our_own_mistakes_keep_their_traceback(monkeypatch) -> None:
    monkeypatch.setitem(main_module.COMMANDS, "fail", Command("fail", "fails"))
    monkeypatch.setattr(main_module, "import_module", lambda name: Failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_a_reader_who_leaves_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "gssc", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_an_error_does_not_pass_control_characters_to_the_terminal(capsys) -> None:
    assert main(["predict", "\x1b[2Jrun", "x.csv", "--out", "p.csv"]) == 2
    shown = capsys.readouterr().err
    assert "\\x1b[2Jrun" in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_a_list_of_options_imports_no_large_library(command: str) -> None:
    # torch alone takes a second, scikit-learn half of one.
    code = (
        "import sys\nfrom gssc.cli.main import main\n"
        "try:\n    main([sys.argv[1], '--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit(', '.join({'torch', 'sklearn', 'scipy', 'pandas', 'matplotlib', 'fastapi'} & set(sys.modules)) or 0)"
    )
    found = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith(f"usage: gssc {command}")
