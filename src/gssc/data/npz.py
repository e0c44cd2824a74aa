"""A graph as one .npz file.

Keys: `x`, or `x_data`, `x_indices`, `x_indptr` and `x_shape` for sparse features; `edge_index` [2, E]; `y`;
`train_mask`, `val_mask`, `test_mask`; optionally `edge_weight` [E], `node_id`, `class_names`, `feature_names`,
`name`, `split` and `setting`. Only plain arrays are read: a file that holds pickled objects is refused.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from gssc.data import graph_stream
from gssc.data.arrays import as_text, read_npy_header
from gssc.data.labels import clean_index, clean_labels, mask_of_numbers
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
    return Graph(**{**fields, **_name_lists(arrays, path), **changes})


def _name_lists(arrays: dict[str, np.ndarray], path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return those of class_names and feature_names that an .npz file has."""
    return {
        key: tuple(as_text(name, f"{path}: an entry of {key}") for name in arrays[key].ravel().tolist())
        for key in ("class_names", "feature_names")
        if key in arrays
    }


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
        raise GsscError(f"cannot write {path}: the name of a graph file must end in .npz")
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


class NpzStream:
    """A graph in an .npz file; features and edges are read from the archive in a stream."""

    def __init__(self, path: Path):
        self.path, self.name = path, path.stem
        require_file(path)
        if not zipfile.is_zipfile(path):
            raise GsscError(f"{path} cannot be read as .npz, it may be damaged or cut short: write or fetch it again")
        with _damage_told(path), zipfile.ZipFile(path) as archive:
            self.keys = {name.removesuffix(".npy") for name in archive.namelist()}
        if "edge_index" not in self.keys or not {"x", "x_data"} & self.keys:
            raise GsscError(f"{path} needs the keys 'x' and 'edge_index'; it has {', '.join(sorted(self.keys))}")
        self.weighted = "edge_weight" in self.keys
        self.sparse = self._sparse() if "x" not in self.keys else None
        shape = self.sparse.shape if self.sparse is not None else self._open("x")[1]
        if len(shape) != 2:
            raise GsscError(f"{path}: x has shape {shape}; it must be (nodes, features)")
        self.nodes, self.width = int(shape[0]), int(shape[1])

    def signature(self) -> dict[str, Any]:
        """Return name, size and modification time of the file."""
        return {"npz": graph_stream.file_signature(self.path)}

    def rows(self, start: int) -> Iterator[np.ndarray]:
        """Yield feature rows in the order of the file."""
        if self.sparse is not None:
            yield from graph_stream.dense_blocks(self.sparse, start)
            return
        file, shape, dtype = self._open("x")
        self._skip(file, start * self.width * dtype.itemsize)
        rows = graph_stream.rows_per_block(self.width)
        for first in range(start, shape[0], rows):
            count = min(rows, shape[0] - first)
            yield self._read(file, dtype, count * self.width).reshape(count, self.width)

    def facts(self) -> graph_stream.NodeFacts:
        """Return labels, masks and names, each read whole: they take a few bytes per node."""
        masks = {f"{part}_mask" for part in _PARTS}
        texts = {"class_names", "feature_names", "name", "split", "setting"}
        arrays = read_arrays(self.path, {"y", "node_id"} | masks | texts)
        lists = _name_lists(arrays, self.path)
        labels, names = clean_labels(arrays.get("y"), self.nodes, lists.get("class_names"))
        if names is None and labels.ndim == 1:
            names = tuple(map(str, range(int(labels.max(initial=-1)) + 1)))
        train, val, test = (
            clean_index(mask_of_numbers(arrays.get(f"{part}_mask"), self.nodes), self.nodes, part) for part in _PARTS
        )
        self.name = _text(arrays, self.path, "name", self.name)
        return graph_stream.NodeFacts(
            labels,
            names,
            train,
            val,
            test,
            split=_text(arrays, self.path, "split", "from file"),
            setting=_text(arrays, self.path, "setting", "transductive"),
            node_ids=arrays.get("node_id"),
            feature_names=lists.get("feature_names"),
        )

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[graph_stream.Edges]:
        """Yield edges, reading both rows of edge_index in parallel through two file handles."""
        (first, shape, dtype), (second, *_) = self._open("edge_index"), self._open("edge_index")
        if len(shape) != 2 or shape[0] != 2 or dtype.kind not in "iu":
            raise GsscError(f"{self.path}: edge_index is {dtype}{list(shape)}; it must hold whole numbers, (2, edges)")
        weights, weight_shape, weight_dtype = self._open("edge_weight") if self.weighted else (None, (), dtype)
        if weights is not None and (weight_shape not in (shape[1:], (shape[1], 1)) or weight_dtype.kind not in "fiub"):
            raise GsscError(
                f"{self.path}: edge_weight is {weight_dtype}{list(weight_shape)} for {shape[1]} edges; it must hold "
                "one number per edge"
            )
        self._skip(first, start * graph_stream.EDGES * dtype.itemsize)
        self._skip(second, (shape[1] + start * graph_stream.EDGES) * dtype.itemsize)
        if weights is not None:
            self._skip(weights, start * graph_stream.EDGES * weight_dtype.itemsize)
        for done in range(start * graph_stream.EDGES, shape[1], graph_stream.EDGES):
            count = min(graph_stream.EDGES, shape[1] - done)
            edges = np.stack([self._read(file, dtype, count) for file in (first, second)])
            yield edges, None if weights is None else self._read(weights, weight_dtype, count).ravel()

    def _open(self, key: str) -> tuple[IO[bytes], tuple[int, ...], np.dtype[Any]]:
        """Open an array of the archive; return the file positioned after the header, the shape and the dtype."""
        with _damage_told(self.path):
            file = zipfile.ZipFile(self.path).open(f"{key}.npy")  # noqa: SIM115 - read to its end by the caller
            shape, fortran, dtype = read_npy_header(file)
        if dtype.hasobject or (fortran and len(shape) > 1 and min(shape) > 1):
            raise GsscError(f"{self.path}: {key} must be a plain array in C order: save numpy.ascontiguousarray of it")
        return file, shape, dtype

    def _read(self, file: IO[bytes], dtype: np.dtype[Any], count: int) -> np.ndarray:
        with _damage_told(self.path):
            content = file.read(count * dtype.itemsize)
        if len(content) < count * dtype.itemsize:
            raise GsscError(f"{self.path} is cut short: write or fetch it again")
        return np.frombuffer(content, dtype=dtype)

    def _skip(self, file: IO[bytes], count: int) -> None:
        """Skip ``count`` bytes of a file."""
        with _damage_told(self.path):
            while count > 0 and (piece := file.read(min(count, 1 << 22))):
                count -= len(piece)

    def _sparse(self) -> sp.csr_matrix:
        return features_of(read_arrays(self.path, set(_SPARSE_KEYS)), self.path)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Raise errors of NumPy and zipfile about a damaged file as a GsscError that names it."""
    try:
        yield
    except _DAMAGED as error:
        raise GsscError(f"{path} is damaged ({error}): write or fetch it again") from None
