"""NeuralSparse: a network picks k neighbours of every node."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import RowLinear, Rows
from gssc.sparsify import relaxed
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.settings import NeuralSparseSettings


class _PairScores(torch.autograd.Function):
    """Compute w . relu(p_u + q_v) of every directed pair in chunks, without a pairs-by-width matrix in memory."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, other: Tensor, weight: Tensor, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(own, other, weight, pairs)
        return torch.cat([(own[u] + other[v]).relu_() @ weight for u, v in pairs.split(relaxed.CHUNK, dim=1)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        own, other, weight, pairs = ctx.saved_tensors
        by_own, by_other, by_weight = torch.zeros_like(own), torch.zeros_like(other), torch.zeros_like(weight)
        for share, (u, v) in zip(grad.split(relaxed.CHUNK), pairs.split(relaxed.CHUNK, dim=1), strict=True):
            hidden = (own[u] + other[v]).relu_()
            by_weight += share @ hidden
            below = (hidden > 0) * share.unsqueeze(1) * weight
            by_own.index_add_(0, u, below)
            by_other.index_add_(0, v, below)
        return by_own, by_other, by_weight, None


class NeuralSparse(Sparsifier):
    r"""Every node picks k of its edges, with probabilities computed by a network from the features of both ends.

    `Zheng et al. 2020 <https://proceedings.mlr.press/v119/zheng20d.html>`_:

    .. math::
        s_{uv} = w \cdot \mathrm{relu}(P x_u + Q x_v + b), \quad \pi_{uv} = \mathrm{softmax}_{v \in N(u)}(s_{uv})

    A pick is a Gumbel-softmax sample of :math:`\pi_u`. The k picks of a node are independent, so that it picks at most
    k edges and often fewer; an edge is kept if either end picked it. The value of a sample is the hard one; its
    gradient is that of 1 - prod(1 - x) over the relaxed picks x of both ends. Prediction takes the k best edges of
    every node, without noise. The temperature is constant.
    """

    trained_by = ("loss", "homophily")
    reads_features = True

    def __init__(self, rows: Rows, edges: Tensor, config: NeuralSparseSettings, rng: np.random.Generator):
        super().__init__(rows, edges, config, rng)
        self.own = RowLinear(rows.shape[1], config.hidden)
        self.other = RowLinear(rows.shape[1], config.hidden)
        bound = config.hidden**-0.5
        self.out = nn.Parameter(torch.empty(config.hidden).uniform_(-bound, bound))

    def keep_probability(self) -> Tensor:
        """Return the probability that one of the picks of either end is this edge."""
        chance = self._softmax(self._scores(self.rows, self.edges))
        return _either_end((1 - chance) ** self.config.neighbours)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Return weight one for edges picked by an end, zero for the others."""
        scores = self._scores(self.rows, self.edges)
        missed, soft_missed = torch.ones_like(scores), torch.ones_like(scores)
        for _ in range(self.config.neighbours):
            gumbel = -(-relaxed.uniform_inside(len(scores), rng).log()).log()
            perturbed = scores + gumbel
            soft_missed = soft_missed * (1 - self._softmax(perturbed / self.config.temperature))
            with torch.no_grad():
                missed[perturbed == self._best(perturbed)[self._sources]] = 0
        soft = _either_end(soft_missed)
        return _either_end(missed) + (soft - soft.detach())

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the k edges with the highest score of every node."""
        scores = self._scores(rows, edges)
        sources = edges.reshape(-1).numpy()
        order = np.lexsort((-scores.numpy(), sources))
        rank = np.arange(len(order)) - np.searchsorted(sources[order], sources[order])
        missed = torch.ones(len(order))
        missed[torch.from_numpy(order[rank < self.config.neighbours])] = 0
        kept = edges[:, _either_end(missed) > 0]
        return kept, torch.ones(kept.shape[1])

    @property
    def _sources(self) -> Tensor:
        """Return the picking node of every directed pair: first all (i, j), then all (j, i)."""
        return self.edges.reshape(-1)

    def _scores(self, rows: Rows, edges: Tensor) -> Tensor:
        pairs = torch.cat([edges, edges.flip(0)], dim=1)
        return _PairScores.apply(self.own(rows), self.other(rows), self.out, pairs)

    def _best(self, scores: Tensor) -> Tensor:
        """Return the highest score among the pairs of each node, [N]."""
        lowest = scores.new_full((self.num_nodes,), -torch.inf)
        return lowest.scatter_reduce(0, self._sources, scores, "amax")

    def _softmax(self, scores: Tensor) -> Tensor:
        """Return the softmax of the scores over the pairs of each node."""
        raised = (scores - self._best(scores.detach())[self._sources]).exp()
        totals = raised.new_zeros(self.num_nodes).index_add(0, self._sources, raised)
        return raised / totals[self._sources]


def _either_end(missed: Tensor) -> Tensor:
    """Return whether either direction of each edge was picked, [E], from whether each was not picked, [2E]."""
    there, back = missed.view(2, -1)
    return 1 - there * back
