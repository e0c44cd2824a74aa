"""DropEdge: a different random sample of the edges every epoch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gssc.sparsify.base import Sparsifier
from gssc.sparsify.fixed import budget


class DropEdge(Sparsifier):
    """A fresh uniform sample of the edges, without replacement, every epoch; prediction uses every edge.

    `Rong et al. 2020 <https://arxiv.org/abs/1907.10903>`_. The sample holds the share ``keep`` of the undirected edges;
    both directions of an edge are kept or dropped together.
    """

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Return weight one for the edges of this epoch, zero for the others."""
        count = self.edges.shape[1]
        weights = torch.zeros(count)
        weights[torch.from_numpy(rng.permutation(count)[: budget(count, self.config.keep)])] = 1.0
        return weights

    def keep_probability(self) -> Tensor:
        """Return the same probability for every edge."""
        return torch.full((self.edges.shape[1],), self.config.keep)
