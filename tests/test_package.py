from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gssc
from gssc.errors import GsscError
from gssc.extras import require

DOCS = Path(__file__).parents[1] / "docs"


def imported_by(statement: str) -> set[str]:
    """Top-level packages in memory after a statement, in a fresh process."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_gssc_is_light() -> None:
    assert not imported_by("import gssc") & {"torch", "numpy", "scipy", "sklearn", "rich", "jsonargparse"}


@pytest.mark.parametrize(
    "statement",
    [
        "import gssc.deploy",
        "import gssc; gssc.DeployedModel",
        "import numpy as np, gssc; w = np.eye(2), np.ones(2); gssc.DeployedModel([w], ['a', 'b']).predict(np.eye(2))",
    ],
)
def test_deploy_needs_numpy_only(statement: str) -> None:
    heavy = {"torch", "torch_geometric", "sklearn", "scipy", "pyarrow", "pandas"}
    assert not imported_by(statement) & heavy


def test_a_graph_and_its_task_need_no_torch() -> None:
    graph = "gssc.Graph(np.eye(2), [[0], [1]], labels=[0, 1], train=[0, 1])"
    statement = f"import numpy as np, gssc; g = {graph}; g.homophily(); print(g, g.task.score(np.eye(2), g.labels))"
    assert "torch" not in imported_by(statement)


def test_help_imports_no_parser_library() -> None:
    statement = "import gssc.cli.main as m; m.main(['--help'])"
    assert not imported_by(statement) & {"torch", "numpy", "jsonargparse", "rich"}


def test_public_names_resolve() -> None:
    for name in gssc.__all__:
        assert getattr(gssc, name) is not None
        assert name in dir(gssc)


AUTODOC = re.compile(r"^\.\. auto(?:class|function|module|exception):: (\S+)\n(?:   :members: (.+)\n)?", re.MULTILINE)


def resolved(path: str) -> Any:
    """What a dotted path of the package names."""
    module, _, name = path.rpartition(".")
    try:
        return import_module(path)
    except ModuleNotFoundError:
        return getattr(import_module(module), name)


def documented() -> dict[str, list[str]]:
    """What the reference pages describe, each with the members that are named."""
    pages = [(DOCS / name).read_text(encoding="utf-8") for name in ("api.md", "estimator.md")]
    return {path: members.split(", ") if members else [] for page in pages for path, members in AUTODOC.findall(page)}


def test_the_reference_describes_what_there_is() -> None:
    for path, members in documented().items():
        found = resolved(path)
        named = {*getattr(found, "__annotations__", {}), *dir(found)}
        assert set(members) <= named, path


def test_every_public_name_is_in_the_reference() -> None:
    described = [resolved(path) for path in documented()]
    public = set(gssc.__all__) - {"__version__"}
    assert [name for name in public if not any(getattr(gssc, name) is one for one in described)] == []


def test_pages_take_from_the_top_only_what_is_public() -> None:
    for path in (DOCS.parent / "README.md", *DOCS.glob("*.md")):
        for names in re.findall(r"^from gssc import (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert {name.strip() for name in names.split(",")} <= set(gssc.__all__), path.name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Grph'"):
        _ = gssc.Grph


def test_every_command_has_the_two_functions() -> None:
    from gssc.cli.main import COMMANDS

    for name, command in COMMANDS.items():
        module = import_module(command.module)
        assert callable(module.add_arguments), name
        assert callable(module.run), name


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(GsscError, match=r"no_such_package is not installed: pip install 'gssc\[tables\]'"):
        require("no_such_package.inner", extra="tables")


def test_a_broken_import_inside_an_extra_is_not_hidden(tmp_path, monkeypatch) -> None:
    (tmp_path / "half_installed.py").write_text("import its_own_missing_part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_own_missing_part"):
        require("half_installed", extra="tables")
