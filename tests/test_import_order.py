"""Imports run in one direction: a part of the package imports only parts before it, also inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import gssc

ROOT = Path(gssc.__file__).parent
# From left to right; rooms of one line stand side by side. Those of `graph` and `data` make one: a graph checks itself
# with functions of data/, and data/ makes graphs.
ORDER = (
    {"errors", "__version__"},
    {"extras", "names"},
    {"files", "text_tables", "versions", "metrics", "calibration", "signals", "progress_bar"},
    {"settings"},
    {"deploy", "tasks"},
    {"graph", "data"},
    {"features", "schedule"},
    {"config"},
    {"recipes", "run_folder", "run_graph"},
    {"trust"},
    {"sparsify", "models"},
    {"train"},
    {"learner"},
    {"result", "tracking", "progress"},
    {"run", "molecules", "model_selection", "estimator_parameters"},
    {"estimator"},
    {"evaluate", "audit"},
    {"report", "serve", "scoring"},
    {"cli"},
    {"__main__"},
)
TOGETHER = ({"graph", "data"},)
# Who finds models, sparsifiers and trainings by name does so through these, when a name is asked for.
REGISTRIES = {"gssc.models.registry", "gssc.sparsify.registry", "gssc.train.registry"}


def place(room: str) -> int:
    found = [number for number, rooms in enumerate(ORDER) if room in rooms]
    assert found, f"{room} has no place in the order of imports: give it one in {Path(__file__).name}"
    return found[0]


def room_of(module: str) -> str:
    return module.split(".")[1]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules of gssc that a file imports, and whether it does so inside a function; not for type checking."""
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), False)]
    while waiting:
        node, late = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "gssc":
            if node.module == "gssc":
                yield from ((f"gssc.{alias.name}", late) for alias in node.names)
            else:
                yield node.module, late
        if isinstance(node, ast.Import):
            yield from ((alias.name, late) for alias in node.names if alias.name.startswith("gssc."))
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        waiting.extend((child, late) for child in ast.iter_child_nodes(node))


def wrong(room: str, module: str, late: bool) -> bool:
    other = room_of(module)
    if other == room or any({room, other} <= pair for pair in TOGETHER) or (late and module in REGISTRIES):
        return False
    return place(other) >= place(room)


def rooms() -> set[str]:
    """The modules and packages directly in gssc."""
    return {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")} - {"__init__"}


def test_every_room_has_its_place_once() -> None:
    placed = [room for rooms in ORDER for room in rooms]
    assert sorted(placed) == sorted(rooms() | {"__version__"})


def test_every_import_goes_to_the_left() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room == "__init__":  # the public names, loaded late
            continue
        found += [f"{path.relative_to(ROOT)}: {module}" for module, late in imports(path) if wrong(room, module, late)]
    assert found == []


def test_the_test_notices() -> None:
    assert wrong("train", "gssc.run", late=False)
    assert wrong("train", "gssc.run", late=True)
    assert wrong("deploy", "gssc.features", late=False)
    assert wrong("config", "gssc.models.registry", late=False)
    assert not wrong("config", "gssc.models.registry", late=True)
    assert not wrong("run", "gssc.train.bilevel", late=False)


def test_every_way_to_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "import gssc.run\nfrom gssc import graph\ndef f():\n    from gssc.train.stream import x\n"
    )
    assert sorted(imports(tmp_path / "odd.py")) == [
        ("gssc.graph", False),
        ("gssc.run", False),
        ("gssc.train.stream", True),
    ]
