"""LDS: one probability per edge, learned on labels that the classifier is not trained on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import Rows
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.edge_sets import positions
from gssc.sparsify.settings import LDSSettings


class LDS(Sparsifier):
    r"""A Bernoulli variable per edge with a learned parameter.

    `Franceschi et al. 2019 <https://arxiv.org/abs/1903.11960>`_:

    .. math::
        A_{ij} \sim \mathrm{Ber}(\theta_{ij}), \quad \theta \in [0, 1]^E

    It starts from the graph as given, uses the gradient of a sample as that of its parameter, and projects the
    parameters back into [0, 1] after every step. There are two simplifications. Only the given edges have a variable,
    not all pairs of nodes, so that it can only remove edges and its size is that of the graph. And the gradient of the
    parameters uses the current classifier and ignores the steps that led to it. The stored parameter is
    1 - theta, so that weight decay pulls towards the given graph and keeps edges that do not affect any loss.

    Prediction weights an edge by theta, the mean of the samples; edges unseen in training have weight one.
    """

    trained_by = ("validation", "homophily")
    reads_features = True

    def __init__(self, rows: Rows, edges: Tensor, config: LDSSettings, rng: np.random.Generator):
        super().__init__(rows, edges, config, rng)
        self.doubt = nn.Parameter(torch.zeros(edges.shape[1]))

    def keep_probability(self) -> Tensor:
        """Return theta of each edge."""
        return 1 - self.doubt.clamp(0, 1)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Return a draw of every variable, with the gradient of theta itself."""
        with torch.no_grad():
            self.doubt.clamp_(0, 1)
        theta = self.keep_probability()
        uniform = torch.from_numpy(rng.random(len(theta), dtype=np.float32))
        return (uniform < theta).to(theta.dtype) + (theta - theta.detach())

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return all edges, weighted by theta."""
        place = positions(edges, seen_nodes[self.edges])
        weights = torch.ones(edges.shape[1])
        weights[place >= 0] = self.keep_probability()[place[place >= 0]]
        return edges, weights
