"""Dropout of hidden units and of input features, for dense and sparse rows alike."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.features import Rows, SparseRows
from gssc.models.recent import Recent

# Dropout mask of eight units at a rate of one half, for every byte: 2 where its bit is set.
HALVES = 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)


class _DroppedRows(SparseRows):
    """Sparse rows with dropped entries; their transpose reuses the order of the full rows, without sorting."""

    def __init__(self, full: SparseRows, kept: Tensor, order: Tensor):
        matrix = full.matrix
        super().__init__(sp.csr_matrix((kept.numpy(), matrix.indices, matrix.indptr), matrix.shape))
        self._full, self._kept, self._order = full, kept, order

    def transposed(self) -> SparseRows:
        matrix = self._full.transposed().matrix
        values = self._kept.index_select(0, self._order).numpy()
        return SparseRows(sp.csr_matrix((values, matrix.indices, matrix.indptr), matrix.shape))


_orders: Recent[Tensor] = Recent()


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Return the values after dropout from random bytes, many times faster than torch's one float per value on a CPU.

    The share is rounded to the nearest 1/256; kept values are scaled up to preserve the expectation.
    """
    cut = round(share * 256)
    if not training or cut <= 0:
        return x
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    mask = words.view(torch.uint8)[: x.numel()].ge(cut).to(x.dtype).mul_(256 / (256 - cut))
    return x * mask.view(x.shape)


def drop_entries(rows: Rows, share: float, training: bool) -> Rows:
    """Return rows with a share of their values dropped and the others scaled up; unchanged outside training.

    For sparse rows only the stored values are drawn: the others are zero anyway.
    """
    if not training or share == 0:
        return rows
    if isinstance(rows, Tensor):
        return drop(rows, share, training)
    kept = drop(torch.from_numpy(rows.matrix.data), share, training)
    return _DroppedRows(rows, kept, _transposed_order(rows))


def _transposed_order(rows: SparseRows) -> Tensor:
    """Return the position in the rows of each stored value of their transpose."""

    def compute() -> Tensor:
        matrix = rows.matrix
        numbered = sp.csr_matrix((np.arange(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
        return torch.from_numpy(numbered.T.tocsr().data)

    return _orders.get((rows,), (), compute)


def dropout_mask(shape: torch.Size, rate: float, rng: np.random.Generator) -> Tensor | None:
    """Return a dropout mask made from random bytes, which is many times faster than one random float per unit.

    The rate is rounded to the nearest 1/256; kept units are scaled up to preserve the expectation.
    """
    cut = round(rate * 256)
    if cut <= 0:
        return None
    if cut == 128:  # one bit per unit is enough
        octets = _random_bytes(-(-shape.numel() // 8), rng)
        mask = torch.from_numpy(HALVES.take(octets, axis=0).ravel()[: shape.numel()])
        return mask.view(shape)
    mask = torch.from_numpy(_random_bytes(shape.numel(), rng)).float()
    return mask.ge_(cut).mul_(256 / (256 - cut)).view(shape)


def _random_bytes(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2**64, -(-count // 8), dtype=np.uint64).view(np.uint8)[:count]
