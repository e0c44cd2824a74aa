"""A digest of the code a result depends on, so that a changed method is a new method and a changed comment is not."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import gssc

ROOT = Path(gssc.__file__).parent
# Rooms whose code decides what training computes; the command line, the store and the like do not.
DECISIVE = (
    *("gssc.models", "gssc.sparsify", "gssc.train", "gssc.features", "gssc.graph", "gssc.metrics", "gssc.tasks"),
    *("gssc.data.checks", "gssc.data.labels", "gssc.data.neighbours", "gssc.data.noise", "gssc.data.splits"),
)


def code_version(*modules: str) -> str:
    """A short digest of these modules and of all they import from :data:`DECISIVE`, without comments and annotations.

    >>> code_version("gssc.models.gcn") == code_version("gssc.models.gcn")
    True
    """
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(_imports(module))
    digest = hashlib.sha256()
    for module in sorted(found):
        digest.update(f"{module}\n{_meaning(module)}\n".encode())
    return digest.hexdigest()[:12]


def _path(module: str) -> Path:
    relative = Path(*module.split(".")[1:])
    package = ROOT / relative / "__init__.py"
    return package if package.exists() else (ROOT / relative).with_suffix(".py")


def _decides(module: str) -> bool:
    return module.startswith(DECISIVE) and not module.endswith(".registry") and _path(module).is_file()


@lru_cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _imports(module: str) -> Iterator[str]:
    # Registries name modules by string and import late, so that one of them does not tie every model to every other.
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                if _decides(name):
                    yield name


@lru_cache
def _meaning(module: str) -> str:
    """The code as a syntax tree, stripped of docstrings and annotations."""
    tree = ast.parse(ast.unparse(_tree(module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.dump(tree)
