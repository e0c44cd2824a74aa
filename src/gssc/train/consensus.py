"""Consensus: soft labels for every node of the training graph, averaged over recent epochs and over the neighbourhood.

The predictions of one epoch are noisy: a single step can change the accuracy by a point. Their mean over recent epochs
varies less, and averaging it over the neighbours that agree with a node is more accurate still. If wrong edges or
labels make later epochs worse, the validation score selects the epoch with the best mean. By training towards this
consensus for a few cheap epochs, the MLP learns what would otherwise need an ensemble and the graph at prediction time.
Neither the text nor the released program has this step; the presets ``paper`` and ``reference`` leave it out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.tasks import Task

DECAY = 0.97  # of the running mean of predictions, per epoch


class Consensus:
    """Running mean of predictions, and the soft labels made from it by smoothing over the graph.

    Args:
        task: the prediction task.
        edges: undirected edges of the training graph, [2, E].
        labels: training labels, -1 or NaN where unknown, [N] or [N, T]; known labels are kept.
        steps: number of averaging steps over neighbours.
    """

    def __init__(self, task: Task, edges: np.ndarray, labels: Tensor, steps: int):
        self.task, self.edges, self.labels, self.steps = task, edges, labels, steps
        self.total: Tensor | None = None  # decayed sum of probabilities, [N, C]
        self.weight = 0.0  # decayed count of epochs
        self.kept: Tensor | None = None  # the mean with the highest validation score, [N, C]
        self.merit = -math.inf  # its validation score

    def take_in(self, probabilities: Tensor) -> None:
        """Add the probabilities of one epoch, [N, C]."""
        self.total = probabilities.clone() if self.total is None else DECAY * self.total + probabilities
        self.weight = DECAY * self.weight + 1

    def mean(self) -> Tensor:
        """Return the current running mean, [N, C]."""
        if self.total is None:
            raise ValueError("no predictions have been added")
        return self.total / self.weight

    def keep_if_best(self, mean: Tensor, merit: float) -> None:
        """Keep this mean unless an earlier one has a higher validation score; without scores (NaN) keep the last."""
        if not merit < self.merit:
            self.kept, self.merit = mean, max(self.merit, merit)

    def soft_labels(self) -> Tensor:
        """Return the mean with known labels inserted, averaged over neighbours in proportion to agreement, [N, C]."""
        soft = self.task.with_known(self.mean() if self.kept is None else self.kept, self.labels)
        agreement = self.task.soft_agreement(soft, *torch.from_numpy(self.edges))
        walk = averaging_matrix(self.edges, agreement.numpy(), len(soft))
        for _ in range(self.steps):
            spread = torch.from_numpy(walk @ soft.numpy())
            soft = self.task.with_known(self.task.rescaled(spread), self.labels)
        return soft

    def state_dict(self) -> dict[str, Any]:
        """Return the running mean and the kept mean."""
        return {"total": self.total, "weight": self.weight, "kept": self.kept, "merit": self.merit}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`."""
        self.total, self.weight, self.kept, self.merit = (state[name] for name in ("total", "weight", "kept", "merit"))


def averaging_matrix(edges: np.ndarray, weights: np.ndarray, num_nodes: int) -> sp.csr_matrix:
    """Return the weights of each node's neighbours and itself: rows of A + I, scaled to sum to one."""
    first, second = edges
    places = np.concatenate([first, second]), np.concatenate([second, first])
    adjacency = sp.csr_matrix((np.concatenate([weights, weights]), places), shape=(num_nodes, num_nodes))
    adjacency = adjacency + sp.eye(num_nodes, format="csr", dtype=weights.dtype)
    return sp.csr_matrix(sp.diags(1 / np.asarray(adjacency.sum(1)).ravel()) @ adjacency)
