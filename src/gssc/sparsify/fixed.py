"""Base class of the sparsifiers that choose their edges once."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from gssc.features import Rows
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.edge_sets import positions
from gssc.sparsify.settings import ShareSettings


class FixedSubset(Sparsifier, ABC):
    """Keeps the share ``keep`` of the edges, chosen once by :meth:`choose` from the graph alone, all with weight one.

    Prediction uses the same edges. Edges of a larger graph that were not in the training graph are all kept.
    """

    def __init__(self, rows: Rows, edges: Tensor, config: ShareSettings, rng: np.random.Generator):
        super().__init__(rows, edges, config, rng)
        count = edges.shape[1]
        kept = torch.zeros(count, dtype=torch.bool)
        kept[torch.from_numpy(self.choose(edges.numpy(), budget(count, config.keep), rng))] = True
        self.edges, self.dropped = edges[:, kept], edges[:, ~kept]

    @abstractmethod
    def choose(self, edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return the positions of the ``count`` edges to keep."""

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return all edges except those of the training graph that were not chosen."""
        kept = edges[:, positions(edges, seen_nodes[self.dropped]) < 0]
        return kept, torch.ones(kept.shape[1])


def budget(count: int, share: float) -> int:
    """Return the number of edges in a share of ``count`` edges; at least one, if there are any."""
    return min(count, max(1, round(share * count)))
