"""LinkDist (Luo et al., 2021, https://arxiv.org/abs/2106.08541): an MLP that distils labels along edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import RowLinear, Rows, rows_of
from gssc.models.base import NodeModel, Recipe, TrainingGraph, folded, folded_norm
from gssc.models.dropout import dropout_mask
from gssc.settings import Count, Dropout


def _recipe(epochs: int) -> Recipe:
    return Recipe(epochs=epochs, patience=epochs, lr=0.01, weight_decay=0.0, warmup=max(1, epochs // 5))


class LinkDist(NodeModel):
    r"""An MLP with two heads: y predicts a node's own label, z the labels of its neighbours.

    For an edge (i, j), the y of one end should match the z of the other,

    .. math:: \alpha (\lVert y_i - z_j \rVert^2 + \lVert y_j - z_i \rVert^2)

    and the label of an end supervises both its own y and the other end's z by cross entropy, with class weights of
    labelled nodes over labelled ends. :math:`\alpha` is the share of ends without a label.
    https://arxiv.org/abs/2106.08541.
    Predictions come from y alone (the paper's LinkDistMLP): they need no edges. The paper trains for 200 / mean degree
    epochs.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of every hidden layer.
        dropout: share of hidden units dropped in training.
        batch_size: directed edges per step.
        contrast: whether to also contrast the two ends of an edge with a random node (CoLinkDist).
    """

    passes_messages = False
    activation = "standardize,leaky_relu,standardize,leaky_relu"
    recipe = _recipe(50)
    recipes: ClassVar[dict[str, Recipe]] = {
        "citeseer": _recipe(72),
        "coauthor-cs": _recipe(22),
        "coauthor-physics": _recipe(13),
        "ogbn-arxiv": _recipe(14),
        "actor": _recipe(28),
        "squirrel": _recipe(4),
        "chameleon": _recipe(10),
        "deezer-europe": _recipe(30),
    }

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        hidden: Count = 256,
        dropout: Dropout = 0.5,
        batch_size: Count = 1024,
        contrast: bool = False,
    ):
        super().__init__()
        self.first = RowLinear(inputs, hidden)
        self.middle = NormLinear(hidden, hidden, dropout)
        self.own, self.neighbour = NormLinear(hidden, outputs, dropout), NormLinear(hidden, outputs, dropout)
        self.outputs, self.batch_size, self.contrast = outputs, batch_size, contrast
        self.rng = np.random.default_rng()  # draws dropout; replaced by the generator of the training

    def forward(self, rows: Rows, edge_index: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of the rows by the first head; edges are not used."""
        return self.own(self.middle(self.first(rows), self.rng), self.rng)

    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the path to the first head: batch norms are folded, the scale of a layer norm is a separate map."""
        middle, own = self.middle, self.own
        return [
            folded(self.first.weight.T, self.first.bias, middle.over_batch),
            folded_norm(middle.over_row),
            folded(middle.linear.weight, middle.linear.bias, own.over_batch),
            folded_norm(own.over_row),
            folded(own.linear.weight, own.linear.bias),
        ]

    def both_heads(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Return y and z of rows after the first layer."""
        hidden = self.middle(projected, self.rng)
        return self.own(hidden, self.rng), self.neighbour(hidden, self.rng)

    def losses(self, graph: TrainingGraph, rng: np.random.Generator) -> Iterator[Tensor]:
        """Yield one loss per batch of directed edges, over all edges of non-zero weight."""
        self.rng, labels, weighed = rng, graph.labels, graph.edge_weight
        edges = (graph.edge_index if weighed is None else graph.edge_index[:, weighed > 0]).numpy()
        if edges.shape[1] < 2:  # batch norm needs two rows
            return
        known = torch.full_like(labels, -1)
        known[graph.train] = labels[graph.train]
        labelled_ends = (known >= 0).numpy()[edges].mean()
        labelled_nodes = len(graph.train) / len(labels)
        weights = class_weights(known, edges, self.outputs)
        order = rng.permutation(edges.shape[1])
        for part in np.array_split(order, -(-len(order) // self.batch_size)):
            ends = [edges[0, part], edges[1, part]]
            if self.contrast:
                ends.append(rng.integers(0, len(labels), len(part)))
            nodes, places = np.unique(np.concatenate(ends), return_inverse=True)
            projected = self.first(rows_of(graph.rows, nodes))
            heads = [self.both_heads(projected[place]) for place in torch.from_numpy(places).split(len(part))]
            targets = [known[torch.from_numpy(end)] for end in ends]
            loss = self.edge_loss(heads, targets, weights, 1 - labelled_ends)
            if self.contrast:
                loss = loss + self.contrast_loss(heads, targets, weights, labelled_nodes, labelled_ends)
            yield loss

    def edge_loss(
        self, heads: list[tuple[Tensor, Tensor]], targets: list[Tensor], weights: Tensor, alpha: float
    ) -> Tensor:
        """Return the loss of a batch of edges: both ends match each other, and a label supervises both."""
        (own_source, near_source), (own_target, near_target) = heads[:2]
        loss = alpha * (F.mse_loss(own_source, near_target) + F.mse_loss(own_target, near_source))
        for logits, target in (
            (own_source, targets[0]),
            (near_target, targets[0]),
            (own_target, targets[1]),
            (near_source, targets[1]),
        ):
            loss = loss + labelled_loss(logits, target, weights)
        return loss

    def contrast_loss(
        self,
        heads: list[tuple[Tensor, Tensor]],
        targets: list[Tensor],
        weights: Tensor,
        labelled_nodes: float,
        labelled_ends: float,
    ) -> Tensor:
        """Return the contrastive loss: a random node's z should differ from each end's y, its y from each end's z."""
        *ends, (own, near) = heads
        apart: Tensor | float = 0.0
        taught = 2 * labelled_loss(own, targets[2])
        for (own_end, near_end), target in zip(ends, targets[:2], strict=True):
            apart = apart + F.mse_loss(own_end.softmax(1), near.softmax(1))
            apart = apart + F.mse_loss(own.softmax(1), near_end.softmax(1))
            taught = taught - labelled_nodes * labelled_loss(near, target, weights)
            taught = taught - labelled_ends * labelled_loss(near_end, targets[2])
        return taught - 0.5 * (1 - labelled_ends) * apart


class NormLinear(nn.Module):
    """Batch norm, layer norm, leaky ReLU, dropout in training, and a linear map."""

    def __init__(self, inputs: int, outputs: int, dropout: float):
        super().__init__()
        self.over_batch, self.over_row = nn.BatchNorm1d(inputs), nn.LayerNorm(inputs)
        self.linear, self.dropout = nn.Linear(inputs, outputs), dropout

    def forward(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """Map [n, inputs] to [n, outputs]."""
        x = F.leaky_relu(self.over_row(self.over_batch(x)))
        mask = dropout_mask(x.shape, self.dropout, rng) if self.training else None
        return self.linear(x if mask is None else x * mask)


def labelled_loss(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the cross entropy over the rows whose target is known (not -1); zero if there are none."""
    known = targets >= 0
    if not known.any():
        return logits.sum() * 0
    return F.cross_entropy(logits[known], targets[known], weight=weights)


def class_weights(known: Tensor, edges: np.ndarray, num_classes: int) -> Tensor:
    """Return labelled nodes over labelled ends per class, scaled to a mean of one; one for a class without ends.

    Args:
        known: training labels, -1 if unknown, [N].
        edges: directed edges, [2, P].
        num_classes: C.
    """
    nodes = torch.bincount(known[known >= 0], minlength=num_classes).float()
    at_ends = known[torch.from_numpy(edges)]
    ends = torch.bincount(at_ends[at_ends >= 0], minlength=num_classes).float()
    weights = torch.where(ends > 0, nodes / ends.clamp(min=1), torch.zeros(()))
    if weights.sum() == 0:
        return torch.ones(num_classes)
    weights = num_classes * weights / weights.sum()
    return torch.where(ends > 0, weights, torch.ones(()))
