"""Correct opinions by labels: either the class shares only, or confused classes as well.

An opinion is a teacher's class probabilities of every node. Its class shares are wrong if those of the training labels
differ from those of the graph, for example with 20 labels per class. Classes are confused if training labels are wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

PENALTY = 5.0  # on the distance from the identity, in the unit of the loss of one label
MOST_CLASSES = 50  # the number of parameters grows with the square
LABELS_FOR_CONFUSION = 200  # minimum number of judging labels to correct confused classes
LABELS_PER_NUMBER = 5  # judging labels per parameter; with fewer it overfits them, and they no longer rank opinions
SPREAD = 1.5  # standard deviation of log-probabilities; about that of calibrated opinions on citation graphs
LEAST = 1e-7  # added to probabilities before the logarithm
FOLDS = 5
STEPS = 100

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None], np.ndarray]


def correction_for(labels: int, classes: int) -> Fit | None:
    """Return the fit function of the fullest correction that this many labels suffice for; None if there is none.

    >>> [correction_for(labels, classes) for labels, classes in ((500, 7), (500, 15), (50, 15))] == [
    ...     fit_confusion, fit_shares, None]
    True
    """
    if 1 < classes <= MOST_CLASSES and labels >= max(LABELS_FOR_CONFUSION, LABELS_PER_NUMBER * classes * (classes + 1)):
        return fit_confusion
    return fit_shares if classes > 1 and labels >= LABELS_PER_NUMBER * (classes + 1) else None


def fit_shares(
    logs: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None, start: np.ndarray | None = None
) -> np.ndarray:
    r"""Return the map that changes the class shares only: its factor a and its vector b, [1 + C].

    It is the map of :func:`fit_confusion` with :math:`W = a I`, which has C + 1 parameters. Arguments as there.
    """
    count, classes = logs.shape
    weights = np.ones((count, 1)) if weight is None else (weight / weight.mean())[:, None]
    wanted = np.eye(classes)[labels]
    identity = np.eye(1, 1 + classes)[0]
    penalty = PENALTY * np.concatenate([[classes], np.ones(classes)])  # the factor is that of C entries of W

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        likely = log_softmax(values[0] * logs + values[1:], axis=1)
        wrong, away = weights * (np.exp(likely) - wanted), values - identity
        slope = np.concatenate([[(wrong * logs).sum()], wrong.sum(axis=0)]) + penalty * away
        return float(-(weights * likely * wanted).sum() + (penalty * away**2).sum() / 2), slope

    return _minimum(loss, identity if start is None else start)


def fit_confusion(
    logs: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None, start: np.ndarray | None = None
) -> np.ndarray:
    r"""Return the affine map of log-probabilities that maximises the penalised likelihood of labels, [C, C + 1].

    .. math:: \min_{W, b} \; -\sum_i w_i \log \mathrm{softmax}(W \log p_i + b)_{y_i}
        + \tfrac{\lambda}{2} \left( \lVert W - I \rVert^2 + \lVert b \rVert^2 \right)

    This is Dirichlet calibration (Kull et al. 2019), with a penalty that keeps the map near the identity. The vector b
    changes the class shares. W moves probability between classes that are confused, for example because some
    nodes of one class carry the label of another.

    Args:
        logs: log-probabilities of labelled nodes, [n, C].
        labels: their classes, [n].
        weight: weight of each node, [n], normalised to mean one; all one if left out.
        start: initial map of the optimisation; the identity if left out.
    """
    count, classes = logs.shape
    weights = np.ones((count, 1)) if weight is None else (weight / weight.mean())[:, None]
    inputs = np.column_stack([logs, np.ones(count)]).astype(np.float64)
    wanted = np.eye(classes)[labels]
    identity = np.eye(classes, classes + 1)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        moved = values.reshape(identity.shape)
        likely = log_softmax(inputs @ moved.T, axis=1)
        away = moved - identity
        slope = (weights * (np.exp(likely) - wanted)).T @ inputs + PENALTY * away
        return float(-(weights * likely * wanted).sum() + PENALTY / 2 * (away**2).sum()), slope.ravel()

    return _minimum(loss, (identity if start is None else start).ravel()).reshape(identity.shape)


def _minimum(loss: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> np.ndarray:
    """Return the parameters that minimise a loss, which returns its value and slope."""
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x)


def corrected(logs: np.ndarray, correction: np.ndarray) -> np.ndarray:
    """Return class probabilities after a correction of confused classes or of class shares, float32 [n, C]."""
    if correction.ndim == 1:
        moved = correction[0] * logs + correction[1:]
    else:
        moved = logs @ correction[:, :-1].T + correction[:, -1]
    return np.asarray(np.exp(log_softmax(moved, axis=1)), dtype=np.float32)


def gain(
    fit: Fit,
    logs: np.ndarray,
    labels: np.ndarray,
    usual: np.ndarray,
    rng: np.random.Generator,
    weight: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return the cross-validated gain in mean log-likelihood by a correction, and its standard error.

    Args:
        fit: function that fits the correction.
        logs: log-probabilities of labelled nodes, [n, C].
        labels: their classes, [n].
        usual: log-likelihood of each label without a correction, [n].
        rng: for the folds.
        weight: weight of each node, [n]; all one if left out.
    """
    weights = np.ones(len(labels)) if weight is None else weight / weight.mean()
    folds = rng.permutation(len(labels)) % FOLDS
    start, likely = fit(logs, labels, weights, None), np.empty(len(labels))
    for fold in range(FOLDS):
        out, rest = np.flatnonzero(folds == fold), folds != fold
        correction = fit(logs[rest], labels[rest], weights[rest], start)
        likely[out] = corrected(logs[out], correction)[np.arange(len(out)), labels[out]]
    gains = weights * (np.log(likely + LEAST) - usual)
    return float(gains.mean()), float(gains.std() / np.sqrt(len(labels)))


def on_one_scale(view: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return log-probabilities, centred in each row and scaled to a fixed standard deviation over ``nodes``, [N, C].

    The penalty of a correction is the same for all opinions, so their log-probabilities must be on the same scale.
    """
    logs = np.log(view + LEAST)
    logs -= logs.mean(axis=1, keepdims=True)
    return np.asarray(logs * (SPREAD / max(float(logs[nodes].std()), LEAST)))
