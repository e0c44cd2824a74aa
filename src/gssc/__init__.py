"""GSSC: a graph goes in, a plain MLP comes out.

The public names are loaded on first use, so ``import gssc`` is quick and pulls in neither torch nor NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gssc.audit import audit_run
    from gssc.config import parse_config
    from gssc.data import import_tables, load_dataset
    from gssc.data.noise import add_noise
    from gssc.deploy import DeployedModel
    from gssc.errors import GsscError
    from gssc.estimator import GSSCClassifier
    from gssc.graph import Graph
    from gssc.learner.settings import Config
    from gssc.recipes import recipe
    from gssc.result import Result, fit
    from gssc.run import Run

__version__ = "0.1.0"

_HOME = {
    "Config": "gssc.learner.settings",
    "DeployedModel": "gssc.deploy",
    "GSSCClassifier": "gssc.estimator",
    "Graph": "gssc.graph",
    "GsscError": "gssc.errors",
    "Result": "gssc.result",
    "Run": "gssc.run",
    "add_noise": "gssc.data.noise",
    "audit_run": "gssc.audit",
    "fit": "gssc.result",
    "import_tables": "gssc.data",
    "load_dataset": "gssc.data",
    "parse_config": "gssc.config",
    "recipe": "gssc.recipes",
}

__all__ = [
    "Config",
    "DeployedModel",
    "GSSCClassifier",
    "Graph",
    "GsscError",
    "Result",
    "Run",
    "__version__",
    "add_noise",
    "audit_run",
    "fit",
    "import_tables",
    "load_dataset",
    "parse_config",
    "recipe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gssc' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        from gssc.extras import missing_extra

        named = missing_extra(error)
        if named is None:
            raise
        raise named from None
    globals()[name] = value  # the next access finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
