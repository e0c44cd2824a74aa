"""STR-Sparse: a learned keep probability per edge, and a differentiable sample from it (Eq. 5 and 6)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import RowLinear, Rows, product
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.evidence import evidence_of
from gssc.sparsify.relaxed import MARGIN, edge_dots, sample_edges
from gssc.sparsify.settings import STRSparseSettings


class STRSparse(Sparsifier):
    r"""Scores every edge from the features of its two ends.

    .. math::
        \lambda_{ij} = \sigma(z_i \cdot z_j), \quad z = W x, \quad
        M_{ij} = (1 - \alpha) \lambda_{ij} + \alpha A_{ij}

    With ``start: evidence``, M is instead :math:`\sigma(\mathrm{logit}\, p_{ij} + z_i \cdot z_j)`, where p is the keep
    probability by evidence without labels: training starts from calibrated trust, where the sigmoid has a gradient.
    Prediction keeps the edges with M above one half, on any graph, because M depends on features and edges only.

    Args:
        rows: feature rows of all nodes.
        edges: undirected edges, each once, [2, E].
        config: its settings.
        rng: not used; the weights are initialised with torch's own generator.
    """

    trained_by = ("loss", "homophily")
    any_device = True
    reads_features = True

    def __init__(self, rows: Rows, edges: Tensor, config: STRSparseSettings, rng: np.random.Generator):
        super().__init__(rows, edges, config, rng)
        self.first = RowLinear(rows.shape[1], config.hidden)
        if config.maps == 2:
            self.second = nn.Linear(config.hidden, config.hidden)
        self.prior = evidence_of(rows, edges).logit(MARGIN) if config.start == "evidence" else None

    def keep_probability(self) -> Tensor:
        """Return M of each edge, [E]."""
        return self._probability(self.rows, self.edges)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Return g' of Eq. 6 for each undirected edge."""
        return sample_edges(self.keep_probability(), self.config.temperature, self.config.noise, rng)

    def sample_pairs(self, rng: np.random.Generator) -> Tensor:
        """Return g' of Eq. 6 for each direction of each edge; the two directions are drawn independently."""
        return sample_edges(self.keep_probability().repeat(2), self.config.temperature, self.config.noise, rng)

    def pretrain(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Train to keep every edge, so that training starts from the graph as given."""
        if optimizer is None or self.edges.shape[1] == 0 or self.prior is not None:
            return
        for _ in range(self.config.pretrain_epochs):
            loss = -self.keep_probability().clamp(min=MARGIN).log().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges with M above one half."""
        kept = edges[:, self._probability(rows, edges) > 0.5]
        return kept, torch.ones(kept.shape[1])

    def _probability(self, rows: Rows, edges: Tensor) -> Tensor:
        scores = edge_dots(self._score_space(rows), edges)
        scores = scores / self.config.hidden if self.config.score == "mean" else scores
        if self.prior is not None:
            prior = self.prior if rows is self.rows else evidence_of(rows, edges).logit(MARGIN)
            return torch.sigmoid(prior + scores)
        likely = torch.sigmoid(scores)
        return (1 - self.config.alpha) * likely + self.config.alpha

    def _score_space(self, rows: Rows) -> Tensor:
        if self.config.maps == 1:
            return self.first(rows)
        # Two successive linear maps are one linear map: their product has d rows, the features one per node.
        merged = self.first.weight @ self.second.weight.T
        bias = self.second(self.first.bias)
        return product(rows, merged) + bias
