"""Feature rows as models see them, whether they are dense, sparse or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.data.array_file import ArrayFile
from gssc.data.scaling import Scaling, usual_normalization
from gssc.deploy.forward import row_factors

NUMBERS_SCALED = 1 << 17  # values of memory-mapped rows that are scaled at a time


class SparseRows:
    """A few sparse feature rows that can be multiplied with a dense matrix, forward and backward.

    ``embedding_bag`` is the fastest sparse-times-dense product torch has on a CPU; the gradient of the weight is the
    same product with the rows transposed, which is built only when a gradient is needed.
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
        """Return the product with a dense matrix, [rows, columns] x [columns, k]."""
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
    """Return rows [n, d] x weight [d, k], plus a bias [k] if given, for rows in any storage."""
    if isinstance(rows, SparseRows):
        return _SparseProduct.apply(rows, weight, bias)
    return rows @ weight if bias is None else torch.addmm(bias, rows, weight)


class RowLinear(nn.Module):
    """The first layer: a linear map that takes dense and sparse rows. Its weight is stored as [in, out]."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters as :class:`torch.nn.Linear` does."""
        bound = self.weight.shape[0] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, rows: Rows) -> Tensor:
        """Map rows [n, in] to [n, out]."""
        return product(rows, self.weight, self.bias)


class FeatureTable:
    """All feature rows of a graph: dense, CSR or memory-mapped; provides the rows of a batch.

    Args:
        features: float32 array [N, d] (a memory map is read row by row, never whole) or CSR matrix.
        normalize: a :class:`~gssc.data.scaling.Scaling`, or the name of one that is learned from these features,
            see :meth:`~gssc.data.scaling.Scaling.of`.
        device: provide dense tensors on this device, for ordinary torch operations; if left out, the storage that is
            fastest on a CPU.
    """

    def __init__(self, features: Any, normalize: str | Scaling = "none", device: torch.device | None = None):
        self.device = device
        self.scaling = Scaling.of(features, normalize) if isinstance(normalize, str) else normalize
        self.scale_on_read = False
        if sp.issparse(features):
            features = self._scaled(features.tocsr()).astype(np.float32)
        elif isinstance(features, np.memmap):
            self.scale_on_read, self.file = True, ArrayFile(features, hold=True)
        else:
            features = self._scaled(features)
        self.features = features
        self._all: Rows | None = None

    def _scaled(self, features: Any) -> Any:
        """Return the rows as training reads them."""
        if self.scaling.normalize == "row":
            features = row_normalized(features)
        scaled = self.scaling.applied(features)
        return scaled if sp.issparse(scaled) else np.asarray(scaled, dtype=np.float32)

    def _read(self, nodes: np.ndarray) -> np.ndarray:
        """Return rows of a memory map, read and scaled a few at a time: scaling makes copies in double precision."""
        rows = np.empty((len(nodes), self.shape[1]), dtype=np.float32)
        step = max(1, NUMBERS_SCALED // max(self.shape[1], 1))
        for start in range(0, len(nodes), step):
            part = slice(start, start + step)
            rows[part] = self._scaled(np.asarray(self.file[nodes[part]], dtype=np.float32))
        return rows

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape

    def rows(self, nodes: np.ndarray) -> Rows:
        """Return the feature rows of these nodes, in this order."""
        chosen = self._read(nodes) if self.scale_on_read else self.features[nodes]
        if sp.issparse(chosen):
            return SparseRows(chosen) if self.device is None else on_device(dense(chosen), self.device)
        rows = torch.from_numpy(np.ascontiguousarray(chosen, dtype=np.float32))
        return rows if self.device is None else on_device(rows, self.device)

    def all(self) -> Rows:
        """Return every row at once; built once and kept."""
        if self._all is None:
            if self.device is None and sp.issparse(self.features):
                self._all = SparseRows(self.features)
            elif self.device is None and not self.scale_on_read and self.features.flags.writeable:
                self._all = torch.from_numpy(self.features)  # shares memory, which torch requires to be writeable
            else:
                self._all = self.rows(np.arange(self.shape[0]))
        return self._all

    def blocks(self, size: int = 65536, part: slice | None = None) -> Iterator[Rows]:
        """Yield all rows in order, or those of a part, one block at a time."""
        first, stop, _ = (part or slice(None)).indices(self.shape[0])
        if self.shape[0] <= size and stop - first == self.shape[0]:
            yield self.all()
            return
        for start in range(first, stop, size):
            yield self.rows(np.arange(start, min(start + size, stop)))


def dense(rows: sp.csr_matrix) -> Tensor:
    """Return CSR rows as a dense tensor."""
    return torch.from_numpy(rows.toarray())


def on_device(rows: Tensor, device: torch.device) -> Tensor:
    """Return rows on a device; to CUDA from pinned memory, so that the copy overlaps with what the device computes."""
    return rows.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else rows.to(device)


def stored_values(rows: Any) -> int:
    """Return the number of values that dense or CSR rows hold, which is what most products with them cost."""
    return int(rows.nnz if sp.issparse(rows) else rows.shape[0] * rows.shape[1])


def columns_on_one_scale(features: Any, normalize: str = "auto") -> Any:
    """Return features with columns on one scale, so that none dominates; unchanged if ``normalize`` scales no columns.

    Args:
        features: [N, d].
        normalize: as in the settings; ``auto`` is decided by the features.

    >>> unlike = np.array([[1000.0, 0.1], [1010.0, 0.3], [990.0, 0.2]], dtype=np.float32)
    >>> columns_on_one_scale(unlike).std(axis=0).round(3).tolist()
    [1.0, 1.0]
    """
    name = usual_normalization(features) if normalize == "auto" else normalize
    return FeatureTable(features, name).features if name in ("standard", "asinh") else features


def rows_of(rows: Rows, nodes: np.ndarray) -> Rows:
    """Return the rows of these nodes, in this order, stored as they were.

    >>> rows_of(torch.tensor([[1.0], [2.0], [3.0]]), np.array([2, 0])).tolist()
    [[3.0], [1.0]]
    """
    if isinstance(rows, SparseRows):
        return SparseRows(rows.matrix[nodes])
    return rows[torch.from_numpy(nodes)]


def row_normalized(features: Any) -> Any:
    """Return each row divided by the sum of its absolute values; a row of zeros is left alone.

    For non-negative values this is division by the row sum. Values of both signs may cancel in a plain sum; their
    absolute values do not.
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
