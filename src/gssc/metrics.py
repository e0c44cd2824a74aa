"""Metrics as pure functions: arrays in, a number out."""

from __future__ import annotations

import numpy as np


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows whose highest score is their label's; rows with label -1 do not count; NaN if none do.

    >>> accuracy(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1]))
    0.6666666666666666
    """
    known = labels >= 0
    if not known.any():
        return float("nan")
    return float((scores[known].argmax(1) == labels[known]).mean())


def roc_auc(scores: np.ndarray, targets: np.ndarray) -> float:
    """Return the area under the ROC curve, averaged over tasks that have both classes; NaN marks missing targets.

    Equal scores share their rank, so a constant score gives 0.5.

    >>> roc_auc(np.array([[0.1], [0.4], [0.35], [0.8]]), np.array([[0], [0], [1], [1]], dtype=float))
    0.75
    """
    areas = []
    for score, target in zip(scores.T, targets.T, strict=True):
        known = ~np.isnan(target)
        positive = target[known] > 0.5
        ones, zeros = int(positive.sum()), int((~positive).sum())
        if ones and zeros:
            _, place, count = np.unique(score[known], return_inverse=True, return_counts=True)
            rank = (np.cumsum(count) - (count - 1) / 2)[place]  # mean rank of ties, from 1
            areas.append((rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))
    return float(np.mean(areas)) if areas else float("nan")


def rmse(predicted: np.ndarray, targets: np.ndarray) -> float:
    """Return the root mean squared error over known targets (not NaN); NaN if there are none.

    >>> round(rmse(np.array([[1.0], [2.0], [9.0]]), np.array([[1.0], [4.0], [np.nan]])), 4)  # sqrt((0 + 4) / 2)
    1.4142
    """
    known = ~np.isnan(targets)
    if not known.any():
        return float("nan")
    return float(np.sqrt(np.square(predicted[known].astype(np.float64) - targets[known]).mean()))


def log_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross entropy of logits; rows with label -1 do not count; NaN if none do."""
    known = labels >= 0
    if not known.any():
        return float("nan")
    rows = logits[known].astype(np.float64)
    top = rows.max(1, keepdims=True)
    log_total = np.log(np.exp(rows - top).sum(1)) + top[:, 0]
    return float((log_total - rows[np.arange(len(rows)), labels[known]]).mean())


def binary_log_loss(logits: np.ndarray, targets: np.ndarray) -> float:
    """Return the mean binary cross entropy of logits over known targets (not NaN); NaN if there are none."""
    known = ~np.isnan(targets)
    chosen, target = logits[known].astype(np.float64), targets[known]
    losses = np.logaddexp(0, chosen) - target * chosen
    return float(losses.mean()) if losses.size else float("nan")


def edge_homophily(labels: np.ndarray, pairs: np.ndarray) -> float:
    """Return the share of pairs [2, P] with the same label, among those with both labels known (Eq. 4); NaN if none."""
    first, second = labels[pairs[0]], labels[pairs[1]]
    known = (first >= 0) & (second >= 0)
    return float((first[known] == second[known]).mean()) if known.any() else float("nan")
