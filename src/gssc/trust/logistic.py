"""Logistic regression with a few inputs and a fixed penalty, by Newton's method."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

RIDGE = 1.0
STEPS = 50


def fit_logistic(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    r"""Return the weights that maximise the log likelihood of the targets minus half the squared weights, [k + 1].

    .. math:: \max_w \sum_n t_n \log \sigma_n + (1 - t_n) \log (1 - \sigma_n) - \tfrac12 \sum_{m \le k} w_m^2,
        \quad \sigma_n = \sigma(w_0 + \sum_m w_m x_{nm})

    The penalty keeps the weights finite if the classes are separable; the constant, which comes first, has no penalty.

    Args:
        inputs: [n, k], of about unit scale.
        targets: [n], 0 or 1, or a value between them.
    """
    design = np.column_stack([np.ones(len(inputs)), inputs]).astype(np.float64)
    penalty = np.full(design.shape[1], RIDGE)
    penalty[0] = 1e-6  # if all targets are the same, the constant would diverge
    weights = np.zeros(design.shape[1])
    loss = _loss(design, targets, weights, penalty)
    for _ in range(STEPS):
        likely = expit(design @ weights)
        slope = design.T @ (likely - targets) + penalty * weights
        curvature = (design * (likely * (1 - likely))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        size = 1.0
        while (new := _loss(design, targets, weights - size * step, penalty)) > loss and size > 1e-6:
            size /= 2
        if new >= loss - 1e-10 * len(design):
            break
        weights, loss = weights - size * step, new
    return weights


def log_odds(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the log odds of target 1, [n]."""
    return np.asarray(weights[0] + inputs @ weights[1:])


def _loss(design: np.ndarray, targets: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> float:
    scores = design @ weights
    return float((np.logaddexp(0, scores) - targets * scores).sum() + 0.5 * (penalty * weights**2).sum())
