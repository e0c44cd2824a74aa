"""Feature sketches: a few hundred numbers per node that approximately preserve cosines of feature rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.deploy.forward import row_factors
from gssc.graph import Features

WIDTH = 512
LABEL_WIDTH, LABEL_NUMBERS = 2048, 2**26  # for comparing labels: maximum columns, and values in total
ROWS_AT_A_TIME = 8192
SMALLEST_SURE, LARGEST_SURE = (
    1e-20,
    1e35,
)  # range in which sums of squares are accurate in single precision
SHORTEST_FACTOR = 1e-15  # for rows up to 1e15 long, products of two are far from the limits of single precision


def feature_sketch(features: Features, width: int = WIDTH, seed: int = 0) -> np.ndarray:
    """Return unit feature rows folded to at most `width` columns and centred, float32 [N, width].

    Every column is added to one of `width` places with a random sign (the count sketch): inner products of rows are
    preserved in expectation, and the features are read only once. Narrow features are only scaled and centred.

    Args:
        features: [N, d], dense, memory-mapped or CSR; read in blocks.
        width: columns of the sketch.
        seed: seed of places and signs.
    """
    count, columns = features.shape
    fold = None if columns <= width else folding(columns, width, seed)
    sketch = np.empty((count, min(columns, width)), dtype=np.float32)
    for start in range(0, count, ROWS_AT_A_TIME):
        rows = unit_rows(features[start : start + ROWS_AT_A_TIME])
        folded = rows if fold is None else rows @ fold
        sketch[start : start + ROWS_AT_A_TIME] = folded.toarray() if sp.issparse(folded) else folded
    sketch -= sketch.mean(axis=0, dtype=np.float64).astype(np.float32)
    return sketch


def label_width(nodes: int) -> int:
    """Return the width of the sketch for comparing labels, limited to a quarter of a gigabyte but at least 512.

    >>> label_width(3_000), label_width(50_000), label_width(10**7)
    (2048, 1342, 512)
    """
    return max(WIDTH, min(LABEL_WIDTH, LABEL_NUMBERS // max(nodes, 1)))


def unit_rows(rows: Any) -> Any:
    """Return rows scaled to length one; rows of zeros stay zero. Sparse rows stay sparse.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).astype(float).round(3).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if sp.issparse(rows):
        lengths = np.sqrt(np.asarray(rows.power(2, dtype=np.float64).sum(axis=1)).ravel())
        return sp.csr_matrix(sp.diags(row_factors(lengths)) @ rows)
    rows = np.asarray(rows, dtype=np.float32)
    return rows * unit_factors(rows)[:, None]


def unit_factors(rows: np.ndarray) -> np.ndarray:
    """Return the factor that scales each row to length one, and 1 for rows of zeros, float32 [n]."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
    unsure = ~((squares > SMALLEST_SURE) & (squares < LARGEST_SURE))
    if unsure.any():  # rows of zeros, or sums that may be inaccurate in single precision
        squares[unsure] = np.einsum("ij,ij->i", rows[unsure], rows[unsure], dtype=np.float64)
    return row_factors(np.sqrt(squares))


def with_unit_factors(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, and the factor that scales each to length one: products of rows are faster to scale than the rows.

    Very long or short rows come back scaled, with factors of one, because their products would not be accurate.
    """
    factors = unit_factors(rows)
    if len(factors) and (factors.min() < SHORTEST_FACTOR or factors.max() > 1 / SHORTEST_FACTOR):
        return rows * factors[:, None], np.ones_like(factors)
    return rows, factors


def folding(columns: int, width: int, seed: int) -> sp.csr_matrix:
    """Return the count sketch: a matrix [columns, width] with one random sign per row, at a random place."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, width, columns)
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), columns)
    return sp.csr_matrix((signs, (np.arange(columns), places)), shape=(columns, width))
