"""GAUG: a learned edge predictor that removes edges and proposes new ones."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import Rows, SparseRows, product
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.edge_sets import draw_non_edges
from gssc.sparsify.relaxed import edge_dots, sample_edges
from gssc.sparsify.settings import GAUGSettings

BLOCK = 512  # nodes whose scores with all others are held in memory at once
NAMED = 4  # maximum number of partners a node proposes, as a multiple of the mean number


class GAUG(Sparsifier):
    r"""GAUG-O, which trains on a mix of the observed graph and the output of an edge predictor.

    `Zhao et al. 2021 <https://arxiv.org/abs/2006.06830>`_:

    .. math::
        z = \hat{A}\, \mathrm{relu}(\hat{A} X W_0) W_1, \quad \lambda_{ij} = \sigma(z_i \cdot z_j), \quad
        P_{ij} = \alpha \lambda_{ij} + (1 - \alpha) A_{ij}

    with alpha the setting ``predicted``, and a relaxed Bernoulli sample of P every epoch. The predictor's own loss,
    beta (``predictor_weight``) times the cross-entropy of edges against non-edges, both with equal weight, is added to
    the objective. With a GCN the authors chose alpha 1.0 and beta 0.8 on Cora, 0.79 and 2.9 on CiteSeer.

    The paper uses all pairs of nodes. Here the candidates are the observed edges and the pairs with the highest
    predicted probability after pretraining on the graph (``pretrain_epochs`` steps with a separate optimiser, as in the
    authors' program); their number is set by ``proposals``. This is done at construction, so that the candidates stay
    the same. The loss uses as many random non-edges as there are edges, so that memory grows with edges, not pairs.

    Prediction uses the graph as given: this is what the O, for original, stands for.
    """

    trained_by = ("loss", "homophily")
    reads_features = True

    def __init__(self, rows: Rows, edges: Tensor, config: GAUGSettings, rng: np.random.Generator):
        super().__init__(rows, edges, config, rng)
        self.observed = edges
        self.adjacency = SparseRows(normalized_adjacency(edges.numpy(), self.num_nodes))
        width = max(1, config.hidden // 2)
        # No biases: next to small row-normalised features they would dominate and make all nodes look alike.
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows.shape[1], width)))
        self.second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, max(1, width // 4))))
        self._learn_edges(rng)
        self.edges = torch.cat([edges, self._propose(round(config.proposals * edges.shape[1]))], dim=1)

    @property
    def given(self) -> int:
        """Number of leading :attr:`edges` that are edges of the graph."""
        return self.observed.shape[1]

    def embed(self) -> Tensor:
        """Return z of every node, [N, width / 4]."""
        hidden = product(self.adjacency, product(self.rows, self.first)).relu()
        return product(self.adjacency, hidden @ self.second)

    def keep_probability(self) -> Tensor:
        """Return P of every candidate."""
        share = self.config.predicted
        likely = share * torch.sigmoid(edge_dots(self.embed(), self.edges))
        observed = torch.arange(self.edges.shape[1]) < self.given
        return likely + (1 - share) * observed

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Return a Bernoulli draw of P, with the gradient of the relaxed sample."""
        self._non_edges = draw_non_edges(self.observed, self.num_nodes, self.given, rng)
        return sample_edges(self.keep_probability(), self.config.temperature, "logistic", rng)

    def own_loss(self) -> Tensor | None:
        """Return the weighted loss of distinguishing edges from the non-edges drawn with the latest sample."""
        return self.config.predictor_weight * self._reconstruction_loss()

    def _reconstruction_loss(self) -> Tensor:
        """Return the mean of the cross-entropies of edges and of the latest non-edges."""
        z, losses = self.embed(), []
        for pairs, sign in ((self.observed, 1.0), (self._non_edges, -1.0)):
            if pairs.shape[1]:
                losses.append(F.softplus(-sign * edge_dots(z, pairs)).mean())
        return sum(losses, z.new_zeros(())) / 2

    def _learn_edges(self, rng: np.random.Generator) -> None:
        """Pretrain the predictor on the graph, before it proposes edges."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.config.lr)
        self._non_edges = self.observed[:, :0]
        if self.given == 0:
            return
        for _ in range(self.config.pretrain_epochs):
            self._non_edges = draw_non_edges(self.observed, self.num_nodes, self.given, rng)
            optimizer.zero_grad()
            self._reconstruction_loss().backward()
            optimizer.step()
        optimizer.zero_grad()

    @torch.no_grad()
    def _propose(self, count: int) -> Tensor:
        """Return the most probable non-edges, each once, [2, count] (fewer if the graph has fewer)."""
        if count == 0:
            return self.observed[:, :0]
        z, nodes = self.embed(), self.num_nodes
        # 2 count / nodes per node would be enough on average even if all pairs were proposed from both ends.
        each = min(nodes, NAMED * math.ceil(2 * count / nodes))
        known = self.adjacency.matrix  # its diagonal is non-zero, which excludes pairs of a node with itself
        scores, pairs = [], []
        for start in range(0, nodes, BLOCK):
            block = z[start : start + BLOCK] @ z.T
            taken = known[start : start + BLOCK].tocoo()
            block[torch.from_numpy(taken.row).long(), torch.from_numpy(taken.col).long()] = -torch.inf
            best, partner = block.topk(each, dim=1)
            owner = torch.arange(start, start + len(block)).unsqueeze(1).expand_as(partner)
            named = best > -torch.inf
            scores.append(best[named])
            pairs.append(torch.stack([torch.minimum(owner, partner)[named], torch.maximum(owner, partner)[named]]))
        by_score = torch.cat(scores).argsort(descending=True, stable=True)
        ranked = torch.cat(pairs, dim=1)[:, by_score].numpy()
        _, first = np.unique(ranked[0] * nodes + ranked[1], return_index=True)
        return torch.from_numpy(ranked[:, np.sort(first)[:count]])


def normalized_adjacency(edges: np.ndarray, nodes: int) -> sp.csr_matrix:
    """Return D^-1/2 (A + I) D^-1/2."""
    first, second = edges
    own = np.arange(nodes)
    near, far = np.concatenate([first, second, own]), np.concatenate([second, first, own])
    scale = np.bincount(near, minlength=nodes) ** -0.5
    return sp.csr_matrix(((scale[near] * scale[far]).astype(np.float32), (near, far)), shape=(nodes, nodes))
