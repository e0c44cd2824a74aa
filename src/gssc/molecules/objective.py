"""Loss, score and scale of graph-level targets, binary or measured; unknown targets are left out."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gssc.molecules.molecule_set import MoleculeSet

MOST_WEIGHT = 20.0  # bound of the weight of positives, and its inverse the lower bound


def average_precision(scores: np.ndarray, targets: np.ndarray) -> float:
    """Return the average precision, averaged over the targets that have both classes.

    >>> average_precision(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [1]], dtype=float))
    0.8333333333333333
    """
    values = []
    for score, target in zip(scores.T, targets.T, strict=True):
        known = ~np.isnan(target)
        positive = target[known] > 0.5
        if positive.any() and not positive.all():
            order = np.argsort(-score[known], kind="stable")
            ranked, hits = score[known][order], np.cumsum(positive[order])
            last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))  # ties share the lowest precision
            gained = np.diff(hits[last], prepend=0)
            values.append(float((gained * hits[last] / (last + 1)).sum() / hits[-1]))
    return float(np.mean(values)) if values else float("nan")


class GraphObjective:
    """Loss and score of graph-level targets.

    Binary targets: cross entropy, with the positives of each target weighted so that both classes have the same total
    weight (by a factor of at most 20). Measured targets: squared error of standardised targets.

    Args:
        molecules: the set; only the targets of its training molecules are used.
        balance: whether to weight the classes.
        shares: share of the epochs that contain each molecule of the set, [M]; by default all of them.
    """

    def __init__(self, molecules: MoleculeSet, balance: bool = True, shares: np.ndarray | None = None):
        self.task = molecules.task
        self.regression = molecules.is_regression
        seen = molecules.targets[molecules.train].astype(np.float64)
        known = ~np.isnan(seen)
        counts = known.sum(0)
        totals = np.where(known, seen, 0).sum(0)
        self.mean = totals / np.maximum(counts, 1)
        spread = np.sqrt(np.where(known, (seen - self.mean) ** 2, 0).sum(0) / np.maximum(counts, 1))
        self.scale = np.where(spread > 0, spread, 1.0)
        weight = np.ones(len(totals))
        if balance:
            shown = np.ones(len(seen)) if shares is None else shares[molecules.train]
            positives, negatives = shown @ (seen == 1), shown @ (seen == 0)
            weight = np.where(positives > 0, negatives / np.maximum(positives, 1), 1.0)
        self.positive_weight = torch.from_numpy(np.clip(weight, 1 / MOST_WEIGHT, MOST_WEIGHT).astype(np.float32))

    def wanted(self, targets: np.ndarray) -> Tensor:
        """Return targets as the loss expects them: measured ones are standardised."""
        scaled = (targets - self.mean) / self.scale if self.regression else targets
        return torch.from_numpy(np.asarray(scaled, dtype=np.float32))

    def loss(self, logits: Tensor, wanted: Tensor) -> Tensor:
        """Return the mean loss over known targets, both [B, T]; soft targets between 0 and 1 are allowed."""
        known = ~wanted.isnan()
        if not known.any():
            return logits.sum() * 0
        chosen, truth = logits[known], wanted[known]
        if self.regression:
            return F.mse_loss(chosen, truth)
        weight = self.positive_weight.expand_as(wanted)[known]
        return F.binary_cross_entropy_with_logits(chosen, truth, pos_weight=weight)

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """Return probabilities, or measured values in their own unit."""
        if self.regression:
            return logits * self.scale + self.mean
        return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))

    def score(self, logits: np.ndarray, targets: np.ndarray) -> float:
        """Return the task's metric: ROC-AUC averaged over targets with both classes, or the negative RMSE."""
        return self.task.score(self.outputs(logits) if self.regression else logits, targets)
