"""A digest of the code a result depends on: a changed method gives a new digest, a changed comment does not."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import gssc

ROOT = Path(gssc.__file__).parent
PACKAGE = "gssc"


def code_version(*modules: str) -> str:
    """Return a short digest of these modules and of every module of the package they import, directly or not.

    Comments, docstrings and annotations do not count. A module called ``registry`` is not followed: it lists every
    model (sparsifier, dataset) by name, and the one in use is already among ``modules``.

    >>> code_version("gssc.models.gcn") == code_version("gssc.models.gcn")
    True
    """
    digest = hashlib.sha256()
    for module in sorted(imported_from(*modules)):
        digest.update(f"{module} {_meaning(_path(module))}\n".encode())
    return digest.hexdigest()[:12]


def imported_from(*modules: str) -> set[str]:
    """Return these modules and all that they import from the package, wherever that leads."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(_imports(module))
    return found


def _path(module: str) -> Path:
    relative = Path(*module.split(".")[1:])
    package = ROOT / relative / "__init__.py"
    return package if package.exists() else (ROOT / relative).with_suffix(".py")


def _is_module(name: str) -> bool:
    return name.split(".")[0] == PACKAGE and _path(name).is_file()


def _imports(module: str) -> Iterator[str]:
    """Yield the modules of the package that one module imports, at its top or inside a function."""
    for source, name in _statements(module, _path(module)).at_run_time:
        for imported in (source, f"{source}.{name}", _lazy_home(source, name)):
            if imported and _is_module(imported) and not imported.endswith(".registry"):
                yield imported


def _lazy_home(package: str, name: str) -> str | None:
    """Return the module that a package loads ``name`` from on first use; its import for the type checker names it."""
    if not _is_module(package):
        return None
    for_types = _statements(package, _path(package)).for_types
    return next((source for source, each in for_types if each == name), None)


class _Statements(NamedTuple):
    """``(module, name)`` of every import statement of a module, and of those for the type checker alone."""

    at_run_time: list[tuple[str, str]]
    for_types: list[tuple[str, str]]


@cache
def _statements(module: str, path: Path) -> _Statements:
    nodes = list(ast.walk(_tree(path)))
    blocks = [node for node in nodes if isinstance(node, ast.If) and _is_type_checking(node.test)]
    typing_only = {inner for block in blocks for child in block.body for inner in ast.walk(child)}
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = _Statements([], [])
    for node in nodes:
        into = found.for_types if node in typing_only else found.at_run_time
        if isinstance(node, ast.Import):
            into.extend((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            into.extend((source, alias.name) for alias in node.names)
    return found


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _meaning(path: Path) -> str:
    """Return a digest of the code as a syntax tree, stripped of docstrings and annotations."""
    tree = _tree(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
