"""The nearest-neighbour graph of a table: every row joined to the rows most like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

NEIGHBOURS = 8  # of each row, unless the user says otherwise; GSSCClassifier has the same default
_DISTANCES_AT_A_TIME = 1 << 22


def nearest_neighbour_edges(features: Any, k: int) -> np.ndarray:
    """Return each edge once between rows of which one is among the other's `k` nearest (Euclidean).

    Of rows equally far, those that come first in the table are taken. All distances are computed, a block of rows at a
    time: time grows with the square of the number of rows, memory does not.

    Args:
        features: [N, d] numbers, dense or SciPy sparse.
        k: neighbours of each row, from 1 to N - 1.
    """
    exact: Any = (
        features.tocsr().astype(np.float64) if sp.issparse(features) else np.asarray(features, dtype=np.float64)
    )
    count = exact.shape[0]
    transposed = exact.T.tocsr() if sp.issparse(exact) else exact.T
    squares = np.asarray(exact.multiply(exact).sum(axis=1) if sp.issparse(exact) else (exact**2).sum(axis=1)).ravel()
    step = max(1, _DISTANCES_AT_A_TIME // count)
    pairs = []
    for start in range(0, count, step):
        rows = np.arange(start, min(start + step, count))
        products: Any = exact[rows] @ transposed
        products = products.toarray() if sp.issparse(products) else products
        # Rounding keeps equal distances equal whatever the matrix product's order, so ties fall the same everywhere.
        distances = (squares[rows, None] + squares - 2 * products).round(9)
        distances[np.arange(len(rows)), rows] = np.inf
        first, second = _smallest(distances, k)
        pairs.append(np.stack([rows[first], second]))
    edges: np.ndarray = np.unique(np.sort(np.concatenate(pairs, axis=1), axis=0), axis=1)
    return edges


def _smallest(values: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    """Places of the k smallest values of every row; of equal ones the first, without sorting whole rows."""
    limit = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    below, ties = values < limit, values == limit
    missing = k - below.sum(axis=1, keepdims=True)
    return np.nonzero(below | (ties & (np.cumsum(ties, axis=1) <= missing)))
