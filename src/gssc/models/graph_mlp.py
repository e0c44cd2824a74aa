"""Graph-MLP (Hu et al., 2021, https://arxiv.org/abs/2106.04051): an MLP with a contrastive loss on neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.deploy.activations import STANDARDIZE_EPS
from gssc.features import RowLinear, Rows, rows_of
from gssc.models.base import NodeModel, Recipe, TrainingGraph, folded
from gssc.models.recent import Recent
from gssc.settings import Count, Dropout, NonNegative, Positive

_adjacencies: Recent[sp.csr_matrix] = Recent(2)


class GraphMLP(NodeModel):
    r"""Linear, GELU, layer norm, dropout, linear (the embedding z), linear (the class).

    The loss is the cross entropy of the labelled nodes plus, for every node i of a random batch, with A the
    symmetrically normalised adjacency with self-loops and cos the cosine of two embeddings,

    .. math:: -\log \frac{\sum_j (A^r)_{ij} \exp(\tau \cos(z_i, z_j))}{\sum_j \exp(\tau \cos(z_i, z_j))}

    https://arxiv.org/abs/2106.04051. As in the released program, the temperature is a factor, and a node's own term is
    one in both sums, so that the numerator is never zero. Edges are used in training only.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the embedding.
        dropout: share of hidden units dropped in training.
        order: r, the number of steps within which two nodes count as neighbours.
        alpha: weight of the contrastive loss.
        tau: temperature.
        batch_size: nodes per step, of which at most half are drawn as labelled nodes. One step is one epoch.
    """

    passes_messages = False
    activation = "gelu,standardize"
    recipe = Recipe(epochs=400, patience=100, lr=0.001, weight_decay=5e-3)
    recipes: ClassVar[dict[str, Recipe]] = {
        "citeseer": Recipe(model={"alpha": 1.0, "tau": 0.5}, epochs=400, patience=100, lr=0.001, weight_decay=5e-3),
    }

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        hidden: Count = 256,
        dropout: Dropout = 0.6,
        order: Count = 2,
        alpha: NonNegative = 10.0,
        tau: Positive = 2.0,
        batch_size: Count = 2000,
    ):
        super().__init__()
        self.first, self.second = RowLinear(inputs, hidden), nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-6)
        self.head = nn.Linear(hidden, outputs)
        self.dropout, self.order, self.alpha, self.tau = dropout, order, alpha, tau
        self.batch_size = batch_size
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights as in the released program."""
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def embed(self, rows: Rows) -> Tensor:
        """Return the embeddings z of these rows, [n, hidden]."""
        return self.second(F.dropout(self.norm(F.gelu(self.first(rows))), self.dropout, self.training))

    def forward(self, rows: Rows, edge_index: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of the rows; edges are not used."""
        return self.head(self.embed(rows))

    @torch.no_grad()
    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return linear map, GELU and layer norm, with the maps after it as one.

        The layer norm's epsilon follows from the scale of the standardised values.
        """
        width = len(self.norm.weight)
        scale = (STANDARDIZE_EPS / self.norm.eps) ** 0.5 * torch.eye(width)
        after = self.head.weight @ self.second.weight
        bias = after @ self.norm.bias + self.head.weight @ self.second.bias + self.head.bias
        first = folded(self.first.weight.T, self.first.bias)
        return [first, folded(scale, torch.zeros(width)), folded(after * self.norm.weight, bias)]

    def losses(self, graph: TrainingGraph, rng: np.random.Generator) -> Iterator[Tensor]:
        """Yield one loss, of a batch of labelled and other random nodes."""
        count = graph.rows.shape[0]
        adjacency = smoothed_adjacency(graph.edge_index, graph.edge_weight, count)
        labelled, nodes = self.draw_batch(graph.train.numpy(), count, rng)
        embedded = self.embed(rows_of(graph.rows, nodes))
        known = F.cross_entropy(self.head(embedded[: len(labelled)]), graph.labels[torch.from_numpy(labelled)])
        yield known + self.alpha * neighbour_contrast(embedded, powers_among(adjacency, nodes, self.order), self.tau)

    def draw_batch(self, train: np.ndarray, num_nodes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return the labelled nodes of a random batch, and all its nodes, labelled ones first."""
        room = max(1, self.batch_size // 2)
        labelled = train if len(train) <= room else rng.choice(train, room, replace=False)
        others = np.setdiff1d(np.arange(num_nodes), labelled)
        drawn = rng.choice(others, min(len(others), self.batch_size - len(labelled)), replace=False)
        return labelled, np.concatenate([labelled, drawn])


def smoothed_adjacency(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> sp.csr_matrix:
    """Return D^-1/2 (A + I) D^-1/2, cached for the same edges."""

    def build() -> sp.csr_matrix:
        source, target = edge_index.numpy()
        weights = np.ones(len(source), np.float32) if edge_weight is None else edge_weight.detach().numpy()
        plain = sp.coo_matrix((weights, (source, target)), shape=(num_nodes, num_nodes)).tocsr()
        loops = plain + sp.eye(num_nodes, dtype=np.float32, format="csr")
        loops.eliminate_zeros()
        scale = sp.diags(np.asarray(loops.sum(1)).reshape(-1) ** -0.5)
        return (scale @ loops @ scale).tocsr()

    return _adjacencies.get((edge_index, edge_weight), (num_nodes,), build)


def powers_among(adjacency: sp.csr_matrix, nodes: np.ndarray, order: int) -> sp.coo_matrix:
    """Return A^order between these nodes, for symmetric A; the power of the whole matrix is never formed."""
    rows = adjacency[nodes]
    if order == 1:
        return rows[:, nodes].tocoo()
    walked = rows
    for _ in range(order - 2):
        walked = walked @ adjacency
    return (walked @ rows.T).tocoo()


def neighbour_contrast(embedded: Tensor, closeness: sp.coo_matrix, tau: float) -> Tensor:
    """Return the mean contrastive loss of a batch.

    Args:
        embedded: z, [B, hidden].
        closeness: (A^r)_ij between the nodes of the batch, [B, B], its diagonal positive.
        tau: temperature.
    """
    return _NeighbourContrast.apply(F.normalize(embedded, dim=1), closeness, tau)


class _NeighbourContrast(torch.autograd.Function):
    """Contrastive loss whose forward and backward passes share one [B, B] matrix; autograd would need about ten."""

    @staticmethod
    def forward(ctx: Any, unit: Tensor, closeness: sp.coo_matrix, tau: float) -> Tensor:
        pairs = (unit @ unit.T).mul_(tau).exp_().fill_diagonal_(1)
        rows, columns = (torch.from_numpy(side.astype(np.int64)) for side in (closeness.row, closeness.col))
        near = pairs[rows, columns] * torch.from_numpy(closeness.data.astype(np.float32))
        total = pairs.sum(1)
        positive = torch.zeros_like(total).index_add_(0, rows, near)
        if ctx.needs_input_grad[0]:
            # Gradient with respect to the cosines, both triangles at once: (i, j) and (j, i) both contribute to z_i.
            share = tau / len(unit) / total
            pull = tau / len(unit) * near / positive[rows]
            gradient = pairs.mul_(share.unsqueeze(1) + share)
            gradient.index_put_((rows, columns), -pull, accumulate=True)
            gradient.index_put_((columns, rows), -pull, accumulate=True)
            ctx.save_for_backward(gradient.fill_diagonal_(0), unit)
        return (total.log() - positive.log()).mean()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        gradient, unit = ctx.saved_tensors
        return grad * (gradient @ unit), None, None
