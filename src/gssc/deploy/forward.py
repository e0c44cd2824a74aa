"""The forward pass of an MLP, in little more time than the matrix products take.

There is one pass, :func:`forward`: a block of rows goes through all layers before the next one does, so that what one
layer writes is still in the cache when the next one reads it; every layer works in place, in a buffer that all blocks
share. :func:`one_row` is its fast case: the products of one row take ten microseconds and each call into NumPy half a
microsecond, so the number of calls matters. The tests compare the two.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gssc.deploy.activations import LEAKY_SLOPE as LEAKY_SLOPE
from gssc.deploy.activations import activate, activations_of

if TYPE_CHECKING:
    from gssc.deploy.model import DeployedModel

# Slopes below zero of the activations that the fast pass supports. Arrays: NumPy would convert a scalar in every call.
SLOPES = {
    "relu": np.array(0, dtype=np.float32),
    "leaky_relu": np.array(LEAKY_SLOPE, dtype=np.float32),
}
LARGEST = float(np.finfo(np.float32).max)  # upper bound of the factor of a row whose sum is near zero
# Of 128 to 10,000 rows, 2,048 was fastest at 256 hidden units: fewer fit the cache better but repeat more overhead.
BLOCK_ROWS = 2048
SPARSE_BLOCK_ROWS = 4096  # larger, because a sparse product allocates an array for every block
LANES = 8
CACHE_LINE = 64  # bytes
TAME = 1e15  # features below this cannot overflow; suppressing warnings, which takes as long as a product, is skipped
EXP_IS_SAFE = 60.0  # neither a single exponential nor their sum over all classes leaves the range of float32


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


class LinearMap(NamedTuple):
    """A linear map, with its weight as [in, out], which sparse products need and which suits dense ones as well.

    ``weight`` may be padded with up to four columns of zeros to a multiple of eight: seven outputs take nearly twice as
    long as eight. The length of ``bias`` is the true number of outputs.
    """

    weight: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, bias: np.ndarray) -> LinearMap:
        """Return the map of a weight [out, in] and a bias [out], in the precision of the weight."""
        missing = -len(bias) % LANES
        padding = missing if missing <= LANES // 2 else 0
        padded = aligned_zeros(weight.shape[1], len(bias) + padding, weight.dtype)
        padded[:, : len(bias)] = weight.T
        return cls(padded, bias)


def aligned_zeros(rows: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
    """Return zeros aligned to a cache line: sparse products take a quarter longer on vectors that lie across two."""
    size = np.dtype(dtype).itemsize
    room = np.zeros(rows * columns + CACHE_LINE // size, dtype=dtype)
    start = -room.ctypes.data % CACHE_LINE // size
    return room[start : start + rows * columns].reshape(rows, columns)


def forward(x: Any, layers: Sequence[LinearMap], activation: str, normalize: bool, activate_last: bool) -> np.ndarray:
    """Pass rows [n, in], dense or CSR, through layers with an activation between them, and after them on request."""
    count, last, dtype = x.shape[0], len(layers) - 1, layers[0].weight.dtype
    names = activations_of(activation, len(layers))
    out = np.empty((count, len(layers[-1].bias)), dtype=dtype)
    blocks = max(1, -(-count // (SPARSE_BLOCK_ROWS if is_sparse(x) else BLOCK_ROWS)))
    rows = -(
        -count // blocks
    )  # blocks of equal size: the calls for a small last one would cost as much as for a large one
    with np.errstate(over="ignore", invalid="ignore"):  # the caller finds what overflows in the result
        for start in range(0, count, max(1, rows)):
            result = out[start : start + rows]
            hidden = block_of(x, start, start + len(result), normalize, dtype)
            for number, layer in enumerate(layers):
                target = result if number == last else _scratch.array(number, len(result), len(layer.bias), dtype)
                hidden = _affine(hidden, layer, target)
                if activate_last or number < last:
                    activate(hidden, names[number], _scratch.array("spare", len(hidden), hidden.shape[1], dtype))
            if hidden is not result:
                result[:] = hidden
    return out


def one_row(x: Any, layers: Sequence[LinearMap], activation: str, normalize: bool, activate_last: bool) -> np.ndarray:
    """Return what :func:`forward` returns for a single row, dense or CSR, up to rounding."""
    if activation not in SLOPES:
        return forward(x, layers, activation, normalize, activate_last)
    values, first_weight = _values(x, layers[0].weight)
    if within(values, TAME):
        return _one_row(values, first_weight, layers, activation, normalize, activate_last)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller finds what overflows in the result
        return _one_row(values, first_weight, layers, activation, normalize, activate_last)


def _values(x: Any, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of the row, and the rows of the first weight that they are multiplied with."""
    if is_sparse(x):
        end = x.indptr[1]
        return x.data[:end], weight.take(x.indices[:end], axis=0)
    return x[0], weight


def _one_row(
    hidden: np.ndarray,
    first_weight: np.ndarray,
    layers: Sequence[LinearMap],
    activation: str,
    normalize: bool,
    activate_last: bool,
) -> np.ndarray:
    hidden = hidden.astype(np.float32, copy=False)
    if normalize and (total := float(np.abs(hidden).sum(dtype=np.float64))):
        hidden = hidden * np.float32(min(1 / total, LARGEST))
    slope, last = SLOPES[activation], len(layers) - 1
    for number, (weight, bias) in enumerate(((first_weight, layers[0].bias), *layers[1:])):
        hidden = hidden.dot(weight)
        if len(hidden) > len(bias):
            hidden = hidden[: len(bias)]
        hidden += bias
        if activate_last or number < last:
            np.maximum(hidden, hidden * slope, out=hidden)
    return np.asarray(hidden[None])


def in_double(model: DeployedModel, rows: Any, depth: int) -> np.ndarray:
    """Pass rows, dense or CSR, through the first ``depth`` layers of a model in double precision.

    A row then has the same result, up to negligible rounding, alone and among others.
    """
    layers = [LinearMap.of(weight.astype(np.float64), bias.astype(np.float64)) for weight, bias in model.layers[:depth]]
    return forward(rows, layers, model.activation, model.normalize == "row", depth < len(model.layers))


def _affine(block: Block, layer: LinearMap, out: np.ndarray) -> np.ndarray:
    """Return ``block @ weight + bias``, in ``out`` or, for sparse rows, in a new array."""
    weight, bias = layer
    if isinstance(block, SparseBlock):
        return _sparse_affine(block, layer)[:, : len(bias)]
    product = np.matmul(block, weight, out=out) if weight.shape[1] == len(bias) else np.matmul(block, weight)
    return np.add(product[:, : len(bias)], bias, out=out)


def _sparse_affine(block: SparseBlock, layer: LinearMap) -> np.ndarray:
    """Return ``block @ weight + bias``; columns that pad the weight are undefined.

    If torch is imported already, its ``embedding_bag`` is the quicker product: it took 0.9 ms where the CSR
    products of SciPy and torch took 2.3 and 2.0 (Cora's size, 256 columns, one thread). SciPy's own product spends a
    fifth of its time on fresh memory, so its internal function is called directly where this version has it.
    """
    weight, bias = layer
    if "torch" in sys.modules and len(block.data):  # embedding_bag needs at least one entry
        product = _embedding_bag(block, weight)
        product[:, : len(bias)] += bias
        return product
    sizes, arrays = (block.rows, block.columns), (block.indptr, block.indices, block.data)
    out = _scratch.array("product", block.rows, weight.shape[1], weight.dtype)
    out[:, : len(bias)] = bias
    try:
        from scipy.sparse._sparsetools import csr_matvecs
    except ImportError:
        from scipy.sparse import csr_matrix

        out += csr_matrix(arrays[::-1], shape=sizes) @ weight
    else:
        csr_matvecs(*sizes, weight.shape[1], *arrays, weight.reshape(-1), out.reshape(-1))
    return out


def _embedding_bag(block: SparseBlock, weight: np.ndarray) -> np.ndarray:
    import torch

    # torch warns about arrays it must not write to (such as a memory map); only these are copied.
    arrays = (block.indices, weight, block.indptr, block.data)
    indices, table, offsets, data = (torch.from_numpy(a if a.flags.writeable else a.copy()) for a in arrays)
    with torch.inference_mode():
        product = torch.nn.functional.embedding_bag(
            indices, table, offsets, mode="sum", per_sample_weights=data, include_last_offset=True
        )
    return product.numpy()


def block_of(x: Any, start: int, stop: int, normalize: bool, dtype: Any = np.float32) -> Block:
    """Return consecutive rows in the given precision, divided by their absolute sums on request."""
    if is_sparse(x):
        return _sparse_block(x, start, stop, normalize, dtype)
    rows = np.ascontiguousarray(x[start:stop], dtype=dtype)
    return rows * row_factors(_dense_sums(rows), dtype)[:, None] if normalize else rows


class _Scratch(threading.local):
    """Arrays that stay allocated between calls: fresh pages cost as much as an activation.

    Each thread has its own, a few megabytes at the usual widths. They may hold anything.
    """

    def __init__(self) -> None:
        self.arrays: dict[tuple[int | str, Any], np.ndarray] = {}

    def array(self, name: int | str, rows: int, width: int, dtype: Any) -> np.ndarray:
        """Return the array of this name and precision with this shape; its content is undefined."""
        flat = self.arrays.get((name, dtype))
        if flat is None or flat.size < rows * width:
            flat = self.arrays[name, dtype] = np.empty(rows * width, dtype=dtype)
        return flat[: rows * width].reshape(rows, width)


_scratch = _Scratch()


def is_sparse(x: Any) -> bool:
    """Return whether ``x`` is a SciPy matrix; it does not import SciPy, since the caller has."""
    return hasattr(x, "tocsr")


def _sparse_block(x: Any, start: int, stop: int, normalize: bool, dtype: Any) -> SparseBlock:
    first, last = x.indptr[start], x.indptr[stop]
    data = x.data[first:last].astype(dtype, copy=False)
    indptr = x.indptr[start : stop + 1] - first
    if normalize and len(data):
        data = data * row_factors(_sparse_sums(data, indptr), dtype).repeat(indptr[1:] - indptr[:-1])
    return SparseBlock(data, x.indices[first:last], indptr, x.shape[1])


def _dense_sums(rows: np.ndarray) -> np.ndarray:
    """Return the sum of the absolute values of each row, in double precision where single has no room for one."""
    sums = np.abs(rows).sum(axis=1)
    return sums if np.isfinite(sums).all() else np.abs(rows).sum(axis=1, dtype=np.float64)


def _sparse_sums(data: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the sum of the absolute values of each sparse row."""
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


def row_factors(sums: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
    """Return the factors of row normalisation: one over its sum, and one where the sum is zero."""
    sums = sums.astype(np.float64)
    sums[sums == 0] = 1
    return np.minimum(1 / sums, LARGEST).astype(dtype)


def softmax_of_one(scores: np.ndarray) -> np.ndarray:
    """Return scores within ``EXP_IS_SAFE`` as probabilities, computed in place, [1, classes]."""
    row = scores[0]
    np.exp(row, out=row)
    row /= row.dot(_ones(len(row)))  # a sum takes twice as long
    return scores


def within(values: np.ndarray, limit: float) -> bool:
    """Return whether every value is closer to zero than this; NaN is not."""
    return not len(values) or bool(values[values.argmin()] > -limit and values[values.argmax()] < limit)


@lru_cache(maxsize=16)
def _ones(count: int) -> np.ndarray:
    return np.ones(count, dtype=np.float32)
