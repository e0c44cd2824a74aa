"""Rows through the layers of an MLP, in little more time than the matrix products take.

Rows pass through all layers a block at a time, so that what one layer writes is still in the cache when the next
one reads it; every layer works in place, in a buffer that all blocks share.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

LEAKY_SLOPE = 0.01
# Arrays, because NumPy has to make one of a scalar in every call.
LEAKY_FACTOR, ZERO = np.array(LEAKY_SLOPE, dtype=np.float32), np.array(0, dtype=np.float32)
LARGEST = float(np.finfo(np.float32).max)  # what one over the sum of a row may be, should that be next to nothing
# Of 128 to 10,000 rows, 2,048 was fastest at 256 hidden units: fewer fit the cache better but repeat more overhead.
BLOCK_ROWS = 2048
SPARSE_BLOCK_ROWS = 4096  # torch's sparse product makes an array of its own for every block
LANES = 8
CACHE_LINE = 64  # bytes
FEW_ROWS = 8


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
        padded = aligned_zeros(weight.shape[1], len(bias) + padding)
        padded[:, : len(bias)] = weight.T
        return cls(padded, bias)


def aligned_zeros(rows: int, columns: int) -> np.ndarray:
    """Zeros that begin with a cache line: where vectors lie across two, sparse products take a quarter longer."""
    room = np.zeros(rows * columns + CACHE_LINE // 4, dtype=np.float32)
    start = -room.ctypes.data % CACHE_LINE // 4
    return room[start : start + rows * columns].reshape(rows, columns)


class Engine(Protocol):
    """What computes."""

    def affine(self, block: Block, layer: Layer, out: np.ndarray) -> np.ndarray:
        """``block @ weight + bias``, in ``out`` or, where a library insists on an array of its own, there."""

    def activate(self, out: np.ndarray) -> None:
        """The activation between two layers, in place."""


class NumpyEngine:
    """NumPy, and SciPy for the first product of sparse rows."""

    def __init__(self, activation: str):
        self.leaky = activation == "leaky_relu"

    def affine(self, block: Block, layer: Layer, out: np.ndarray) -> np.ndarray:
        """``block @ weight + bias`` in ``out``."""
        weight, bias = layer
        if weight.shape[1] == len(bias):
            if isinstance(block, SparseBlock):
                out[:] = bias
                return _add_product(block, weight, out)
            np.matmul(block, weight, out=out)
            return np.add(out, bias, out=out)
        if isinstance(block, SparseBlock):
            product = _add_product(block, weight, np.zeros((block.rows, weight.shape[1]), dtype=np.float32))
        else:
            product = np.matmul(block, weight)
        return np.add(product[:, : len(bias)], bias, out=out)

    def activate(self, out: np.ndarray) -> None:
        """The activation between two layers, in place."""
        if self.leaky:
            other = np.multiply(out, LEAKY_FACTOR, out=_scratch.array("scaled", *out.shape))
        else:
            other = _scratch.array("zeros", *out.shape)  # NumPy's maximum is far slower with a scalar
        np.maximum(out, other, out=out)


def forward(x: Any, layers: Sequence[Layer], activation: str, normalize: bool, activate_last: bool) -> np.ndarray:
    """Pass rows [n, in], dense or CSR, through layers with an activation between them, and after them if asked."""
    count, last = x.shape[0], len(layers) - 1
    with np.errstate(over="ignore", invalid="ignore"):  # the caller finds what overflows in the result
        if count <= FEW_ROWS:
            return _few_rows(block_of(x, 0, count, normalize), layers, activation, activate_last)
        out = np.empty((count, len(layers[-1].bias)), dtype=np.float32)
        engine = _engine(activation)
        blocks = -(-count // (SPARSE_BLOCK_ROWS if is_sparse(x) else BLOCK_ROWS))
        rows = -(-count // blocks)  # of equal size: the calls a small block takes are lost on it
        for start in range(0, count, rows):
            result = out[start : start + rows]
            hidden = block_of(x, start, start + len(result), normalize)
            for number, layer in enumerate(layers):
                target = result if number == last else _scratch.array(number, len(result), len(layer.bias))
                hidden = engine.affine(hidden, layer, target)
                if activate_last or number < last:
                    engine.activate(hidden)
            if hidden is not result:
                result[:] = hidden
    return out


def _few_rows(block: Block, layers: Sequence[Layer], activation: str, activate_last: bool) -> np.ndarray:
    """The same for so few rows that calls and not arithmetic take the time, with as few calls as will do."""
    factor = LEAKY_FACTOR if activation == "leaky_relu" else ZERO
    hidden: Any = block
    for number, (weight, bias) in enumerate(layers, start=1):
        if isinstance(hidden, SparseBlock):
            hidden = _add_product(hidden, weight, np.zeros((hidden.rows, weight.shape[1]), dtype=np.float32))
        else:
            hidden = np.matmul(hidden, weight)
        if weight.shape[1] > len(bias):
            hidden = hidden[:, : len(bias)]
        hidden += bias
        if activate_last or number < len(layers):
            np.maximum(hidden, hidden * factor, out=hidden)
    return np.ascontiguousarray(hidden)


def block_of(x: Any, start: int, stop: int, normalize: bool) -> Block:
    """Consecutive float32 rows, divided by their absolute sums if asked."""
    if is_sparse(x):
        return _sparse_block(x, start, stop, normalize)
    rows = np.ascontiguousarray(x[start:stop], dtype=np.float32)
    return rows * row_factors(_dense_sums(rows))[:, None] if normalize else rows


class _Scratch(threading.local):
    """Arrays that stay allocated between calls: fresh pages cost as much as an activation.

    Each thread has its own, a few megabytes at the usual widths. All but "zeros" may hold anything.
    """

    def __init__(self) -> None:
        self.arrays: dict[int | str, np.ndarray] = {}

    def array(self, name: int | str, rows: int, width: int) -> np.ndarray:
        """The array of this name with this shape; whatever was in it is still there."""
        flat = self.arrays.get(name)
        if flat is None or flat.size < rows * width:
            flat = self.arrays[name] = np.zeros(rows * width, dtype=np.float32)
        return flat[: rows * width].reshape(rows, width)


_scratch = _Scratch()


def is_sparse(x: Any) -> bool:
    """Whether ``x`` is a SciPy matrix; whoever holds one has imported SciPy, and nobody else must for this."""
    return hasattr(x, "tocsr")


def _engine(activation: str) -> Engine:
    if "torch" in sys.modules:
        from gssc.deploy.torch_backend import TorchEngine

        return TorchEngine(activation)
    return NumpyEngine(activation)


def _add_product(block: SparseBlock, weight: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Add ``block @ weight`` to an array, as SciPy's own product does to zeros, which it allocates each time."""
    sizes, arrays = (block.rows, block.columns), (block.indptr, block.indices, block.data)
    add = _scipy_inner_routine()
    if add is None:
        from scipy.sparse import csr_matrix

        out += csr_matrix(arrays[::-1], shape=sizes) @ weight
    else:
        add(*sizes, weight.shape[1], *arrays, weight.reshape(-1), out.reshape(-1))
    return out


def _scipy_inner_routine() -> Any:
    """What SciPy's product calls; it is not promised to stay where it is, so there may be none."""
    try:
        from scipy.sparse._sparsetools import csr_matvecs
    except ImportError:
        return None
    return csr_matvecs


def _sparse_block(x: Any, start: int, stop: int, normalize: bool) -> SparseBlock:
    first, last = x.indptr[start], x.indptr[stop]
    data = x.data[first:last].astype(np.float32, copy=False)
    indptr = x.indptr[start : stop + 1] - first
    if normalize and len(data):
        data = data * row_factors(_sparse_sums(data, indptr)).repeat(indptr[1:] - indptr[:-1])
    return SparseBlock(data, x.indices[first:last], indptr, x.shape[1])


def _dense_sums(rows: np.ndarray) -> np.ndarray:
    """The sum of the absolute values of each row, in double precision where single has no room for one."""
    sums = np.abs(rows).sum(axis=1)
    return sums if np.isfinite(sums).all() else np.abs(rows).sum(axis=1, dtype=np.float64)


def _sparse_sums(data: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """The same of sparse rows."""
    filled, sizes = indptr[1:] > indptr[:-1], np.abs(data)
    starts = indptr[:-1] if filled.all() else indptr[:-1][filled]  # reduceat would misread empty rows
    found = np.add.reduceat(sizes, starts)
    if not np.isfinite(found).all():
        found = np.add.reduceat(sizes, starts, dtype=np.float64)
    if len(found) == len(filled):
        return found
    sums = np.zeros(len(filled), dtype=found.dtype)
    sums[filled] = found
    return sums


def row_factors(sums: np.ndarray) -> np.ndarray:
    """What normalisation multiplies each row by: one over its sum, and one where the sum is zero."""
    sums = sums.astype(np.float64)
    sums[sums == 0] = 1
    return np.minimum(1 / sums, LARGEST).astype(np.float32)
