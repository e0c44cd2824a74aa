"""Safe reading of old pickled data.

Two published datasets are Python pickles, a format that can run arbitrary code when read. This unpickler maps the
few names those files use to harmless objects; every other name is refused before anything is imported.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from gssc.data.arrays import read_npy_header
from gssc.errors import GsscError

try:
    from numpy._core.multiarray import _reconstruct
except ImportError:  # NumPy 1
    from numpy.core.multiarray import _reconstruct  # type: ignore[no-redef]


class _CsrState:
    """Replaces SciPy's class while unpickling: it only receives the attributes stored in the file."""

    def matrix(self) -> sp.csr_matrix:
        state = self.__dict__
        shape = state.get("_shape", state.get("shape"))
        return sp.csr_matrix((state["data"], state["indices"], state["indptr"]), shape=shape)


def _bytes_from_text(text: str, encoding: str) -> bytes:
    """Replace `_codecs.encode`, which protocol 2 uses to store a byte string."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it requests the codec {encoding!r}")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("scipy.sparse.csr", "csr_matrix"): _CsrState,
    ("scipy.sparse._csr", "csr_matrix"): _CsrState,
    ("collections", "defaultdict"): defaultdict,
    ("_codecs", "encode"): _bytes_from_text,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it requests {module}.{name}") from None


def _read(file: BinaryIO, what: str) -> Any:
    try:
        value = _Unpickler(file, encoding="latin1").load()
        return value.matrix() if isinstance(value, _CsrState) else value
    except pickle.UnpicklingError as error:
        raise GsscError(f"{what} is not plain data and was not read ({error}): fetch the published file") from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise GsscError(f"{what} cannot be read, it may be cut short ({error}): fetch it again") from None


def read_pickle(path: Path) -> Any:
    """Return the arrays, CSR matrix or dict of lists in a Planetoid file."""
    with path.open("rb") as file:
        return _read(file, str(path))


def read_object_array(file: BinaryIO, what: str) -> Any:
    """Return a NumPy object array stored as .npy, which NumPy itself reads only by unsafe unpickling."""
    try:
        dtype = read_npy_header(file)[2]
    except ValueError as error:
        raise GsscError(f"{what} is not an .npy file ({error}): fetch it again") from None
    if dtype.hasobject:
        return _read(file, what)
    raise GsscError(f"{what} holds no objects: read it with numpy.load")


def read_object_member(path: Path, key: str) -> Any:
    """Return one object array of an .npz archive."""
    with zipfile.ZipFile(path) as archive:
        return read_object_array(io.BytesIO(archive.read(f"{key}.npy")), f"{path} ({key})")
