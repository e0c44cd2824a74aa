"""STR-Sparse: a learned probability for every edge, and a differentiable sample from it (Eq. 5 and 6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gssc.config import SparsifierConfig
from gssc.features import RowLinear, Rows, product

CHUNK = 16384
MARGIN = 1e-6


class _EdgeDots(torch.autograd.Function):
    """z_i . z_j of every edge in chunks, so that no edges-by-width matrix is ever held."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, edges: Tensor) -> Tensor:
        ctx.save_for_backward(z, edges)
        return torch.cat([(z[i] * z[j]).sum(1) for i, j in edges.split(CHUNK, dim=1)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, edges = ctx.saved_tensors
        out = torch.zeros_like(z)
        for share, (i, j) in zip(grad.unsqueeze(1).split(CHUNK), edges.split(CHUNK, dim=1), strict=True):
            out.index_add_(0, i, share * z[j])
            out.index_add_(0, j, share * z[i])
        return out, None


class STRSparse(nn.Module):
    r"""Scores every edge from the features of its two ends.

    .. math::
        \lambda_{ij} = \sigma(z_i \cdot z_j), \quad z = W x, \quad
        M_{ij} = (1 - \alpha) \lambda_{ij} + \alpha A_{ij}

    Args:
        inputs: number of features d.
        config: see :class:`gssc.config.SparsifierConfig`.
    """

    def __init__(self, inputs: int, config: SparsifierConfig):
        super().__init__()
        self.config = config
        self.first = RowLinear(inputs, config.hidden)
        if config.maps == 2:
            self.second = nn.Linear(config.hidden, config.hidden)

    def keep_probability(self, rows: Rows, edges: Tensor) -> Tensor:
        """M of each edge [E], given the rows of all nodes that ``edges`` [2, E] points to."""
        scores = _EdgeDots.apply(self._score_space(rows), edges)
        likely = torch.sigmoid(scores / self.config.hidden if self.config.score == "mean" else scores)
        return (1 - self.config.alpha) * likely + self.config.alpha

    def _score_space(self, rows: Rows) -> Tensor:
        if self.config.maps == 1:
            return self.first(rows)
        # Two linear maps in a row are one: multiplying them first touches d rows and not every node.
        merged = self.first.weight @ self.second.weight.T
        bias = self.second(self.first.bias)
        return product(rows, merged) + bias


def sample_edges(probability: Tensor, temperature: float, noise: str, rng: np.random.Generator) -> Tensor:
    """g' of Eq. 6: one where an edge is kept, zero where it is dropped, with the gradient of the relaxed sample.

    ``logistic`` noise on the log-odds keeps an edge with probability M. ``gumbel`` noise on log M, as Eq. 6 is
    written, keeps an edge with M = 1 with probability 1 - exp(-1) = 0.63.
    """
    uniform = torch.from_numpy(rng.random(len(probability), dtype=np.float32)).clamp(MARGIN, 1 - MARGIN)
    inside = probability.clamp(MARGIN, 1 - MARGIN)
    if noise == "logistic":
        perturbed = torch.logit(inside) + torch.logit(uniform)
    else:
        perturbed = inside.log() - (-uniform.log()).log()
    soft = torch.sigmoid(perturbed / temperature)
    hard = (soft > 0.5).to(soft.dtype)
    return hard + (soft - soft.detach())
