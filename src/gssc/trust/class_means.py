"""Leave-one-out class probabilities of labelled nodes, by cosine to the class means."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_softmax

from gssc.trust.sketch import ROWS_AT_A_TIME, unit_rows

SHARPNESS = np.geomspace(1, 100, 41)  # inverse temperatures to choose from


def held_out_probabilities(rows: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    r"""Return class probabilities of labelled rows, each from the labels of all others, [n, classes].

    .. math:: p_{ic} \propto \exp(\beta \cos(z_i, \sum_{j \ne i, y_j = c} w_j z_j))

    The weights w are one at first. Then each label is weighted by how well its own row supports it,
    :math:`w_j = \sigma(10 (\cos_{j y_j} - \max_{c \ne y_j} \cos_{jc}))`, and the means are computed again, so that
    wrong labels have less influence. :math:`\beta` maximises the likelihood of the given labels. The only member of a
    class has no others to be compared with and gets equal probabilities.

    Args:
        rows: [n, w].
        labels: [n], from 0.
        classes: number of classes.
    """
    rows = unit_rows(rows)
    cosines = _cosines(rows, labels, np.ones(len(rows)), classes)
    cosines = _cosines(rows, labels, expit(-10 * margins(cosines, labels)), classes)
    return undecided_if_alone(sharpened(cosines, labels), labels)


def probabilities_by_means(
    rows: np.ndarray, labels: np.ndarray, others: np.ndarray, memberships: np.ndarray
) -> np.ndarray:
    r"""Return class probabilities of labelled rows from the class means of other rows, [n, classes].

    .. math:: p_{ic} \propto \exp(\beta \cos(z_i, \sum_j m_{jc} z_j))

    Args:
        rows: [n, w].
        labels: [n], used only to fit :math:`\beta`.
        others: [m, w].
        memberships: share of each of the other rows in each class, [m, classes].
    """
    sums = np.zeros((memberships.shape[1], others.shape[1]))
    for start in range(0, len(others), ROWS_AT_A_TIME):
        some = slice(start, start + ROWS_AT_A_TIME)
        sums += memberships[some].T @ unit_rows(others[some])
    return sharpened(unit_rows(rows) @ unit_rows(sums).T, labels)


def sharpened(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the softmax of the scores at the temperature that maximises the likelihood of the labels."""
    places = np.arange(len(labels))
    likely = [log_softmax(beta * scores, axis=1)[places, labels].sum() for beta in SHARPNESS]
    return np.exp(log_softmax(SHARPNESS[int(np.argmax(likely))] * scores.astype(np.float64), axis=1))


def undecided_if_alone(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the probabilities, replaced by equal ones for a row that is the only one of its class."""
    alone = np.bincount(labels)[labels] == 1
    return np.where(alone[:, None], 1 / probabilities.shape[1], probabilities)


def margins(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the value of the best other class minus that of the given class, [n].

    >>> margins(np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), np.array([0, 2])).round(3).tolist()
    [-0.2, 0.3]
    """
    others = values.astype(np.float64)
    places = np.arange(len(labels))
    given = others[places, labels]
    others[places, labels] = -np.inf
    return np.asarray(others.max(axis=1, initial=-np.inf) - given)


def _cosines(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, classes: int) -> np.ndarray:
    """Return the cosine of each row with the weighted sum of the other rows of each class, [n, classes]."""
    sums = np.zeros((classes, rows.shape[1]))
    np.add.at(sums, labels, weights[:, None] * rows)
    products = rows @ sums.T
    squares = np.tile((sums**2).sum(axis=1), (len(rows), 1))
    own, length = (np.arange(len(rows)), labels), (rows.astype(np.float64) ** 2).sum(axis=1)
    squares[own] += weights**2 * length - 2 * weights * products[own]
    products[own] -= weights * length
    found = products / np.sqrt(np.maximum(squares, 1e-12))
    return np.asarray(np.where(squares > 1e-9, found, 0))
