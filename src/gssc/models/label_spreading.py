"""Label spreading (Zhou et al., 2004): labels propagated over edges by scikit-learn, without features."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from gssc.extras import require
from gssc.models.base import Recipe


class LabelSpreading:
    r"""Propagates labels along edges until convergence; features are not used.

    .. math:: F = \alpha D^{-1/2} A D^{-1/2} F + (1 - \alpha) Y

    Learning with local and global consistency, 2004. Computed by :class:`sklearn.semi_supervised.LabelSpreading`,
    whose ``kernel`` may be a function that returns the affinity of all samples: here the sparse adjacency. A node that
    no label reaches (it has no edges, as in cold-start, or none near it is labelled) gets the class frequencies of
    the training labels.

    Args:
        alpha: weight of the neighbours, between 0 and 1.
        max_iter: maximum number of iterations.
    """

    passes_messages: ClassVar[bool] = True
    learns_from_edges: ClassVar[bool] = True
    alphas: ClassVar[tuple[float, ...]] = (0.5, 0.8, 0.9, 0.95, 0.99)
    recipe: ClassVar[Recipe] = Recipe()
    recipes: ClassVar[dict[str, Recipe]] = {}

    def __init__(self, alpha: float = 0.9, max_iter: int = 1000):
        self.alpha, self.max_iter = alpha, max_iter

    def scores(self, adjacency: sp.csr_matrix, labels: np.ndarray, num_classes: int) -> np.ndarray:
        """Return the class shares of every node, [N, C].

        Args:
            adjacency: symmetric, without self-loops; its entries are the edges' weights, [N, N].
            labels: training labels, -1 for all other nodes, [N].
            num_classes: C; classes without a training label get zero.
        """
        sklearn = require("sklearn.semi_supervised", "bench")
        ids = np.arange(len(labels)).reshape(-1, 1)
        spreading = sklearn.LabelSpreading(
            kernel=lambda _, __: adjacency,
            alpha=self.alpha,
            max_iter=self.max_iter,
            tol=1e-4 * int((labels >= 0).sum()),  # scikit-learn compares it with a sum over all nodes
        )
        with warnings.catch_warnings():
            # After max_iter the shares change too little to affect the argmax.
            warnings.filterwarnings("ignore", message="max_iter=", category=UserWarning)
            spreading.fit(ids, labels)
        found = np.zeros((len(labels), num_classes))
        found[:, spreading.classes_] = spreading.label_distributions_
        unreached = found.sum(1) == 0
        found[unreached] = np.bincount(labels[labels >= 0], minlength=num_classes) / (labels >= 0).sum()
        return found
