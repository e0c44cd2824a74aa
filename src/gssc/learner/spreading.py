"""Averaging over a graph by personalised PageRank, of feature rows or of class probabilities."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

RESTART = 0.1
NEARLY_ALL = 0.98  # mean keep probability from which all edges count as trusted, and equal weights are not tried


def walk_matrix(edges: np.ndarray, weights: np.ndarray, num_nodes: int, loops: bool = True) -> sp.csr_matrix:
    r"""Return the normalised adjacency :math:`D^{-1/2} (A + I) D^{-1/2}` with weighted edges, [N, N].

    Args:
        edges: undirected edges, each once, [2, E].
        weights: weight of each edge, [E].
        num_nodes: number of nodes N.
        loops: whether each node counts as its own neighbour.
    """
    first, second = edges
    places = np.concatenate([first, second]), np.concatenate([second, first])
    both = np.concatenate([weights, weights]).astype(np.float32)
    adjacency = sp.csr_matrix((both, places), shape=(num_nodes, num_nodes))
    if loops:
        adjacency = adjacency + sp.eye(num_nodes, dtype=np.float32, format="csr")
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    scale = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0).astype(np.float32)
    return sp.csr_matrix(sp.diags(scale) @ adjacency @ sp.diags(scale))


def spread(rows: np.ndarray, walk: sp.csr_matrix, steps: int = 10, restart: float = RESTART) -> np.ndarray:
    r"""Return rows averaged over the graph, near nodes most: repeats :math:`Z \leftarrow (1 - r) W Z + r X`, [N, d]."""
    found = rows
    for _ in range(steps):
        found = (1 - restart) * (walk @ found) + restart * rows
    return found
