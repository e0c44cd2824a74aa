from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from gssc.cli.completion import SHELLS, candidates
from gssc.cli.main import COMMANDS, main
from gssc.report import run_plots
from gssc.report.style import Style


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell, make in SHELLS.items():
        (folder / shell).write_text(make(candidates()), encoding="utf-8")
    return folder


def shell(name: str, *arguments: str | Path) -> str:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    found = subprocess.run([name, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    return found.stdout


def bash(scripts: Path, *typed: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in typed)
    code = f"source {scripts / 'bash'}; COMP_WORDS=({quoted}); COMP_CWORD={len(typed) - 1}; _gssc; "
    return shell("bash", "-c", code + 'printf "%s\\n" "${COMPREPLY[@]}"').split()


def test_bash_completes_commands_options_and_names(scripts: Path) -> None:
    assert bash(scripts, "gssc", "pr") == ["predict"]
    assert bash(scripts, "gssc", "audit", "runs", "--re") == ["--review"]
    assert bash(scripts, "gssc", "train", "--model.hid") == ["--model.hidden"]
    assert bash(scripts, "gssc", "data", "imp") == ["import"]
    assert bash(scripts, "gssc", "train", "citeseer") == ["citeseer"]
    assert bash(scripts, "gssc", "tune", "cora") == ["cora"]
    assert bash(scripts, "gssc", "tune", "tox") == []  # molecules are not tuned
    assert bash(scripts, "gssc", "data", "info", "citese") == ["citeseer"]
    assert bash(scripts, "gssc", "export", "x", "--format", "o") == ["onnx"]
    assert bash(scripts, "gssc", "plot", "x", "--style", "") == ["light", "dark"]
    assert bash(scripts, "gssc", "plot", "x", str(scripts / "ba")) == [str(scripts / "bash")]


# Types the arguments into an interactive zsh with the script in its fpath, each followed by a tab, and prints each line
# as completed.
ZSH_TYPES = r"""
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word"
zpty -w shell 'show() { print -r -- "[${BUFFER}]"; BUFFER=; zle accept-line }; zle -N show; bindkey "^O" show'
zpty -w shell 'print -r -- read''y'
zpty -r shell seen '*ready*'
for line in "${@:2}"; do
    zpty -w -n shell "$line"$'\t\x0f'
    zpty -r shell seen $'*\\[gssc *\\]\r\n*'
    print -r -- ${${seen##*\[gssc }%%\]*}
done
"""


def test_zsh_completes(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "_gssc").write_text((scripts / "zsh").read_text(encoding="utf-8"), encoding="utf-8")
    typed = ("gssc pr", "gssc audit runs --rev", "gssc train --model.hid", "gssc data imp", "gssc train citese")
    typed += ("gssc data info citese", "gssc plot x --style d")
    found = shell("zsh", "-f", "-c", ZSH_TYPES, "zsh", tmp_path, *typed)
    expected = ["predict", "audit runs --review", "train --model.hidden", "data import", "train citeseer"]
    expected += ["data info citeseer", "plot x --style dark"]
    assert [line.strip() for line in found.splitlines()] == expected


def test_fish_completes(scripts: Path) -> None:
    def completed(typed: str) -> list[str]:
        return shell("fish", "-c", f"source {scripts / 'fish'}; complete -C '{typed}'").split()

    assert completed("gssc audit --rev") == ["--review"]
    assert completed("gssc data imp") == ["import"]
    assert completed("gssc data info citese") == ["citeseer"]
    assert completed("gssc plot x --style ") == ["dark", "light"]


def test_values_are_those_that_the_commands_accept() -> None:
    values = candidates().values
    assert values["train --teachers.pairs"] == ["auto", "always", "never"]
    assert values["plot --format"] == list(run_plots.FORMATS)
    assert values["plot --style"] == list(get_args(Style))
    assert "bench --sparsifier" not in values, "a file"
    assert "predict --decimal" not in values, "a mark"


def test_every_command_is_known_to_every_shell(scripts: Path) -> None:
    for name in SHELLS:
        text = (scripts / name).read_text(encoding="utf-8")
        assert [command for command in COMMANDS if not re.search(rf"\b{command}\b", text)] == []


def test_the_command(capsys) -> None:
    assert main(["completion", "bash"]) == 0
    assert "complete -o filenames -F _gssc gssc" in capsys.readouterr().out
    assert main(["completion", "bsh"]) == 2
    assert "did you mean 'bash'?" in capsys.readouterr().err
