"""Sources of `gssc data build`, read in blocks: the csbm generator, .npz files, graphs in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import scipy.sparse as sp

from gssc.data.labels import clean_index, clean_labels, mask_of_numbers
from gssc.data.npz import read_arrays
from gssc.data.splits import generator
from gssc.data.synthetic import check_csbm, whole
from gssc.errors import GsscError
from gssc.graph import Graph

ROWS = 16_384  # feature rows per block
EDGES = 1 << 20  # listed edges per block


@dataclass
class NodeFacts:
    """Everything about the nodes except their features.

    Args:
        labels: in the form of :class:`~gssc.graph.Graph`.
        class_names, feature_names: None if there are none.
        train, val, test: sorted node numbers.
        split, setting: names.
        node_ids: [N]; None if nodes are identified by number.
    """

    labels: np.ndarray
    class_names: tuple[str, ...] | None
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    split: str
    setting: str = "transductive"
    node_ids: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None


Edges = tuple[np.ndarray, np.ndarray | None]  # listed edges [2, n] and their weights


class Source(Protocol):
    """Source of a graph on disk. Blocks come in the same order every time, so that a build can be resumed.

    Attributes:
        name: name of the graph.
        width: number of features.
        weighted: whether edges have weights.
    """

    name: str
    width: int
    weighted: bool

    def signature(self) -> dict[str, Any]:
        """Return what identifies the source: a build is resumed only if this is unchanged."""

    def rows(self, start: int) -> Iterator[np.ndarray]:
        """Yield blocks of feature rows from row ``start`` on."""

    def facts(self) -> NodeFacts:
        """Return labels, split and names of the nodes; called after :meth:`rows` is exhausted."""

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[Edges]:
        """Yield blocks of listed edges from block ``start`` on; ``node_ids`` are those of :meth:`facts`."""


class CsbmSource:
    """A contextual stochastic block model, drawn block by block; see :func:`gssc.data.synthetic.csbm`.

    Node i has class ``i % classes``. Repeated draws of an edge are dropped, so the graph has slightly fewer than
    ``num_edges`` edges. Every block has its own random generator, so that it can be drawn without the others.

    Args:
        nodes, classes, signal, homophily, features: see :func:`gssc.data.synthetic.csbm`.
        num_edges: number of edges drawn.
        per_class: training labels per class.
        val, test: number of validation and test nodes.
        seed: of everything drawn.
    """

    name, weighted = "csbm", False

    def __init__(
        self,
        nodes: int = 100_000,
        num_edges: int | None = None,
        classes: int = 5,
        signal: float = 1.0,
        homophily: float = 0.8,
        features: int = 32,
        per_class: int = 20,
        val: int = 1000,
        test: int = 5000,
        seed: int = 0,
    ):
        self.nodes, self.width, self.classes = whole("nodes", nodes), whole("features", features), whole("c", classes)
        self.num_edges = 5 * self.nodes if num_edges is None else whole("edges", num_edges)
        check_csbm(self.nodes, 2 * self.num_edges / max(1, self.nodes), classes, signal, homophily, self.width)
        self.signal, self.homophily, self.per_class, self.seed = signal, homophily, per_class, seed
        self.val, self.test = val, test
        if per_class * classes + val + test > self.nodes:
            raise GsscError(
                f"{per_class} training labels per class, {val} validation and {test} test nodes were requested, but "
                f"there are only {self.nodes} nodes: ask for fewer"
            )
        generator(seed)  # raises on an invalid seed

    def signature(self) -> dict[str, Any]:
        """Return all settings."""
        return {"csbm": dict(vars(self))}

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose])

    def rows(self, start: int) -> Iterator[np.ndarray]:
        """Yield class means plus noise of standard deviation one."""
        means = self._rng(0).standard_normal((self.classes, self.width), dtype=np.float32)
        means *= self.signal / np.linalg.norm(means, axis=1, keepdims=True)
        for first in range(start - start % ROWS, self.nodes, ROWS):
            count = min(ROWS, self.nodes - first)
            block = self._rng(1, first // ROWS).standard_normal((count, self.width), dtype=np.float32)
            block += means[np.arange(first, first + count) % self.classes]
            yield block[max(0, start - first) :]

    def facts(self) -> NodeFacts:
        """Return the labels and a split with equally many training nodes per class."""
        rng = self._rng(2)
        sizes = [len(range(c, self.nodes, self.classes)) for c in range(self.classes)]
        train = np.concatenate(
            [c + self.classes * rng.choice(size, min(size, self.per_class), replace=False)
             for c, size in enumerate(sizes)]
        )  # fmt: skip
        drawn = rng.choice(self.nodes, min(self.nodes, len(train) + self.val + self.test), replace=False)
        others = drawn[~np.isin(drawn, train)]
        return NodeFacts(
            labels=np.arange(self.nodes) % self.classes,
            class_names=tuple(map(str, range(self.classes))),
            train=np.sort(train),
            val=np.sort(others[: self.val]),
            test=np.sort(others[self.val : self.val + self.test]),
            split=f"{self.per_class}-per-class seed={self.seed}",
        )

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[Edges]:
        """Yield edges: one end uniform, the other of its class with probability ``homophily``, else of another."""
        for number in range(start, -(-self.num_edges // EDGES)):
            rng = self._rng(3, number)
            count = min(EDGES, self.num_edges - number * EDGES)
            source = rng.integers(self.nodes, size=count)
            shift = rng.integers(1, max(2, self.classes), size=count)
            wanted = np.where(rng.random(count) < self.homophily, source, source + shift) % self.classes
            size = (self.nodes - wanted + self.classes - 1) // self.classes
            target = wanted + self.classes * (rng.random(count) * size).astype(np.int64)
            yield np.sort(np.stack([source, target]), axis=0), None  # so that none counts as one-way


class GraphSource:
    """A graph in memory, such as a published data set."""

    def __init__(self, graph: Graph):
        self.graph, self.name, self.width = graph, graph.name, graph.num_features
        self.weighted = graph.edge_weight is not None

    def signature(self) -> dict[str, Any]:
        """Return name, split and sizes."""
        graph = self.graph
        return {"graph": [graph.name, graph.split, graph.setting, graph.num_nodes, graph.num_edges, self.width]}

    def rows(self, start: int) -> Iterator[np.ndarray]:
        """Yield dense feature rows."""
        yield from dense_blocks(self.graph.features, start)

    def facts(self) -> NodeFacts:
        """Return labels, split and names of the graph."""
        names = ("labels", "train", "val", "test", "split", "setting", "node_ids", "feature_names")
        classes = self.graph.output_names if self.graph.task.has_classes else ()
        return NodeFacts(**{name: getattr(self.graph, name) for name in names}, class_names=classes or None)

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[Edges]:
        """Yield the edges of the graph."""
        weight = self.graph.edge_weight
        for first in range(start * EDGES, self.graph.num_edges, EDGES):
            chosen = slice(first, first + EDGES)
            yield self.graph.edges[:, chosen], None if weight is None else weight[chosen]


class NpzSource:
    """A graph in an .npz file (:mod:`gssc.data.npz`); features and edges are read from the archive in a stream."""

    def __init__(self, path: Path):
        self.path, self.name = path, path.stem
        if not zipfile.is_zipfile(path):
            raise GsscError(f"{path} cannot be read as .npz, it may be damaged or cut short: write or fetch it again")
        with zipfile.ZipFile(path) as archive:
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
        return {"npz": file_signature(self.path)}

    def rows(self, start: int) -> Iterator[np.ndarray]:
        """Yield feature rows in the order of the file."""
        if self.sparse is not None:
            yield from dense_blocks(self.sparse, start)
            return
        file, shape, dtype = self._open("x")
        skip(file, start * self.width * dtype.itemsize)
        for first in range(start, shape[0], ROWS):
            count = min(ROWS, shape[0] - first)
            yield self._read(file, dtype, count * self.width).reshape(count, self.width)

    def facts(self) -> NodeFacts:
        """Return labels, masks and names, each read whole: they take a few bytes per node."""
        wanted = {"y", "train_mask", "val_mask", "test_mask", "node_id", "class_names", "feature_names"}
        arrays = read_arrays(self.path, wanted | {"name", "split", "setting"})
        texts = {key: tuple(map(str, arrays[key].ravel().tolist())) for key in ("class_names", "feature_names")
                 if key in arrays}  # fmt: skip
        labels, names = clean_labels(arrays.get("y"), self.nodes, texts.get("class_names"))
        if names is None and labels.ndim == 1:
            names = tuple(map(str, range(int(labels.max(initial=-1)) + 1)))
        train, val, test = (
            clean_index(mask_of_numbers(arrays.get(f"{part}_mask"), self.nodes), self.nodes, part)
            for part in ("train", "val", "test")
        )
        self.name = str(arrays["name"]) if "name" in arrays else self.name
        return NodeFacts(
            labels,
            names,
            train,
            val,
            test,
            split=str(arrays.get("split", "from file")),
            setting=str(arrays.get("setting", "transductive")),
            node_ids=arrays.get("node_id"),
            feature_names=texts.get("feature_names"),
        )

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[Edges]:
        """Yield edges, reading both rows of edge_index in parallel through two file handles."""
        (first, shape, dtype), (second, *_) = self._open("edge_index"), self._open("edge_index")
        if len(shape) != 2 or shape[0] != 2 or dtype.kind not in "iu":
            raise GsscError(f"{self.path}: edge_index is {dtype}{list(shape)}; it must hold whole numbers, (2, edges)")
        weights, _, weight_dtype = self._open("edge_weight") if self.weighted else (None, None, dtype)
        skip(first, start * EDGES * dtype.itemsize)
        skip(second, (shape[1] + start * EDGES) * dtype.itemsize)
        if weights is not None:
            skip(weights, start * EDGES * weight_dtype.itemsize)
        for done in range(start * EDGES, shape[1], EDGES):
            count = min(EDGES, shape[1] - done)
            edges = np.stack([self._read(file, dtype, count) for file in (first, second)])
            yield edges, None if weights is None else self._read(weights, weight_dtype, count).ravel()

    def _open(self, key: str) -> tuple[IO[bytes], tuple[int, ...], np.dtype[Any]]:
        """Open an array of the archive; return the file positioned after the header, the shape and the dtype."""
        file = zipfile.ZipFile(self.path).open(f"{key}.npy")  # noqa: SIM115 - read to its end by the caller
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
        except ValueError as error:
            raise GsscError(f"{self.path}: {key} cannot be read ({error}): write the file again") from None
        if dtype.hasobject or (fortran and len(shape) > 1 and min(shape) > 1):
            raise GsscError(f"{self.path}: {key} must be a plain array in C order: save numpy.ascontiguousarray of it")
        return file, shape, dtype

    def _read(self, file: IO[bytes], dtype: np.dtype[Any], count: int) -> np.ndarray:
        try:
            content = file.read(count * dtype.itemsize)
        except (OSError, EOFError, zipfile.BadZipFile) as error:
            raise GsscError(f"{self.path} is damaged ({error}): write or fetch it again") from None
        if len(content) < count * dtype.itemsize:
            raise GsscError(f"{self.path} is cut short: write or fetch it again")
        return np.frombuffer(content, dtype=dtype)

    def _sparse(self) -> sp.csr_matrix:
        from gssc.data.npz import features_of

        return features_of(read_arrays(self.path, {"x_data", "x_indices", "x_indptr", "x_shape"}), self.path)


def dense_blocks(features: Any, start: int) -> Iterator[np.ndarray]:
    """Yield dense blocks of a dense or CSR matrix from row ``start`` on."""
    for first in range(start, features.shape[0], ROWS):
        block = features[first : first + ROWS]
        yield block.toarray() if sp.issparse(block) else np.asarray(block)


def file_signature(path: Path) -> list[Any]:
    """Return full path, size and modification time of a file."""
    found = path.stat()
    return [str(path.absolute()), found.st_size, found.st_mtime_ns]


def skip(file: IO[bytes], count: int) -> None:
    """Skip ``count`` bytes of a file."""
    while count > 0:
        read = len(file.read(min(count, 1 << 22)))
        if not read:
            return
        count -= read
