"""Feature rows: the only way models look at features, so that where they live is decided here alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.deploy.forward import row_factors


class SparseRows:
    """A few sparse feature rows that know how to multiply a dense matrix, forward and backward.

    ``embedding_bag`` is the fastest sparse-times-dense product torch has on a CPU; the gradient of the weight is the
    same product with the rows transposed, which is built only when a gradient is asked for.
    """

    def __init__(self, matrix: sp.csr_matrix):
        self.matrix = matrix
        self._transposed: SparseRows | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def transposed(self) -> SparseRows:
        if self._transposed is None:
            self._transposed = SparseRows(self.matrix.T.tocsr())
        return self._transposed

    def times(self, dense: Tensor) -> Tensor:
        """The product with a dense matrix, [rows, columns] x [columns, k]."""
        if self.matrix.nnz == 0:
            return dense.new_zeros(self.shape[0], dense.shape[1])
        return F.embedding_bag(
            torch.from_numpy(self.matrix.indices),
            dense,
            torch.from_numpy(self.matrix.indptr),
            mode="sum",
            per_sample_weights=torch.from_numpy(self.matrix.data),
            include_last_offset=True,
        )


Rows = Tensor | SparseRows


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: SparseRows, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.rows = rows
        out = rows.times(weight)
        return out if bias is None else out.add_(bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        to_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
        return None, ctx.rows.transposed().times(grad.contiguous()), to_bias


def product(rows: Rows, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """rows [n, d] x weight [d, k], and a bias [k] added, whatever the rows are stored as."""
    if isinstance(rows, SparseRows):
        return _SparseProduct.apply(rows, weight, bias)
    return rows @ weight if bias is None else torch.addmm(bias, rows, weight)


class RowLinear(nn.Module):
    """The first layer: a linear map that takes dense and sparse rows alike. Its weight is stored as [in, out]."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The same start as :class:`torch.nn.Linear`."""
        bound = self.weight.shape[0] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, rows: Rows) -> Tensor:
        """Rows [n, in] to [n, out]."""
        return product(rows, self.weight, self.bias)


class FeatureTable:
    """All feature rows of a graph: dense, CSR or memory-mapped; hands out the rows a batch needs.

    Args:
        features: float32 array [N, d] (a memory map is read row by row, never whole) or CSR matrix.
        normalize: ``row`` divides each row by the sum of its absolute values (rows of zeros stay as they are).
    """

    def __init__(self, features: Any, normalize: str = "none"):
        self.normalize_on_read = False
        if sp.issparse(features):
            features = features.tocsr()
            features = row_normalized(features) if normalize == "row" else features.astype(np.float32)
        elif isinstance(features, np.memmap):
            self.normalize_on_read = normalize == "row"
        elif normalize == "row":
            features = row_normalized(features)
        self.features = features
        self._all: Rows | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape

    def rows(self, nodes: np.ndarray) -> Rows:
        """The feature rows of these nodes, in this order."""
        chosen = self.features[nodes]
        if sp.issparse(chosen):
            return SparseRows(chosen)
        chosen = np.ascontiguousarray(chosen, dtype=np.float32)
        return torch.from_numpy(row_normalized(chosen) if self.normalize_on_read else chosen)

    def all(self) -> Rows:
        """Every row at once; built once and kept."""
        if self._all is None:
            in_memory = isinstance(self.features, np.ndarray) and self.features.flags.writeable
            if sp.issparse(self.features):
                self._all = SparseRows(self.features)
            elif in_memory and not self.normalize_on_read:
                self._all = torch.from_numpy(self.features)
            else:
                self._all = self.rows(np.arange(self.shape[0]))
        return self._all

    def blocks(self, size: int = 65536) -> Iterator[Rows]:
        """All rows in order, a block at a time."""
        if self.shape[0] <= size:
            yield self.all()
            return
        for start in range(0, self.shape[0], size):
            yield self.rows(np.arange(start, min(start + size, self.shape[0])))


def row_normalized(features: Any) -> Any:
    """Each row divided by the sum of its absolute values; a row of zeros is left alone.

    For counts and other values that are never negative this is the usual division by the row sum; around zero, where
    a plain sum may vanish or change sign, it stays harmless.
    """
    sizes = abs(features)
    with np.errstate(over="ignore"):
        sums = np.asarray(sizes.sum(axis=1)).reshape(-1)
        if not np.isfinite(sums).all():
            sums = np.asarray(sizes.astype(np.float64).sum(axis=1)).reshape(-1)
    factors = row_factors(sums)
    if sp.issparse(features):
        scaled = features.astype(np.float32, copy=True)
        scaled.data *= np.repeat(factors, np.diff(scaled.indptr))
        return scaled
    return features.astype(np.float32) * factors[:, None]
