"""Structure noise: true edges removed and false edges added.

Edges are undirected and counted once. Added edges are non-edges of the original graph, so a removed edge is never added
again. Noise applies to the whole graph, including edges of validation and test nodes. In a weighted graph, edges that
stay keep their weight, and an added edge gets the weight of an edge drawn at random.

Non-edges are drawn exactly and without replacement by their number: the pairs are numbered in an order that does not
require listing them, the numbers of the edges are skipped, and memory is proportional to nodes, edges and the draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

import numpy as np

from gssc.errors import GsscError
from gssc.names import counted

if TYPE_CHECKING:
    from gssc.graph import Graph

# Shares in the noisy files that the authors of GSSC released, by nominal rate: edges kept and edges added, both over
# the number of edges (467 of CiteSeer is a tenth of its 4,552 edges and 124 self-loops).
RELEASED = {
    "cora": {0.1: (0.60, 527 / 5278), 0.2: (0.56, 1055 / 5278), 0.3: (0.50, 1583 / 5278)},
    "citeseer": {0.1: (0.58, 467 / 4552), 0.2: (0.55, 935 / 4552), 0.3: (0.50, 1402 / 4552)},
}
_ROUNDING = 1e-9  # 0.29 * 100 is just below 29


@dataclass(frozen=True, eq=False)
class StructureNoise:
    """A graph with noisy edges.

    Args:
        graph: the noisy graph.
        removed, added: [2, *] edges, each once as (smaller, larger), sorted.
        realised_rate: number of changes that the rate of this kind counts, over the original number of edges.
    """

    graph: Graph
    removed: np.ndarray
    added: np.ndarray
    realised_rate: float

    def counts(self) -> dict[str, int]:
        """Return the numbers of edges removed and added, and of edges before and after."""
        removed, added = self.removed.shape[1], self.added.shape[1]
        after = self.graph.num_edges
        return {"removed": removed, "added": added, "edges_before": after + removed - added, "edges": after}


def random(graph: Graph, rate: float, rng: np.random.Generator) -> StructureNoise:
    """Remove round(rate * E) edges and add as many non-edges, so that the number of edges stays the same."""
    count = round(rate * graph.num_edges)
    removed = _some(np.arange(graph.num_edges), count, rng)
    return _changed(graph, removed, _any_pairs(graph).draw(graph.edges, count, rng), rng, counted=count)


def add(graph: Graph, rate: float, rng: np.random.Generator) -> StructureNoise:
    """Add round(rate * E) non-edges."""
    count = round(rate * graph.num_edges)
    none_removed = np.empty(0, dtype=np.int64)
    return _changed(graph, none_removed, _any_pairs(graph).draw(graph.edges, count, rng), rng, counted=count)


def remove(graph: Graph, rate: float, rng: np.random.Generator) -> StructureNoise:
    """Remove round(rate * E) edges."""
    count = round(rate * graph.num_edges)
    none_added = np.empty((2, 0), dtype=np.int64)
    return _changed(graph, _some(np.arange(graph.num_edges), count, rng), none_added, rng, counted=count)


def dice(graph: Graph, rate: float, rng: np.random.Generator) -> StructureNoise:
    """Make round(rate * E) changes: remove edges within classes and add edges between classes, half each.

    If the number of changes is odd, one more edge is added than removed.

    `Hiding Individuals and Communities <https://arxiv.org/abs/1608.00375>`_: disconnect internally, connect
    externally. Classes are the known labels of all nodes, test nodes included: a worst case that uses labels
    hidden from every learner. Edges with an end of unknown class are left alone.
    """
    if not graph.task.has_classes:
        raise GsscError(f"dice noise needs one class per node, but {graph.name} has binary targets: use random noise")
    if (graph.labels < 0).all():
        raise GsscError(f"dice noise needs labels, but {graph.name} has none: use random noise")
    count = round(rate * graph.num_edges)
    left, right = graph.labels[graph.edges]
    removed = _some(np.flatnonzero((left == right) & (left >= 0)), count // 2, rng, what="within classes")
    added = _pairs_between_classes(graph.labels).draw(graph.edges, count - count // 2, rng)
    return _changed(graph, removed, added, rng, counted=count)


def as_distributed(graph: Graph, rate: float, rng: np.random.Generator) -> StructureNoise:
    """Remove and add edges in the same shares as the noisy files released with GSSC, which remove more than they add.

    Those files exist for Cora and CiteSeer at nominal rates 0.1, 0.2 and 0.3, and `RELEASED` has their shares. For any
    other graph or rate, round((0.65 - 0.5 rate) * E) edges stay, a linear fit to the six files, and floor(rate * E)
    non-edges are added. Rate 0 is the clean graph. The realised rate is edges added over original edges.
    """
    total = graph.num_edges
    kept_share, added_share = RELEASED.get(graph.name, {}).get(rate, (0.65 - 0.5 * rate if rate else 1.0, rate))
    added = floor(added_share * total + _ROUNDING)
    removed = _some(np.arange(total), total - round(kept_share * total), rng)
    return _changed(graph, removed, _any_pairs(graph).draw(graph.edges, added, rng), rng, counted=added)


@dataclass(frozen=True)
class _Pairs:
    """A numbered set of node pairs: the node at place p is paired with each of the first `partners[p]` places.

    Pair (p, q) has the number `partners[:p].sum() + q`.
    """

    order: np.ndarray  # [n] node at each place
    partners: np.ndarray  # [n] at most the place itself
    what: str

    def draw(self, edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return `count` different random pairs that are not edges, [2, count]."""
        first_number = np.concatenate([[0], np.cumsum(self.partners)])  # of each place
        taken = self._numbers(edges, first_number)
        free = int(first_number[-1]) - len(taken)
        if count > free:
            raise GsscError(
                f"cannot add {counted(count, 'edge')}: only {free:,} {self.what} exist; use a lower rate of noise"
            )
        drawn = rng.choice(free, size=count, replace=False, shuffle=False).astype(np.int64)
        # The m-th free number comes after every edge that has at most m free numbers before it.
        numbers = drawn + np.searchsorted(taken - np.arange(len(taken)), drawn, side="right")
        place = np.searchsorted(first_number, numbers, side="right") - 1
        return _canonical(np.stack([self.order[place], self.order[numbers - first_number[place]]]))

    def _numbers(self, edges: np.ndarray, first_number: np.ndarray) -> np.ndarray:
        """Return the numbers of those edges that are pairs of this set, ascending."""
        places = np.full(max(int(edges.max()), int(self.order.max(initial=0))) + 1, -1)
        places[self.order] = np.arange(len(self.order))
        lower, higher = np.sort(places[edges], axis=0)
        counted = (lower >= 0) & (lower < self.partners[higher])
        return np.sort(first_number[higher[counted]] + lower[counted])


def _any_pairs(graph: Graph) -> _Pairs:
    nodes = np.arange(graph.num_nodes)
    return _Pairs(nodes, nodes, "pairs of nodes without an edge")


def _pairs_between_classes(labels: np.ndarray) -> _Pairs:
    known = np.flatnonzero(labels >= 0)
    order = known[np.argsort(labels[known], kind="stable")]
    # Sorted by class, a node's partners in other classes are all the places before its class begins.
    begins = np.searchsorted(labels[order], labels[order], side="left")
    return _Pairs(order, begins, "pairs of nodes of two classes without an edge")


def _some(edges: np.ndarray, count: int, rng: np.random.Generator, what: str = "in all") -> np.ndarray:
    """Return `count` of these positions in the edge list, drawn at random, ascending."""
    if count > len(edges):
        raise GsscError(
            f"cannot remove {counted(count, 'edge')}: there are only {len(edges):,} {what}; use a lower rate of noise"
        )
    return np.sort(rng.choice(edges, size=count, replace=False, shuffle=False))


def _changed(
    graph: Graph, removed: np.ndarray, added: np.ndarray, rng: np.random.Generator, counted: int
) -> StructureNoise:
    kept = np.ones(graph.num_edges, dtype=bool)
    kept[removed] = False
    edges = np.concatenate([graph.edges[:, kept], added], axis=1)
    if not edges.shape[1]:
        raise GsscError(f"the noise would remove all {graph.num_edges:,} edges of {graph.name}: use a lower rate")
    weights = None
    if graph.edge_weight is not None:  # so that added edges cannot be recognised by their weight
        weights = np.concatenate([graph.edge_weight[kept], rng.choice(graph.edge_weight, size=added.shape[1])])
    noisy = graph.with_(edges=edges, edge_weight=weights)
    return StructureNoise(noisy, graph.edges[:, ~kept], added, counted / graph.num_edges)


def _canonical(edges: np.ndarray) -> np.ndarray:
    source, target = np.sort(edges, axis=0)
    by_node = np.lexsort((target, source))
    return np.stack([source[by_node], target[by_node]])
