"""Ridge regression of soft labels, in closed form: a linear model of rows that a student is averaged with.

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
MOST_NUMBERS = (
    1 << 26
)  # values of the rows x classes that a regression is fitted to; a sample of rows if there are more
ITERATIONS = 50  # maximum of the solver; 5 to 20 are usual
LEAST_SPREAD = 1e-10  # of rows, relative to their mean squared length: less is rounding
SHORTEST = 1e-30  # spread of rows whose weights still are single-precision numbers
TINY = 1e-9


def soft_ridge(rows: Any, soft: np.ndarray) -> LinearMap | None:
    r"""Fit a ridge regression to soft labels; None if all rows are nearly the same.

    .. math:: \min_W \sum_i \|s_i - \bar s - W^\top (x_i - \bar x)\|^2 + \lambda \|W\|^2

    The rows are first multiplied by one number, so that the mean of :math:`\|x_i - \bar x\|^2` is one. The penalty
    :math:`\lambda` and the temperature that turns predictions into logits are chosen by leave-one-out predictions of at
    most 1,000 rows (:func:`left_out_predictions`): the penalty by their squared error, the temperature by their cross
    entropy with the soft labels.

    Args:
        rows: scaled rows, dense or CSR, [n, d].
        soft: soft labels s, [n, C].
    """
    spread = spread_of(rows)
    if len(soft) < 3 or not SHORTEST < spread < np.inf:
        return None
    order = np.random.default_rng(0).permutation(len(soft))
    fitted = order[: max(3, MOST_NUMBERS * len(soft) // max(1, stored_values(rows) * soft.shape[1]))]
    if len(fitted) < len(soft):
        rows, soft, order = rows[fitted], soft[fitted], np.arange(len(fitted))
    rows, some = rows * np.float32(1 / spread), np.sort(order[:MOST_ROWS])
    found = left_out_predictions(rows[some], soft[some], PENALTIES)
    errors = {penalty: float(((left_out - soft[some]) ** 2).sum()) for penalty, left_out in found.items()}
    penalty = min(errors, key=lambda penalty: errors[penalty])
    temperature = best_temperature(found[penalty], soft[some])[0]
    ridge = require("sklearn.linear_model", extra="data").Ridge
    model = ridge(alpha=penalty, solver="sparse_cg", tol=1e-3, max_iter=ITERATIONS).fit(rows, soft)
    weights = np.atleast_2d(model.coef_).T / (temperature * spread)  # one class has its coefficients as a vector
    bias = np.atleast_1d(model.intercept_) / temperature
    return LinearMap(np.ascontiguousarray(weights, dtype=np.float32), bias.astype(np.float32))


def spread_of(rows: Any) -> float:
    """Return the root of the mean squared distance of dense or CSR rows from their mean; 0 if it is only rounding.

    >>> spread_of(np.array([[1.0, 0.0], [3.0, 0.0]]))
    1.0
    """
    count = rows.shape[0]
    if sp.issparse(rows):
        squares = float(np.square(rows.data, dtype=np.float64).sum())
        mean = np.bincount(rows.indices, rows.data, rows.shape[1]) / count
    else:
        squares = float(np.einsum("nd,nd->", rows, rows, dtype=np.float64))
        mean = rows.mean(axis=0, dtype=np.float64)
    found = squares / count - float(mean @ mean)
    return float(np.sqrt(found)) if found > LEAST_SPREAD * squares / count else 0.0


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
