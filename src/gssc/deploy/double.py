"""Rows through a deployed model in double precision, slower than :mod:`gssc.deploy.forward` and nearer to exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from gssc.deploy.forward import BLOCK_ROWS, LEAKY_SLOPE
from gssc.deploy.model import DeployedModel


def in_double(model: DeployedModel, rows: Any, depth: int) -> np.ndarray:
    """Rows, dense or CSR, through the first ``depth`` layers, [rows, width of the last of them].

    A row then has the same result, to the last digits anyone looks at, alone and among others.
    """
    starts = range(0, rows.shape[0], BLOCK_ROWS)
    return np.concatenate([_block(model, rows[start : start + BLOCK_ROWS], depth) for start in starts])


def _block(model: DeployedModel, rows: Any, depth: int) -> np.ndarray:
    hidden = rows.astype(np.float64)
    if model.normalize == "row":
        hidden = _over_row_sums(hidden)
    slope = LEAKY_SLOPE if model.activation == "leaky_relu" else 0.0
    for number, (weight, bias) in enumerate(model.layers[:depth], start=1):
        hidden = hidden @ weight.T.astype(np.float64) + bias
        if number < len(model.layers):
            hidden = np.maximum(hidden, slope * hidden)
    return np.asarray(hidden)


def _over_row_sums(rows: Any) -> Any:
    sums = np.asarray(abs(rows).sum(axis=1)).ravel()
    factors = 1 / np.where(sums == 0, 1.0, sums)
    if isinstance(rows, np.ndarray):
        return rows * factors[:, None]
    rows.data *= np.repeat(factors, np.diff(rows.indptr))  # a copy already, made by astype
    return rows
