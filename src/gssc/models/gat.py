"""GAT (Velickovic et al., 2018): neighbours weighted by learned attention."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import Rows
from gssc.models.base import NodeModel, Recipe
from gssc.models.dropout import drop
from gssc.models.input_map import InputMap
from gssc.models.propagation import Messages, routes_of, with_loop_weights
from gssc.settings import Count, Dropout

_SLOPE = 0.2


class GAT(NodeModel):
    r"""Graph attention network, https://arxiv.org/abs/1710.10903.

    .. math:: h_i = \sum_{j \in N(i) \cup i} \alpha_{ij} W x_j, \quad \alpha_{ij} =
        \frac{w_{ij} \exp(\mathrm{LeakyReLU}(a^T W x_i + b^T W x_j))}{\sum_k w_{ik} \exp(\ldots)}

    Two layers with ELU between them: several concatenated heads, then one head (or the mean of several) per class. An
    edge weight multiplies the attention before it is normalised; the weight of a self-loop is one.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of each head of the first layer.
        heads: number of heads of the first layer.
        output_heads: number of heads of the second layer.
        dropout: share of feature values, of hidden units and of attention weights dropped in training.
    """

    # The paper's patience is 100 epochs without better accuracy or loss; with accuracy alone that is too short.
    recipe: ClassVar[Recipe] = Recipe(
        model={"hidden": 8, "heads": 8, "dropout": 0.6}, epochs=1000, patience=300, lr=0.005, weight_decay=5e-4
    )

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Count = 8,
        heads: Count = 8,
        output_heads: Count = 1,
        dropout: Dropout = 0.6,
    ):
        super().__init__()
        self.first = InputMap(inputs, heads * hidden, dropout)
        self.first_attention = Attention(heads, hidden, dropout)
        self.first_bias = nn.Parameter(torch.zeros(heads * hidden))
        self.second = nn.Linear(heads * hidden, output_heads * outputs, bias=False)
        self.second_attention = Attention(output_heads, outputs, dropout)
        self.second_bias = nn.Parameter(torch.zeros(outputs))
        self.dropout = dropout
        nn.init.xavier_uniform_(self.second.weight)

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        weight = with_loop_weights(edge_index, edge_weight, rows.shape[0])
        hidden = self.first_attention(self.first(rows), edge_index, weight).flatten(1)
        hidden = drop(F.elu(hidden + self.first_bias), self.dropout, self.training)
        return self.second_attention(self.second(hidden), edge_index, weight).mean(1) + self.second_bias


class Attention(nn.Module):
    """The attention of one layer: every head propagates its own part of the rows along the same edges.

    Args:
        heads: number of heads.
        width: columns of each head.
        dropout: share of normalised attention weights dropped in training.
    """

    def __init__(self, heads: int, width: int, dropout: float):
        super().__init__()
        self.source = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width)))
        self.target = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width)))
        self.heads, self.width, self.dropout = heads, width, dropout

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        """Map rows [N, heads * width] to [N, heads, width].

        Args:
            x: rows, with the parts of the heads concatenated.
            edge_index: both directions of every edge, [2, P].
            weight: weight of the edges and then of every node's self-loop, [P + N].
        """
        nodes = len(x)
        x = x.view(nodes, self.heads, self.width)
        to_source, to_target = (x * self.source).sum(2), (x * self.target).sum(2)  # [N, heads]
        routes = routes_of(edge_index, nodes, loops=True)
        score = F.leaky_relu(routes.at_sources(to_source) + routes.at_targets(to_target), _SLOPE)
        # The greatest score of each target, subtracted to avoid overflow; it cancels.
        places = routes.target.unsqueeze(1).expand_as(score)
        bound = torch.zeros_like(to_target).scatter_reduce(0, places, score.detach(), "amax", include_self=False)
        strength = (score - routes.at_targets(bound)).exp() * weight.unsqueeze(1)  # [P + N, heads]
        total = torch.zeros_like(to_target).index_add(0, routes.target, strength)
        share = drop(strength, self.dropout, self.training)
        by_head = routes_of(edge_index, nodes, loops=True, heads=self.heads)
        summed = Messages(by_head, share.flatten())(x.reshape(-1, self.width)).view_as(x)
        return summed / total.clamp(min=1e-16).unsqueeze(2)
