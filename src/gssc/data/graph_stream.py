"""Graphs read in blocks, for `gssc data build`: what every stream offers, and the stream of a graph in memory.

Those of generated graphs, .npz files and tables are in :mod:`gssc.data.synthetic`, :mod:`gssc.data.npz` and
:mod:`gssc.data.table_stream`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from gssc.graph import Graph

ROWS, VALUES = 16_384, 1 << 20  # maximum number of feature rows per block, and of values in them
EDGES = 1 << 20  # listed edges per block


@dataclass
class NodeFacts:
    """Labels, split, names and ids of the nodes: everything except their features.

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


class GraphStream(Protocol):
    """A graph that is read in blocks, in the same order every time, so that a build can be resumed.

    Attributes:
        name: name of the graph.
        width: number of features.
        weighted: whether edges have weights.
    """

    name: str
    width: int
    weighted: bool

    def signature(self) -> dict[str, Any]:
        """Return what identifies the stream: a build is resumed only if this is unchanged."""

    def rows(self, start: int) -> Iterator[np.ndarray]:
        """Yield blocks of feature rows from row ``start`` on."""

    def facts(self) -> NodeFacts:
        """Return labels, split and names of the nodes; called after :meth:`rows` is exhausted."""

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[Edges]:
        """Yield blocks of listed edges from block ``start`` on; ``node_ids`` are those of :meth:`facts`."""


class InMemoryStream:
    """A graph in memory, such as a published dataset."""

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


def rows_per_block(width: int) -> int:
    """Return the number of feature rows per block, so that blocks of wide rows take no more memory."""
    return max(1, min(ROWS, VALUES // max(1, width)))


def dense_blocks(features: Any, start: int) -> Iterator[np.ndarray]:
    """Yield dense blocks of a dense or CSR matrix from row ``start`` on."""
    rows = rows_per_block(features.shape[1])
    for first in range(start, features.shape[0], rows):
        block = features[first : first + rows]
        yield block.toarray() if sp.issparse(block) else np.asarray(block)


def file_signature(path: Path) -> list[Any]:
    """Return full path, size and modification time of a file."""
    found = path.stat()
    return [str(path.absolute()), found.st_size, found.st_mtime_ns]
