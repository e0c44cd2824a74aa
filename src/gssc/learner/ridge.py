"""Ridge regression of soft labels, in closed form: a linear model of wide rows that a student is averaged with.

On wide unseen rows it is about as accurate as a network that learns the same soft labels, and it errs on other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.calibration import best_temperature
from gssc.extras import require
from gssc.features import stored_values
from gssc.models.student import LinearMap

PENALTIES = (0.01, 0.1, 1.0)  # for rows whose mean squared length is one
MOST_ROWS = 1000  # that choose penalty and temperature
SHORTEST = 1e-30  # length of rows whose weights still are single-precision numbers
TINY = 1e-9
MOST_NUMBERS = 1 << 28  # values of the rows x classes; with more it takes several seconds and is left out


def ridge_map(rows: Any, soft: np.ndarray, seed: int = 0) -> LinearMap | None:
    r"""Fit a ridge regression to soft labels; None if all rows are nearly the same, or if it would take long.

    .. math:: \min_W \sum_i \|s_i - \bar s - W^\top (x_i - \bar x)\|^2 + \lambda \|W\|^2

    The rows are first multiplied by one number, so that the mean of :math:`\|x_i - \bar x\|^2` is one. The penalty
    :math:`\lambda` and the temperature that turns predictions into logits are chosen by leave-one-out predictions of at
    most 1,000 rows (:func:`left_out_predictions`): the penalty by their squared error, the temperature by their cross
    entropy with the soft labels.

    Args:
        rows: scaled rows, dense or CSR, [n, d].
        soft: soft labels s, [n, C].
        seed: seed of the choice of rows.
    """
    if len(soft) < 3 or stored_values(rows) * soft.shape[1] > MOST_NUMBERS:
        return None
    length = mean_squared_length(rows) ** 0.5
    if not SHORTEST < length < np.inf:
        return None
    rows = rows * np.float32(1 / length)
    some = np.sort(np.random.default_rng([seed, 13]).permutation(len(soft))[:MOST_ROWS])
    found = left_out_predictions(rows[some], soft[some], PENALTIES)
    errors = {penalty: float(((left_out - soft[some]) ** 2).sum()) for penalty, left_out in found.items()}
    penalty = min(errors, key=lambda penalty: errors[penalty])
    temperature = best_temperature(found[penalty], soft[some])[0]
    model = require("sklearn.linear_model", extra="data").Ridge(alpha=penalty, solver="sparse_cg", tol=1e-3)
    model.fit(rows, soft)
    weights = np.atleast_2d(model.coef_).T / (temperature * length)  # one class has its coefficients as a vector
    bias = np.atleast_1d(model.intercept_) / temperature
    return LinearMap(np.ascontiguousarray(weights, dtype=np.float32), bias.astype(np.float32))


def mean_squared_length(rows: Any) -> float:
    """Return the mean squared length of dense or CSR rows after subtracting their mean.

    >>> mean_squared_length(np.array([[1.0, 0.0], [3.0, 0.0]]))
    1.0
    """
    squares = float(rows.multiply(rows).sum()) if sp.issparse(rows) else float(np.square(rows, dtype=np.float64).sum())
    mean = np.asarray(rows.mean(axis=0), dtype=np.float64).ravel()
    return max(0.0, squares / rows.shape[0] - float(mean @ mean))


def left_out_predictions(rows: Any, soft: np.ndarray, penalties: Sequence[float]) -> dict[float, np.ndarray]:
    r"""Return the prediction of every row by a ridge regression on the other rows, [n, C], for each penalty.

    With the eigenvalues of the centred Gram matrix, no regression is fitted twice:

    .. math:: \hat s_i^{(-i)} = s_i - \frac{s_i - \hat s_i}{1 - h_{ii}}, \quad
        H = \tfrac1n 1 1^\top + U \,\mathrm{diag}\!\left(\frac{e_k}{e_k + \lambda}\right) U^\top, \quad \hat s = H s

    Args:
        rows: dense or CSR, [n, d].
        soft: soft labels, [n, C].
        penalties: the penalties, above zero.
    """
    gram = rows @ rows.T
    gram = (gram.toarray() if sp.issparse(gram) else gram).astype(np.float64)
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(gram)
    values, mean = np.maximum(values, 0), soft.mean(axis=0, dtype=np.float64)
    within, squared = vectors.T @ (soft - mean), np.square(vectors)
    found = {}
    for penalty in penalties:
        shrunk = values / (values + penalty)
        missed = soft - mean - vectors @ (shrunk[:, None] * within)
        leverage = 1 / len(soft) + squared @ shrunk
        found[penalty] = soft - missed / np.maximum(1 - leverage, TINY)[:, None]
    return found
