"""Optional dependencies: imported late, and an error names the extra to install where one is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gssc.errors import GsscError

# Packages that code imports at its top, by the extra that brings them. `require` names the extra itself.
EXTRAS = {
    "fastapi": "serve",
    "httptools": "serve",
    "joblib": "data",
    "matplotlib": "report",
    "networkx": "bench",
    "onnx": "export",
    "onnxruntime": "export",
    "prometheus_client": "serve",
    "pyarrow": "tables",
    "python_multipart": "serve",
    "sklearn": "data",
    "torch": "train",
    "torch_geometric": "bench",
    "uvicorn": "serve",
}


def missing_extra(error: ModuleNotFoundError) -> GsscError | None:
    """Return a one-line error that names the extra a missing package belongs to; None if it belongs to none.

    >>> print(missing_extra(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")))
    torch is not installed: pip install 'gssc[train]'
    """
    package = (error.name or "").partition(".")[0]
    return _not_installed(package, EXTRAS[package]) if package in EXTRAS else None


def _not_installed(package: str, extra: str) -> GsscError:
    return GsscError(f"{package} is not installed: pip install 'gssc[{extra}]'")


def require_all(*needed: tuple[str, str]) -> None:
    """Raise a :class:`GsscError` that names every missing package and its extra; nothing is imported.

    >>> require_all(("json", "tables"), ("no_such_module", "train"), ("nor_this", "tune"))
    Traceback (most recent call last):
    gssc.errors.GsscError: no_such_module and nor_this are not installed: pip install 'gssc[train,tune]'

    Args:
        needed: packages, each with the extra that installs it.
    """
    missing = [(package, extra) for package, extra in needed if find_spec(package) is None]
    if missing:
        packages, extras = zip(*missing, strict=True)
        named = " and ".join(filter(None, [", ".join(packages[:-1]), packages[-1]]))
        verb = "is" if len(packages) == 1 else "are"
        raise GsscError(f"{named} {verb} not installed: pip install 'gssc[{','.join(extras)}]'")


def require(module: str, extra: str) -> Any:
    """Import ``module``, or raise a :class:`GsscError` that names the extra it belongs to.

    >>> require("json", extra="tables").loads("[1]")
    [1]
    >>> require("no_such_module", extra="tables")
    Traceback (most recent call last):
    gssc.errors.GsscError: no_such_module is not installed: pip install 'gssc[tables]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # The user can fix a missing package, but not a broken import inside it.
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise
        raise _not_installed(top, extra) from None


def sklearn_seed(seed: int) -> int:
    """Return a seed in the range of scikit-learn, below 2**32; seeds in it are unchanged.

    >>> sklearn_seed(7), sklearn_seed(2**40 + 7)
    (7, 7)
    """
    return seed % 2**32


def deferred(module: str, extra: str) -> Any:
    """Return a stand-in for ``module`` that imports it, as :func:`require` does, when something of it is first used.

    >>> deferred("json", extra="tables").loads("[1]")
    [1]
    """
    return _Deferred(module, extra)


class _Deferred:
    def __init__(self, module: str, extra: str):
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        value = getattr(require(self._module, self._extra), name)
        setattr(self, name, value)  # found without this method from now on
        return value
