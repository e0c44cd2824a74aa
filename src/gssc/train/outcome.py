"""What comes out of training any model under any sparsifier: enough to compare them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Outcome:
    """One finished training.

    Args:
        scores: what the model says of every node of the graph, test nodes in the graph's setting, [N, C].
        val_accuracy: of the epoch that was kept (ROC-AUC for multi-label targets).
        test_accuracy: the same, of test nodes; nothing was chosen by it.
        seconds: of training, without reading data.
        epochs: trained.
        edges_kept: undirected edges that are trusted at the end.
        edges_total: undirected edges that training could see.
    """

    scores: np.ndarray
    val_accuracy: float
    test_accuracy: float
    seconds: float
    epochs: int
    edges_kept: int
    edges_total: int
