"""Leave-one-out class probabilities of labelled nodes, by ridge regression."""

from __future__ import annotations

import numpy as np

from gssc.trust.class_means import sharpened, undecided_if_alone
from gssc.trust.sketch import unit_rows

RIDGE = 1.0


def held_out_by_regression(rows: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    r"""Return class probabilities of labelled rows, each from a regression on all others, [n, classes].

    Ridge regression of the classes (one for the label of a row, zero elsewhere, minus their mean) on unit rows Z. The
    leave-one-out prediction of a row needs no second fit:

    .. math:: \hat y_i^{(-i)} = y_i - \frac{y_i - \hat y_i}{1 - h_{ii}}, \quad
        H = Z (Z^T Z + I)^{-1} Z^T, \quad \hat y = H y

    Args:
        rows: [n, w].
        labels: [n], from 0.
        classes: number of classes.
    """
    rows = unit_rows(rows)
    targets = np.eye(classes)[labels] - 1 / classes
    if len(rows) <= rows.shape[1]:  # the dual form, whose matrix is smaller, gives the same result
        inverse = _inverse(rows @ rows.T)
        missed = inverse @ targets / np.diag(inverse)[:, None]
    else:
        shares = rows @ _inverse(rows.T @ rows).astype(np.float32)
        leverage = np.einsum("nw,nw->n", shares, rows, dtype=np.float64)
        missed = (targets - shares @ (rows.T @ targets)) / (1 - leverage)[:, None]
    return undecided_if_alone(sharpened(targets - missed, labels), labels)


def regression_scores(rows: np.ndarray, labels: np.ndarray, classes: int, others: np.ndarray) -> np.ndarray:
    """Return class scores of other rows by a ridge regression on labelled rows, [m, classes].

    Args:
        rows: labelled rows, [n, w].
        labels: their classes, [n].
        classes: number of classes.
        others: rows to score, [m, w].
    """
    rows, others = unit_rows(rows), unit_rows(others)
    targets = np.eye(classes)[labels] - 1 / classes
    if len(rows) <= rows.shape[1]:
        return np.asarray((others @ rows.T) @ (_inverse(rows @ rows.T) @ targets))
    return np.asarray(others @ (_inverse(rows.T @ rows) @ (rows.T @ targets)))


def _inverse(products: np.ndarray) -> np.ndarray:
    return np.linalg.inv(products.astype(np.float64) + RIDGE * np.eye(len(products)))
