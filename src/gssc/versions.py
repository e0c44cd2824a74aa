"""The versions that a result was computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from gssc import __version__


def versions() -> dict[str, str]:
    """Return the versions of this package, Python, and the libraries that compute."""
    found = {"gssc": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scipy", "torch_geometric", "scikit-learn", "rdkit"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
