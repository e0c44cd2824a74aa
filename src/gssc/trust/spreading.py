"""Averaging over a graph by personalised PageRank, of feature rows or of class probabilities."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

RESTART = 0.1
NEARLY_ALL = 0.98  # mean keep probability from which all edges count as trusted, and equal weights are not tried
COLUMNS_AT_A_TIME = 256


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
    return normalized_adjacency(sp.csr_matrix((both, places), shape=(num_nodes, num_nodes)), loops)


def normalized_adjacency(adjacency: sp.csr_matrix, loops: bool = True) -> sp.csr_matrix:
    """Return an adjacency matrix, with self-loops if so chosen, normalised as by :func:`walk_matrix`, [N, N]."""
    if loops:
        adjacency = adjacency + sp.eye(adjacency.shape[0], dtype=np.float32, format="csr")
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    scale = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0).astype(np.float32)
    return sp.csr_matrix(sp.diags(scale) @ adjacency @ sp.diags(scale))


def spread(rows: np.ndarray, walk: sp.csr_matrix, steps: int = 10, restart: float = RESTART) -> np.ndarray:
    r"""Return rows averaged over the graph, with the largest weights on near nodes, [N, d].

    .. math:: Z^{(t + 1)} = (1 - r) W Z^{(t)} + r X, \quad Z^{(0)} = X

    The propagation of `Predict then Propagate <https://arxiv.org/abs/1810.05997>`_, by default with its r and steps.
    """
    result = np.empty(rows.shape, dtype=np.result_type(rows, walk))
    for start in range(0, rows.shape[1], COLUMNS_AT_A_TIME):
        columns = slice(start, start + COLUMNS_AT_A_TIME)
        block = given = np.ascontiguousarray(rows[:, columns])
        for _ in range(steps):
            block = (1 - restart) * (walk @ block) + restart * given
        result[:, columns] = block
    return result
