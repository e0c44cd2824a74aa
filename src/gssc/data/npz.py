"""A graph as one .npz file.

Keys: `x`, or `x_data`, `x_indices`, `x_indptr` and `x_shape` for sparse features; `edge_index` [2, E]; `y`;
`train_mask`, `val_mask`, `test_mask`; optionally `edge_weight` [E], `node_id`, `class_names`, `feature_names`,
`name`, `split` and `setting`. Only plain arrays are read: a file that holds pickled objects is refused.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.data.arrays import as_text
from gssc.data.labels import mask_of_numbers
from gssc.errors import GsscError
from gssc.files import atomic_write, require_file
from gssc.graph import Graph

_PARTS = ("train", "val", "test")
_SPARSE_KEYS = ("x_data", "x_indices", "x_indptr", "x_shape")
# Errors that NumPy and zipfile raise on damaged files; RuntimeError is an unknown compression or encryption.
_DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_arrays(path: str | PathLike[str], wanted: set[str] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, all or the wanted ones. Raises GsscError if the file cannot be read."""
    path = Path(path)
    if path.is_dir():
        raise GsscError(f"{path} is a folder: give the .npz file in it")
    require_file(path)
    if path.suffix.lower() in (".csv", ".tsv", ".parquet"):
        raise GsscError(f"{path} is a table, not a graph: build a graph from tables with gssc data import")
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise GsscError(f"{path} is a single array, not an .npz archive: save it with numpy.savez")
            with archive:
                return {key: archive[key] for key in archive.files if wanted is None or key in wanted}
    except _DAMAGED as error:
        if "allow_pickle" in str(error):
            raise GsscError(f"{path} holds pickled objects, which are never read: save plain arrays") from None
        raise GsscError(
            f"{path} cannot be read as .npz, it may be damaged or cut short: write or fetch it again"
        ) from error


def load_graph(path: str | PathLike[str], **changes: Any) -> Graph:
    """Return the graph in an .npz file; `changes` override any field of `Graph`."""
    arrays = read_arrays(path)
    if "edge_index" not in arrays:
        raise GsscError(f"{path} has no key 'edge_index' (it has {', '.join(sorted(arrays))}): add it, shape (2, E)")
    features = features_of(arrays, path)
    nodes = features.shape[0] if features.ndim else 0
    fields: dict[str, Any] = {
        "features": features,
        "edges": arrays["edge_index"],
        "edge_weight": arrays.get("edge_weight"),
        "labels": arrays.get("y"),
        **{part: mask_of_numbers(arrays.get(f"{part}_mask"), nodes) for part in _PARTS},
        "node_ids": arrays.get("node_id"),
        "name": _text(arrays, path, "name", Path(path).stem),
        "split": _text(arrays, path, "split", "from file"),
        "setting": _text(arrays, path, "setting", "transductive"),
    }
    for key in ("class_names", "feature_names"):
        if key in arrays:
            fields[key] = tuple(as_text(name, f"{path}: an entry of {key}") for name in arrays[key].ravel().tolist())
    return Graph(**{**fields, **changes})


def _text(arrays: dict[str, np.ndarray], path: str | PathLike[str], key: str, default: str) -> str:
    return as_text(arrays[key].tolist(), f"{path}: {key}") if key in arrays else default


def features_of(arrays: dict[str, np.ndarray], path: str | PathLike[str]) -> Any:
    """Return the features among the arrays of an .npz file, dense or CSR."""
    if "x" in arrays:
        return arrays["x"]
    missing = [key for key in _SPARSE_KEYS if key not in arrays]
    if missing:
        raise GsscError(
            f"{path} has no features: add 'x' (nodes x features), or all of {', '.join(_SPARSE_KEYS)} for sparse ones"
        )
    data, indices, indptr, shape = (arrays[key] for key in _SPARSE_KEYS)
    try:
        matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(int(size) for size in shape))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise GsscError(f"{path}: x_data, x_indices, x_indptr, x_shape are not a valid CSR matrix: {error}") from None
    return matrix


def save_graph(graph: Graph, path: str | PathLike[str]) -> None:
    """Write a graph to a compressed .npz file, atomically."""
    path = Path(path)
    if path.suffix != ".npz":
        raise GsscError(f"{path} must end in .npz: numpy adds that ending otherwise")
    arrays: dict[str, Any] = {
        "edge_index": graph.edges,
        "y": graph.labels,
        "name": np.asarray(graph.name),
        "split": np.asarray(graph.split),
        "setting": np.asarray(graph.setting),
    }
    features = graph.features
    if isinstance(features, np.ndarray):
        arrays["x"] = features
    else:
        parts = (features.data, features.indices, features.indptr, np.asarray(features.shape, dtype=np.int64))
        arrays.update(zip(_SPARSE_KEYS, parts, strict=True))
    for part in _PARTS:
        mask = np.zeros(graph.num_nodes, dtype=bool)
        mask[getattr(graph, part)] = True
        arrays[f"{part}_mask"] = mask
    if graph.edge_weight is not None:
        arrays["edge_weight"] = graph.edge_weight
    if graph.node_ids is not None:
        arrays["node_id"] = graph.node_ids
    for key in ("class_names", "feature_names"):
        if getattr(graph, key) is not None:
            arrays[key] = np.asarray(getattr(graph, key), dtype=str)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
