"""Features for graphs that have none: the degree of a node and its position in the graph."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

POSITIONS = 32
_DENSE_UP_TO = 256  # nodes; below, computing all eigenvectors at once is faster and needs no iteration
_SIGNIFICANT = 1e-9  # entries of an eigenvector closer than this count as equal when its sign is chosen


def structure_features(
    edges: np.ndarray, num_nodes: int, edge_weight: np.ndarray | None = None, positions: int = POSITIONS
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return features of every node computed from the edges alone, float32 [N, 2 + positions], and their names.

    The first column is log(1 + degree), the second its mean over the neighbours. The others are the eigenvectors of
    D^-1/2 A D^-1/2 with the largest eigenvalues, times sqrt(N) so that their entries are of order 1; nodes close in
    the graph have similar entries. The sign of each is fixed by its largest entry. Isolated nodes have zeros.

    Args:
        edges: [2, E] node numbers, each undirected edge once.
        num_nodes: N.
        edge_weight: [E] entries of A; ones by default. The first two columns count edges, whatever their weight.
        positions: number of eigenvectors, at most N - 1.
    """
    source, target = np.concatenate([edges, edges[::-1]], axis=1)
    weights = np.ones(len(source)) if edge_weight is None else np.tile(edge_weight.astype(np.float64), 2)
    degree = np.bincount(source, minlength=num_nodes)
    log_degree = np.log1p(degree)
    neighbours = np.bincount(source, weights=log_degree[target], minlength=num_nodes) / np.maximum(degree, 1)
    strength = np.bincount(source, weights=weights, minlength=num_nodes)
    scale = np.divide(1, np.sqrt(strength), out=np.zeros(num_nodes), where=strength > 0)
    normalised = sp.csr_matrix((scale[source] * weights * scale[target], (source, target)), (num_nodes, num_nodes))
    vectors = _leading_eigenvectors(normalised, min(positions, num_nodes - 1)) * np.sqrt(num_nodes)
    names = ("log degree", "neighbours' log degree", *(f"position {number + 1}" for number in range(vectors.shape[1])))
    return np.column_stack([log_degree, neighbours, vectors]).astype(np.float32), names


def _leading_eigenvectors(matrix: sp.csr_matrix, count: int) -> np.ndarray:
    """Return `count` unit eigenvectors, largest eigenvalue first; the result is deterministic."""
    size = matrix.shape[0]
    if count == 0:
        return np.empty((size, 0))
    if size <= _DENSE_UP_TO:
        values, vectors = np.linalg.eigh(matrix.toarray())
    else:
        start = np.random.default_rng(0).standard_normal(size)
        values, vectors = eigsh(matrix, k=count, which="LA", v0=start, tol=1e-6)
    vectors = vectors[:, np.argsort(-values, kind="stable")[:count]]
    magnitude = np.abs(vectors)
    largest = (magnitude >= magnitude.max(axis=0) - _SIGNIFICANT).argmax(axis=0)
    return vectors * np.where(vectors[largest, np.arange(count)] < 0, -1.0, 1.0)
