"""Rank Degree: keeps edges to the neighbours of highest degree."""

from __future__ import annotations

import math

import numpy as np

from gssc.sparsify.fixed import FixedSubset

SEED_SHARE = 0.01  # share of all nodes that are seeds; at least one node
TOP_SHARE = 0.1  # share of a seed's neighbours that are visited; at least one


class RankDegree(FixedSubset):
    """Walks the graph from random seeds towards neighbours of high degree and keeps the edges of the walk.

    `Voudigari et al. 2016 <https://doi.org/10.1109/ASONAM.2016.7752223>`_. In each round every seed ranks its
    neighbours by degree in the remaining graph. The edges to the first tenth of them (at least one) are kept and
    removed from the graph, and these neighbours are the next seeds. If no seed has an edge left, new seeds are drawn
    (one node in a hundred, at least one). The walk ends with the share ``keep`` of the edges; if the last round exceeds
    it, random edges of that round are dropped.
    """

    def choose(self, edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return the positions of the edges of the walk."""
        return walk_by_degree(edges, self.num_nodes, count, rng)


def walk_by_degree(edges: np.ndarray, nodes: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of the first ``count`` edges of the walk."""
    ends = IncidentEdges(edges, nodes)
    left = np.ones(edges.shape[1], dtype=bool)
    degree = np.diff(ends.starts)
    kept: list[np.ndarray] = []
    seeds = np.empty(0, dtype=np.int64)
    missing = count
    while missing > 0:
        if len(seeds) == 0:
            alive = np.flatnonzero(degree > 0)
            seeds = rng.permutation(alive)[: math.ceil(SEED_SHARE * nodes)]
        taken, reached = ends.best(seeds, left, degree)
        if len(taken) > missing:
            taken = rng.permutation(taken)[:missing]
        kept.append(taken)
        missing -= len(taken)
        left[taken] = False
        degree = degree - np.bincount(edges[:, taken].reshape(-1), minlength=nodes)
        seeds = reached[degree[reached] > 0]
    return np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)


class IncidentEdges:
    """The edges at every node, for lookups of many nodes at once.

    Args:
        edges: undirected edges, [2, E].
        nodes: number of nodes.
    """

    def __init__(self, edges: np.ndarray, nodes: int):
        near, far = np.concatenate([edges, edges[::-1]], axis=1)
        order = np.argsort(near, kind="stable")
        self.far = far[order]
        self.edge = np.tile(np.arange(edges.shape[1]), 2)[order]
        self.starts = np.searchsorted(near[order], np.arange(nodes + 1))

    def best(self, seeds: np.ndarray, left: np.ndarray, degree: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges from the seeds to their neighbours of highest degree, and these neighbours, each once.

        Args:
            seeds: nodes with at least one edge left.
            left: whether each edge is still in the graph, [E].
            degree: degree of every node in the remaining graph.
        """
        sizes = np.diff(self.starts)[seeds]
        owner = np.repeat(np.arange(len(seeds)), sizes)
        first = np.cumsum(sizes) - sizes
        places = np.arange(len(owner)) - first[owner] + self.starts[seeds][owner]
        open_ = left[self.edge[places]]
        owner, places = owner[open_], places[open_]
        order = np.lexsort((-degree[self.far[places]], owner))
        owner, places = owner[order], places[order]
        rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
        chosen = places[rank < np.ceil(TOP_SHARE * degree[seeds])[owner]]
        return np.unique(self.edge[chosen]), np.unique(self.far[chosen])
