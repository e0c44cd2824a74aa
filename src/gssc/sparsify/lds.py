"""LDS: one probability an edge, learned on labels that the classifier does not train on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import Rows
from gssc.sparsify.base import LearnedSettings, Sparsifier
from gssc.sparsify.edge_sets import positions


@dataclass
class LDSSettings(LearnedSettings):
    """Settings of LDS: those of every sparsifier that learns."""

    name: str = "lds"


class LDS(Sparsifier):
    r"""A Bernoulli variable for every edge, whose parameters are what is learned.

    `Franceschi et al. 2019 <https://arxiv.org/abs/1903.11960>`_:

    .. math::
        A_{ij} \sim \mathrm{Ber}(\theta_{ij}), \quad \theta \in [0, 1]^E

    It starts from the graph as given, takes the gradient of a sample for that of its parameter, and projects the
    parameters back into [0, 1] after every step. Two things are simpler here. The variables are those of the given
    edges and not of all pairs of nodes, so that it can only remove edges and its size is that of the graph. And a step
    on the parameters looks at the classifier as it stands, and not at the steps that led there. Stored is 1 - theta, so
    that weight decay draws towards the given graph and leaves edges alone that no loss speaks of.

    Prediction weighs an edge by theta, the mean of the samples; edges that training did not see have weight one.
    """

    Settings = LDSSettings
    trained_by = ("validation", "homophily")
    reads_features = True

    def __init__(self, rows: Rows, edges: Tensor, config: LDSSettings, rng: np.random.Generator):
        super().__init__(rows, edges, config, rng)
        self.doubt = nn.Parameter(torch.zeros(edges.shape[1]))

    def keep_probability(self) -> Tensor:
        """theta of each edge."""
        return 1 - self.doubt.clamp(0, 1)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """A draw of every variable, with the gradient of theta itself."""
        with torch.no_grad():
            self.doubt.clamp_(0, 1)
        theta = self.keep_probability()
        uniform = torch.from_numpy(rng.random(len(theta), dtype=np.float32))
        return (uniform < theta).to(theta.dtype) + (theta - theta.detach())

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """All edges, by how far they are trusted."""
        place = positions(edges, seen_nodes[self.edges])
        weights = torch.ones(edges.shape[1])
        weights[place >= 0] = self.keep_probability()[place[place >= 0]]
        return edges, weights
