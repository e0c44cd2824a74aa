"""Rows through the layers of an MLP, in little more time than the matrix products take.

Rows pass through all layers a block at a time, so that what one layer writes is still in the cache when the next
one reads it; every layer works in place, in a buffer that all blocks share.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

LEAKY_SLOPE = 0.01
# Of 128 to 10,000 rows, 2,048 was fastest at 256 hidden units: fewer fit the cache better but repeat more overhead.
BLOCK_ROWS = 2048
LANES = 8


class SparseBlock(NamedTuple):
    """Some rows of a CSR matrix, as views of its arrays; ``indptr`` starts at zero."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    columns: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1


Block = np.ndarray | SparseBlock


class Layer(NamedTuple):
    """A linear map, with its weight [in, out] the way round that sparse products need and dense ones do not mind.

    Where a few columns more make the number of outputs a multiple of eight, ``weight`` has them, all zero: seven
    outputs take nearly twice as long as eight. ``bias`` tells the true number.
    """

    weight: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, bias: np.ndarray) -> Layer:
        """From a weight [out, in]."""
        missing = -len(bias) % LANES
        padding = missing if missing <= LANES // 2 else 0
        return cls(np.ascontiguousarray(np.pad(weight, ((0, padding), (0, 0))).T), bias)


class Engine(Protocol):
    """What computes."""

    def affine(self, block: Block, layer: Layer, out: np.ndarray) -> np.ndarray:
        """``block @ weight + bias``, in ``out`` or, where a library insists on an array of its own, there."""

    def activate(self, out: np.ndarray) -> None:
        """The activation between two layers, in place."""


class NumpyEngine:
    """NumPy, and SciPy for the first product of sparse rows."""

    def __init__(self, activation: str, widest: int):
        self.leaky = activation == "leaky_relu"
        # What an activation compares with: for ReLU zeros, since NumPy's maximum is far slower with a scalar.
        self.spare = np.zeros(BLOCK_ROWS * widest, dtype=np.float32)

    def affine(self, block: Block, layer: Layer, out: np.ndarray) -> np.ndarray:
        """``block @ weight + bias``, of sparse rows in SciPy's own array, else in ``out``."""
        width = len(layer.bias)
        if isinstance(block, SparseBlock):
            from scipy import sparse

            parts = block.data, block.indices, block.indptr
            matrix = sparse.csr_matrix(parts, shape=(block.rows, block.columns), copy=False)
            product: np.ndarray = (matrix @ layer.weight)[:, :width]
            return np.add(product, layer.bias, out=product)
        padded = layer.weight.shape[1] > width
        product = np.matmul(block, layer.weight, out=None if padded else out)
        return np.add(product[:, :width], layer.bias, out=out)

    def activate(self, out: np.ndarray) -> None:
        """The activation between two layers, in place."""
        other = self.spare[: out.size].reshape(out.shape)
        if self.leaky:
            np.multiply(out, np.float32(LEAKY_SLOPE), out=other)
        np.maximum(out, other, out=out)


def forward(x: Any, layers: Sequence[Layer], activation: str, normalize: bool, activate_last: bool) -> np.ndarray:
    """Pass rows [n, in], dense or CSR, through layers with an activation between them, and after them if asked."""
    widths = [len(layer.bias) for layer in layers]
    out = np.empty((x.shape[0], widths[-1]), dtype=np.float32)
    rows = min(BLOCK_ROWS, x.shape[0])
    buffers = [_scratch.array(number, rows, width) for number, width in enumerate(widths[:-1])]
    engine = _engine(activation, max(widths))
    with np.errstate(over="ignore", invalid="ignore"):  # the caller finds what overflows in the result
        for start, stop, block in blocks(x, normalize):
            # The last layer writes into the result itself.
            targets = [*(buffer[: stop - start] for buffer in buffers), out[start:stop]]
            hidden = block
            for number, (layer, target) in enumerate(zip(layers, targets, strict=True), start=1):
                hidden = engine.affine(hidden, layer, target)
                if activate_last or number < len(layers):
                    engine.activate(hidden)
            if hidden is not targets[-1]:
                targets[-1][:] = hidden
    return out


def blocks(x: Any, normalize: bool) -> Iterator[tuple[int, int, Block]]:
    """Consecutive float32 rows, divided by their absolute sums if asked, with the numbers of the first and the next."""
    sparse = is_sparse(x)
    for start in range(0, x.shape[0], BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, x.shape[0])
        if sparse:
            yield start, stop, _sparse_block(x, start, stop, normalize)
            continue
        rows = np.ascontiguousarray(x[start:stop], dtype=np.float32)
        yield start, stop, rows * _factors(np.abs(rows).sum(axis=1))[:, None] if normalize else rows


class _Scratch(threading.local):
    """Arrays that hold nothing between calls but stay allocated: fresh pages cost as much as an activation.

    Each thread has its own, a few megabytes at the usual widths.
    """

    def __init__(self) -> None:
        self.arrays: dict[int, np.ndarray] = {}

    def array(self, number: int, rows: int, width: int) -> np.ndarray:
        """Array ``number`` with this shape; whatever was in it is still there."""
        flat = self.arrays.get(number)
        if flat is None or flat.size < rows * width:
            flat = self.arrays[number] = np.empty(rows * width, dtype=np.float32)
        return flat[: rows * width].reshape(rows, width)


_scratch = _Scratch()


def is_sparse(x: Any) -> bool:
    """Whether ``x`` is a SciPy matrix; whoever holds one has imported SciPy, and nobody else must for this."""
    return hasattr(x, "tocsr")


def _engine(activation: str, widest: int) -> Engine:
    if "torch" in sys.modules:
        from gssc.deploy.torch_backend import TorchEngine

        return TorchEngine(activation, widest)
    return NumpyEngine(activation, widest)


def _sparse_block(x: Any, start: int, stop: int, normalize: bool) -> SparseBlock:
    first, last = x.indptr[start], x.indptr[stop]
    data = x.data[first:last].astype(np.float32, copy=False)
    indptr = x.indptr[start : stop + 1] - first
    if normalize:
        lengths = np.diff(indptr)
        filled = lengths > 0  # empty rows have no sum to divide by, and reduceat would misread them
        sums = np.add.reduceat(np.abs(data), indptr[:-1][filled]) if len(data) else data
        data = data * np.repeat(_factors(sums), lengths[filled])
    return SparseBlock(data, x.indices[first:last], indptr, x.shape[1])


def _factors(sums: np.ndarray) -> np.ndarray:
    """One over each sum, and one where the sum is zero."""
    sums = sums.astype(np.float64)
    return np.divide(1.0, sums, out=np.ones_like(sums), where=sums != 0).astype(np.float32)
