"""One row through the layers of an MLP, with as few calls as will do.

The products of one row take ten microseconds, and a call into NumPy half of one: here the calls are what counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gssc.deploy.forward import LARGEST, LEAKY_FACTOR, ZERO, Layer, is_sparse

TAME = 1e15  # features below it overflow nowhere, so no warning need be suppressed, which takes as long as a product
EXP_IS_SAFE = 60.0  # neither the sum of as many exponentials as there may be classes nor one of them leaves the range


def one_row(x: Any, layers: Sequence[Layer], activation: str, normalize: bool, activate_last: bool) -> np.ndarray:
    """What :func:`gssc.deploy.forward.forward` gives for a single row, dense or CSR, up to rounding."""
    values, met = _values(x, layers[0].weight)
    if within(values, TAME):
        return _through(values, met, layers, activation, normalize, activate_last)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller finds what overflows in the result
        return _through(values, met, layers, activation, normalize, activate_last)


def _values(x: Any, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of the row, and the rows of the first weight that they meet."""
    if is_sparse(x):
        end = x.indptr[1]
        return x.data[:end], weight.take(x.indices[:end], axis=0)
    return x[0], weight


def _through(
    hidden: np.ndarray,
    met: np.ndarray,
    layers: Sequence[Layer],
    activation: str,
    normalize: bool,
    activate_last: bool,
) -> np.ndarray:
    hidden = hidden.astype(np.float32, copy=False)
    if normalize and (total := float(np.abs(hidden).sum(dtype=np.float64))):
        hidden = hidden * np.float32(min(1 / total, LARGEST))
    leaky, last = activation == "leaky_relu", len(layers) - 1
    for number, (weight, bias) in enumerate(((met, layers[0].bias), *layers[1:])):
        hidden = hidden.dot(weight)
        if len(hidden) > len(bias):
            hidden = hidden[: len(bias)]
        hidden += bias
        if activate_last or number < last:
            np.maximum(hidden, hidden * LEAKY_FACTOR if leaky else ZERO, out=hidden)
    return np.asarray(hidden[None])


def softmax_of_one(scores: np.ndarray) -> np.ndarray:
    """Probabilities in place of scores that are within ``EXP_IS_SAFE``, [1, classes]."""
    row = scores[0]
    np.exp(row, out=row)
    row /= row.dot(_ones(len(row)))  # a sum takes twice as long
    return scores


def within(values: np.ndarray, limit: float) -> bool:
    """Whether every value is nearer to zero than this; NaN is not."""
    return not len(values) or bool(values[values.argmin()] > -limit and values[values.argmax()] < limit)


@lru_cache(maxsize=16)
def _ones(count: int) -> np.ndarray:
    return np.ones(count, dtype=np.float32)
