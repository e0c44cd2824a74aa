"""Feature rows made short: a few hundred numbers a node that keep cosines about as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.graph import Features

WIDTH = 512
LABEL_WIDTH, LABEL_NUMBERS = 2048, 2**26  # for comparing labels, which gains by it: at most so wide and so many in all
ROWS_AT_A_TIME = 8192


def feature_sketch(features: Features, width: int = WIDTH, seed: int = 0) -> np.ndarray:
    """Unit feature rows folded to at most `width` columns and centred, float32 [N, width].

    Every column goes to one of `width` places with a random sign (the count sketch): products of two rows stay what
    they were on average, at no cost beyond reading the features once. Features that are narrow already are only scaled
    and centred.

    Args:
        features: [N, d], dense, memory-mapped or CSR; read a block at a time.
        width: columns of the sketch.
        seed: of places and signs.
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
    """How wide a sketch to compare labels by: a quarter of a gigabyte of it, or the usual width.

    >>> label_width(3_000), label_width(50_000), label_width(10**7)
    (2048, 1342, 512)
    """
    return max(WIDTH, min(LABEL_WIDTH, LABEL_NUMBERS // max(nodes, 1)))


def unit_rows(rows: Any) -> Any:
    """Rows scaled to length one; rows of zeros stay as they are. Sparse rows stay sparse.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).astype(float).round(3).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if sp.issparse(rows):
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel())
        factors = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(np.float32)
        return sp.csr_matrix(sp.diags(factors) @ rows)
    rows = np.asarray(rows, dtype=np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    factors = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(np.float32)
    return rows * factors[:, None]


def folding(columns: int, width: int, seed: int) -> sp.csr_matrix:
    """Return the count sketch: a matrix [columns, width] with one random sign per row, at a random place."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, width, columns)
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), columns)
    return sp.csr_matrix((signs, (np.arange(columns), places)), shape=(columns, width))
