"""Generated graphs: handwritten digits with a nearest-neighbour graph, and the contextual stochastic block model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gssc.data import graph_stream
from gssc.data.entry import SEEDED_SPLITS, Dataset, FilePaths, RawGraph
from gssc.data.neighbours import nearest_neighbour_edges
from gssc.data.splits import generator, n_per_class
from gssc.errors import GsscError
from gssc.extras import require
from gssc.graph import Graph


def digits(k: int = 8, per_class: int = 5, seed: int = 0) -> Graph:
    """Return scikit-learn's 1,797 handwritten digits joined to their `k` nearest neighbours.

    Features are the 64 pixels divided by 16. The split has `per_class` training and 30 validation nodes per class; the
    rest are test nodes. The seed draws the split; images and edges are always the same.
    """
    return _graph("digits", make_digits({}, seed, k=k, per_class=per_class), seed)


def csbm(
    nodes: int = 1000,
    degree: float = 10.0,
    classes: int = 5,
    signal: float = 1.0,
    homophily: float = 0.8,
    features: int = 32,
    seed: int = 0,
    per_class: int = 20,
) -> Graph:
    """Return a graph drawn from a contextual stochastic block model.

    Args:
        nodes: number of nodes; classes are as equal in size as possible.
        degree: mean degree; the graph has round(nodes * degree / 2) different edges.
        classes: number of blocks, each a class.
        signal: length of the mean feature vector of a class; the noise has standard deviation 1 per feature.
        homophily: probability that an edge joins two nodes of one class.
        features: number of features.
        seed: seed of everything drawn, the split included.
        per_class: training labels per class.
    """
    raw = make_csbm(
        {},
        seed,
        nodes=nodes,
        degree=degree,
        classes=classes,
        signal=signal,
        homophily=homophily,
        features=features,
        per_class=per_class,
    )
    return _graph("csbm", raw, seed)


def _graph(name: str, raw: RawGraph, seed: int) -> Graph:
    ((split, (train, val, test)),) = raw.splits.items()
    return Graph(
        raw.features, raw.edges, raw.labels, train, val, test, name=name, split=f"{split} seed={seed}",
        class_names=raw.class_names,
    )  # fmt: skip


def make_digits(files: FilePaths, seed: int = 0, *, k: int = 8, per_class: int = 5) -> RawGraph:
    """Return the data of `digits`; the loader of the registry."""
    k, per_class = whole("k", k), whole("per_class", per_class)
    images, labels = require("sklearn.datasets", extra="data").load_digits(return_X_y=True)
    if not 1 <= k < len(images):
        raise GsscError(f"digits takes k from 1 to {len(images) - 1}, not {k}")
    features = (images / 16).astype(np.float32)
    split = n_per_class(labels, per_class, generator(seed), val_per_class=30)
    names = tuple(str(digit) for digit in range(10))
    return RawGraph(
        features, nearest_neighbour_edges(features, k), labels, {f"{per_class}-per-class": split}, class_names=names
    )


def make_csbm(
    files: FilePaths,
    seed: int = 0,
    *,
    nodes: int = 1000,
    degree: float = 10.0,
    classes: int = 5,
    signal: float = 1.0,
    homophily: float = 0.8,
    features: int = 32,
    per_class: int = 20,
) -> RawGraph:
    """Return the data of `csbm`; the loader of the registry."""
    nodes, classes = whole("nodes", nodes), whole("classes", classes)
    features, per_class = whole("features", features), whole("per_class", per_class)
    check_csbm(nodes, degree, classes, signal, homophily, features)
    rng = generator(seed)
    labels = rng.permutation(np.arange(nodes) % classes)
    edges = _block_model_edges(labels, classes, max(1, round(nodes * degree / 2)), homophily, rng)
    means = rng.standard_normal((classes, features), dtype=np.float32)
    means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
    rows = rng.standard_normal((nodes, features), dtype=np.float32)
    rows += means[labels]
    split = n_per_class(labels, per_class, rng)
    return RawGraph(rows, edges, labels, {f"{per_class}-per-class": split})


def whole(name: str, value: Any) -> int:
    """Return a count as an int. Raises GsscError for 2.5 or "many"; 1e5 from a settings file is accepted."""
    try:
        if isinstance(value, bool) or int(value) != float(value):
            raise ValueError
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise GsscError(f"{name} must be a whole number, not {value!r}") from None


def check_csbm(nodes: int, degree: float, classes: int, signal: float, homophily: float, features: int) -> None:
    """Raise GsscError if the options of a csbm graph are invalid."""
    for name, value in (("degree", degree), ("signal", signal), ("homophily", homophily)):
        if not isinstance(value, int | float):
            raise GsscError(f"csbm's {name} must be a number, not {value!r}")
    if classes < 1 or nodes < max(2, 2 * classes) or features < 1:
        raise GsscError(
            f"csbm needs at least one class, one feature and two nodes per class, "
            f"not {classes} classes, {features} features, {nodes} nodes"
        )
    if not 0 <= homophily <= 1 or (classes == 1 and homophily < 1):
        raise GsscError(f"csbm's homophily must be from 0 to 1 (1 with a single class), not {homophily}")
    if not np.isfinite(signal):
        raise GsscError(f"csbm's signal must be a finite number, not {signal}")
    # With more edges, drawing and dropping repeats below would find new edges ever more slowly.
    room = (nodes // classes - 1) / 2 if homophily > 0 else (nodes - nodes // classes - 1) / 2
    if not 0 < degree <= room:
        raise GsscError(f"csbm's degree must be above 0 and, for this size, at most {room:g}, not {degree}")


def _block_model_edges(
    labels: np.ndarray, classes: int, wanted: int, homophily: float, rng: np.random.Generator
) -> np.ndarray:
    """Return `wanted` different random edges: one end uniform, the other of its class with probability `homophily`."""
    nodes = len(labels)
    by_class = np.argsort(labels, kind="stable")  # the nodes of class c are by_class[start[c]:start[c] + size[c]]
    size = np.bincount(labels, minlength=classes)
    start = np.cumsum(size) - size
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < wanted:
        draw = int(1.1 * (wanted - len(keys))) + 16
        source = rng.integers(nodes, size=draw)
        own = labels[source]
        same = rng.random(draw) < homophily
        # A class is a contiguous part of by_class, and so is everything outside it if by_class is read in a circle.
        offset = np.where(same, 0, size[own])
        span = np.where(same, size[own], nodes - size[own])
        place = (start[own] + offset + (rng.random(draw) * span).astype(np.int64)) % nodes
        target = by_class[place]
        fresh = np.minimum(source, target) * nodes + np.maximum(source, target)
        keys = np.concatenate([keys, fresh[source != target]])
        first = np.unique(keys, return_index=True)[1]
        keys = keys[np.sort(first)]  # in the order drawn, so that truncation favours no node
    return np.stack(np.divmod(np.sort(keys[:wanted]), nodes))


class CsbmStream:
    """A contextual stochastic block model, drawn block by block; see :func:`csbm`.

    Node i has class ``i % classes``. Repeated draws of an edge are dropped, so the graph has slightly fewer than
    ``num_edges`` edges. Every block has its own random generator, so that it can be drawn without the others.

    Args:
        nodes, classes, signal, homophily, features: see :func:`csbm`.
        num_edges: number of edges drawn.
        per_class: training labels per class.
        val, test: number of validation and test nodes.
        seed: seed of everything drawn.
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
        self.nodes, self.width = whole("nodes", nodes), whole("features", features)
        self.classes = whole("classes", classes)
        self.num_edges = 5 * self.nodes if num_edges is None else whole("edges", num_edges)
        check_csbm(self.nodes, 2 * self.num_edges / max(1, self.nodes), self.classes, signal, homophily, self.width)
        self.signal, self.homophily, self.per_class, self.seed = signal, homophily, per_class, seed
        self.val, self.test = val, test
        if per_class * classes + val + test > self.nodes:
            raise GsscError(
                f"{per_class} training labels per class, {val} validation and {test} test nodes were requested, but "
                f"there are only {self.nodes} nodes: choose fewer"
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
        for first in range(start - start % graph_stream.ROWS, self.nodes, graph_stream.ROWS):
            count = min(graph_stream.ROWS, self.nodes - first)
            block = self._rng(1, first // graph_stream.ROWS).standard_normal((count, self.width), dtype=np.float32)
            block += means[np.arange(first, first + count) % self.classes]
            yield block[max(0, start - first) :]

    def facts(self) -> graph_stream.NodeFacts:
        """Return the labels and a split with equally many training nodes per class."""
        rng = self._rng(2)
        sizes = [len(range(c, self.nodes, self.classes)) for c in range(self.classes)]
        train = np.concatenate(
            [c + self.classes * rng.choice(size, min(size, self.per_class), replace=False)
             for c, size in enumerate(sizes)]
        )  # fmt: skip
        drawn = rng.choice(self.nodes, min(self.nodes, len(train) + self.val + self.test), replace=False)
        others = drawn[~np.isin(drawn, train)]
        return graph_stream.NodeFacts(
            labels=np.arange(self.nodes) % self.classes,
            class_names=tuple(map(str, range(self.classes))),
            train=np.sort(train),
            val=np.sort(others[: self.val]),
            test=np.sort(others[self.val : self.val + self.test]),
            split=f"{self.per_class}-per-class seed={self.seed}",
        )

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[graph_stream.Edges]:
        """Yield edges: one end uniform, the other of its class with probability ``homophily``, else of another."""
        for number in range(start, -(-self.num_edges // graph_stream.EDGES)):
            rng = self._rng(3, number)
            count = min(graph_stream.EDGES, self.num_edges - number * graph_stream.EDGES)
            source = rng.integers(self.nodes, size=count)
            shift = rng.integers(1, max(2, self.classes), size=count)
            wanted = np.where(rng.random(count) < self.homophily, source, source + shift) % self.classes
            size = (self.nodes - wanted + self.classes - 1) // self.classes
            target = wanted + self.classes * (rng.random(count) * size).astype(np.int64)
            yield np.sort(np.stack([source, target]), axis=0), None  # so that none counts as one-way


ENTRIES = (
    Dataset(
        name="digits",
        description="handwritten digits, 8 x 8 pixels, nearest-neighbour graph; comes with scikit-learn",
        load=make_digits,
        default_split="<per_class>-per-class",
        splits=("<per_class>-per-class", *SEEDED_SPLITS),
        address="bundled with scikit-learn",
        licence="CC BY 4.0",
        citation="Alpaydin, Kaynak: Optical Recognition of Handwritten Digits, UCI repository, 1998",
        sizes=(1797, 9929, 64, 10),
        options=("k", "per_class"),
    ),
    Dataset(
        name="csbm",
        description="contextual stochastic block model of any size, homophily and signal",
        load=make_csbm,
        default_split="<per_class>-per-class",
        splits=("<per_class>-per-class", *SEEDED_SPLITS),
        citation="Deshpande et al.: Contextual Stochastic Block Models, NeurIPS 2018",
        options=("nodes", "degree", "classes", "signal", "homophily", "features", "per_class"),
    ),
)
