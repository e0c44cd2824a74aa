"""GSSC: a graph goes in, a plain MLP comes out.

The public names are loaded on first use, so ``import gssc`` is quick and pulls in neither torch nor NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gssc.deploy import DeployedModel
    from gssc.errors import GsscError

__version__ = "0.1.0"

_HOME = {
    "DeployedModel": "gssc.deploy",
    "GsscError": "gssc.errors",
}

__all__ = ["DeployedModel", "GsscError", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gssc' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next access finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
