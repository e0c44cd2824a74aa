"""Rows of a few nodes, dense and sparse."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from gssc.features import SparseRows
from gssc.models.row_batch import rows_of


def test_sparse_rows_stay_sparse_and_keep_the_order() -> None:
    dense = np.arange(6, dtype=np.float32).reshape(3, 2)
    picked = rows_of(SparseRows(sp.csr_matrix(dense)), np.array([2, 0, 2]))
    assert isinstance(picked, SparseRows)
    assert np.array_equal(picked.matrix.toarray(), dense[[2, 0, 2]])
    assert torch.equal(picked.times(torch.eye(2)), torch.from_numpy(dense[[2, 0, 2]]))
