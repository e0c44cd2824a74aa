"""The spectral sparsifier: edges drawn by their effective resistance."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg

from gssc.sparsify.fixed import FixedSubset

EXACT_NODES = 3000  # up to this size a dense inverse takes a few seconds
PROJECTIONS = 48  # gives a relative error of about sqrt(2 / 48) = 0.2 in each resistance
TOLERANCE = 1e-6  # relative, of the linear systems


class SpectralSparsifier(FixedSubset):
    r"""Keeps edges of high effective resistance, those without short detours, drawn once.

    `Spielman and Srivastava 2011 <https://arxiv.org/abs/0803.0929>`_ draw an edge in proportion to its weight times its
    effective resistance,

    .. math::
        p_{ij} = \min(1, c R_{ij}), \quad R_{ij} = (e_i - e_j)^\top L^+ (e_i - e_j),

    here without replacement, with c such that exactly the share ``keep`` of the edges is drawn. Over all edges R sums
    to the number of nodes minus that of components; with a larger budget, c is above one and every bridge (R = 1) is
    kept. The kept edges are unweighted, as is common before a classifier: a subset of the graph, not the reweighted
    graph whose Laplacian approximates L.
    """

    def choose(self, edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return the positions of edges drawn by resistance."""
        return draw_by_resistance(edges, self.num_nodes, count, rng)


def draw_by_resistance(edges: np.ndarray, nodes: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of ``count`` edges, drawn with probabilities proportional to resistance (at most one)."""
    if count >= edges.shape[1]:
        return np.arange(edges.shape[1])
    resistance = exact_resistance(edges, nodes) if nodes <= EXACT_NODES else projected_resistance(edges, nodes, rng)
    return draw_fixed_size(inclusion_probabilities(resistance, count), rng)


def exact_resistance(edges: np.ndarray, nodes: int) -> np.ndarray:
    """Return R of each edge by a dense inverse, [E]."""
    laplacian = graph_laplacian(edges, nodes).toarray()
    _, component = connected_components(sp.csr_array(laplacian), directed=False)
    # Adding a constant per component fills the null space, which is orthogonal to differences of its nodes.
    laplacian += (component[:, None] == component) / np.bincount(component)[component]
    inverse = np.linalg.inv(laplacian)
    first, second = edges
    return inverse[first, first] + inverse[second, second] - 2 * inverse[first, second]


def projected_resistance(edges: np.ndarray, nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Return approximations of R, [E]: squared distances after a random projection, one linear system per dimension.

    The projections are random signs, for which the estimate for a bridge is exact: it carries all the current of its
    own term and none of the others.
    """
    laplacian = graph_laplacian(edges, nodes)
    degrees = np.maximum(laplacian.diagonal(), 1)
    by_degree = LinearOperator(laplacian.shape, matvec=lambda vector: vector.reshape(-1) / degrees, dtype=np.float64)
    first, second = edges
    resistance = np.zeros(edges.shape[1])
    for _ in range(PROJECTIONS):
        signs = rng.integers(0, 2, edges.shape[1]) * 2.0 - 1
        source = np.bincount(first, signs, nodes) - np.bincount(second, signs, nodes)
        potential, _ = cg(laplacian, source, rtol=TOLERANCE, M=by_degree)
        resistance += (potential[first] - potential[second]) ** 2
    return np.clip(resistance / PROJECTIONS, 1 / nodes, 1)  # R of an edge is at least 2 / nodes and at most 1


def graph_laplacian(edges: np.ndarray, nodes: int) -> sp.csr_array:
    """Return L = D - A."""
    first, second = edges
    ones = np.ones(edges.shape[1])
    adjacency = sp.coo_array((ones, (first, second)), shape=(nodes, nodes))
    adjacency = (adjacency + adjacency.T).tocsr()
    degrees = sp.dia_array((adjacency.sum(axis=1)[None], [0]), shape=(nodes, nodes))
    return sp.csr_array(degrees - adjacency)


def inclusion_probabilities(importance: np.ndarray, count: int) -> np.ndarray:
    """Return min(1, c importance) with c such that they sum to ``count``, which must be less than their number."""
    certain = np.zeros(len(importance), dtype=bool)
    while True:
        scaled = importance * ((count - certain.sum()) / importance[~certain].sum())
        more = ~certain & (scaled >= 1)
        if not more.any():
            return np.where(certain, 1.0, scaled)
        certain |= more


def draw_fixed_size(probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return positions drawn with these probabilities, as many as they sum to, by randomised systematic sampling."""
    certain = np.flatnonzero(probability >= 1)
    open_ = rng.permutation(np.flatnonzero(probability < 1))
    ends = np.cumsum(probability[open_])
    count = round(ends[-1]) if len(ends) else 0
    points = rng.random() + np.arange(count)
    return np.concatenate([certain, open_[np.minimum(np.searchsorted(ends, points, side="right"), len(open_) - 1)]])
