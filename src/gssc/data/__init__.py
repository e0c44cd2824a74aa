"""Sources of graphs: published datasets, generators, and your own tables.

Names are imported on first use, so that `gssc.graph` can share the checks of this package without loading every
dataset family.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gssc.data.registry import DATASETS as DATASETS
    from gssc.data.registry import load_dataset as load_dataset
    from gssc.data.synthetic import csbm as csbm
    from gssc.data.synthetic import digits as digits
    from gssc.data.tables import import_tables as import_tables

_HOME = {
    "DATASETS": "gssc.data.registry",
    "csbm": "gssc.data.synthetic",
    "digits": "gssc.data.synthetic",
    "import_tables": "gssc.data.tables",
    "load_dataset": "gssc.data.registry",
}

__all__ = ["DATASETS", "csbm", "digits", "import_tables", "load_dataset"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
