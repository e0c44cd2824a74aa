"""Teachers for narrow rows that model each class as Gaussian: linear discriminant analysis and naive Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from gssc.extras import require
from gssc.learner.linear import Fit, quiet
from gssc.learner.trees import sklearn_fit

MOST_COLUMNS = 256  # with more, the covariance takes too long
VARIANCE_ADDED = 0.03  # to every column in naive Bayes, as a share of the largest variance
TINY = 1e-9


def normal_teachers(classes: int) -> dict[str, Fit]:
    """Return the fit functions of both teachers by name, as in :func:`gssc.learner.linear.linear_teachers`."""
    return {
        "discriminant analysis": discriminant_analysis(classes),
        "Gaussian naive Bayes": gaussian_naive_bayes(classes),
    }


def gaussian_naive_bayes(classes: int) -> Fit:
    """Return the fit function of Gaussian naive Bayes, in double precision so that squares do not overflow."""
    model = require("sklearn.naive_bayes", extra="data").GaussianNB
    plain = sklearn_fit(lambda: model(var_smoothing=VARIANCE_ADDED), classes)

    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
        rows = inputs.astype(np.float64)
        if not np.ptp(rows[train], axis=0).any():  # all training rows are the same: predict the class shares
            shares = np.bincount(labels, weight, minlength=classes)
            return np.tile((shares / shares.sum()).astype(np.float32), (len(rows), 1))
        return plain(rows, train, labels, weight)

    return fit


def discriminant_analysis(classes: int) -> Fit:
    r"""Return the fit function of linear discriminant analysis with a shrunk covariance (Ledoit and Wolf 2004).

    .. math:: \log p(c \mid x)
        = x^\top \Sigma^{-1} \mu_c - \tfrac12 \mu_c^\top \Sigma^{-1} \mu_c + \log \pi_c + \text{const}
    """
    ledoit_wolf = require("sklearn.covariance", extra="data").ledoit_wolf

    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
        weights = np.ones(len(train)) if weight is None else np.asarray(weight, dtype=np.float64)
        shares = np.bincount(labels, weights, minlength=classes)
        rows = inputs[train].astype(np.float64)
        means = np.zeros((classes, rows.shape[1]))
        np.add.at(means, labels, weights[:, None] * rows)
        means /= np.maximum(shares, TINY)[:, None]
        centred = (rows - means[labels]) * np.sqrt(weights / weights.mean())[:, None]
        with quiet():
            covariance = ledoit_wolf(centred, assume_centered=True)[0]
        covariance += TINY * (1 + np.trace(covariance)) * np.eye(len(covariance))
        directions = np.linalg.solve(covariance, means.T)
        bias = np.log(np.maximum(shares / shares.sum(), TINY)) - (means * directions.T).sum(axis=1) / 2
        bias[shares == 0] = -np.inf
        return np.asarray(softmax(inputs @ directions + bias, axis=1), dtype=np.float32)

    return fit
