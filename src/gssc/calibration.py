"""Calibration as pure functions: the gap between confidence and accuracy, and the temperature that closes most of it.

The method is temperature scaling (Guo et al., On Calibration of Modern Neural Networks, ICML 2017): logits are divided
by one number, fitted on validation nodes, before they become probabilities. Predicted classes stay the same.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

# Weight of the prior, in rows. Validation rows are usually few: without a prior, a handful of rows that all happen to
# be right would drive the temperature to its lower bound.
PRIOR_ROWS = 10
LEAST, GREATEST = 0.02, 50.0  # range of temperatures: beyond it, probabilities are 0 and 1, or all equal


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Return the mean gap between confidence and accuracy, over bins of equal width, weighted by the rows in each.

    The confidence of a row is its highest probability. A bin includes its upper end, not its lower one.

    >>> probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    >>> round(expected_calibration_error(probabilities, np.array([0, 0, 1, 0])), 6)  # (2 x 0.1 + 2 x 0.1) / 4
    0.1

    Args:
        probabilities: probability of each class, [n, C].
        labels: class of each row, -1 where unknown; such rows do not count. NaN if none are left.
        bins: number of bins.
    """
    known = labels >= 0
    if not known.any():
        return float("nan")
    confidence = probabilities[known].max(axis=1).astype(np.float64)
    right = probabilities[known].argmax(axis=1) == labels[known]
    bin_of_row = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(bin_of_row, right - confidence, minlength=bins)  # rows x (accuracy - confidence) of each bin
    return float(np.abs(gaps).sum() / known.sum())


def fit_temperature(
    logits: np.ndarray, labels: np.ndarray, prior_rows: float = 0.0, weight: np.ndarray | None = None
) -> float:
    r"""Return the temperature T with the least negative log-likelihood on labelled rows; 1 if it makes no difference.

    .. math:: \min_T \; -\sum_i \log p_i^T(y_i) - \frac{m}{n} \sum_i \sum_c p_i^1(c) \log p_i^T(c)

    The second term counts as m more rows, whose labels are distributed as the unscaled probabilities. Without it, a few
    rows that all happen to be right would drive T to zero; with hundreds of rows it hardly matters. The sum is convex
    in 1/T.

    >>> round(fit_temperature(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])), 3)  # 2 / T = log 3
    1.82

    Args:
        logits: scores before the softmax, [n, C].
        labels: class of each row, -1 where unknown; such rows do not count.
        prior_rows: m.
        weight: weight of each row, [n]; all one if left out. Their mean over labelled rows does not matter.
    """
    known = labels >= 0
    if not known.any() or logits.shape[1] == 1:
        return 1.0
    scores, targets = logits[known].astype(np.float64), labels[known]
    wanted = np.exp(log_softmax(scores, axis=1)) * (prior_rows / len(targets))
    wanted[np.arange(len(targets)), targets] += 1 if weight is None else weight[known] / weight[known].mean()
    return best_temperature(scores, wanted)[0]


def best_temperature(logits: np.ndarray, soft: np.ndarray) -> tuple[float, float]:
    """Return the temperature with the least mean cross entropy with soft labels, and that cross entropy.

    >>> temperature, loss = best_temperature(np.log([[0.8, 0.2]]), np.array([[0.5, 0.5]]))
    >>> temperature > 40, round(loss, 2)
    (True, 0.69)

    Args:
        logits: scores before the softmax, [n, C].
        soft: weight of each class, [n, C].
    """
    scores = logits.astype(np.float64)

    def loss(log_temperature: float) -> float:
        return float(-(soft * log_softmax(scores / np.exp(log_temperature), axis=1)).sum() / len(scores))

    found = minimize_scalar(loss, bounds=(np.log(LEAST), np.log(GREATEST)), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x)), float(found.fun)
