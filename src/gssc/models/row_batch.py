"""The feature rows of a few nodes, for models that train on batches of nodes or edges."""

from __future__ import annotations

import numpy as np
import torch

from gssc.features import Rows, SparseRows


def rows_of(rows: Rows, nodes: np.ndarray) -> Rows:
    """The rows of these nodes, in this order, stored as they were.

    >>> rows_of(torch.tensor([[1.0], [2.0], [3.0]]), np.array([2, 0])).tolist()
    [[3.0], [1.0]]
    """
    if isinstance(rows, SparseRows):
        return SparseRows(rows.matrix[nodes])
    return rows[torch.from_numpy(nodes)]
