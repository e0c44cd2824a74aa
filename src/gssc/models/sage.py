"""GraphSAGE (Hamilton et al., 2017): a node's own row next to the mean of its neighbours' rows."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import Rows
from gssc.models.base import NodeModel, Recipe
from gssc.models.dropout import drop
from gssc.models.input_map import InputMap
from gssc.models.propagation import averaged
from gssc.settings import Count, Dropout


class GraphSAGE(NodeModel):
    r"""GraphSAGE with the mean aggregator, on the whole graph at once, https://arxiv.org/abs/1706.02216.

    .. math:: h_i = \mathrm{ReLU}\Big(W_1 x_i + W_2 \frac{\sum_j w_{ij} x_j}{\sum_j w_{ij}} + b\Big)

    and a second such layer without ReLU. The mean divides by the total weight, so an edge of weight zero is absent.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the hidden layer.
        dropout: share of hidden units dropped in training.
        input_dropout: share of feature values dropped in training.
    """

    recipe: ClassVar[Recipe] = Recipe(
        model={"hidden": 64, "dropout": 0.8, "input_dropout": 0.8}, lr=0.01, weight_decay=5e-4
    )
    # Chosen by validation accuracy on one split of Chameleon and of Actor; Squirrel and Deezer follow Chameleon.
    recipes: ClassVar[dict[str, Recipe]] = {
        **dict.fromkeys(("chameleon", "squirrel", "deezer-europe", "actor/fixed"), replace(recipe, normalize="none")),
        "actor": replace(recipe, weight_decay=5e-3, normalize="none"),
    }

    def __init__(
        self, inputs: int, outputs: int, hidden: Count = 64, dropout: Dropout = 0.5, input_dropout: Dropout = 0.5
    ):
        super().__init__()
        self.first = InputMap(inputs, 2 * hidden, input_dropout)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second_own = nn.Linear(hidden, outputs)
        self.second_near = nn.Linear(hidden, outputs, bias=False)
        self.dropout = dropout

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        mean = averaged(edge_index, edge_weight, rows.shape[0])
        own, near = self.first(rows).chunk(2, dim=1)
        hidden = F.relu(own + mean(near) + self.first_bias)
        hidden = drop(hidden, self.dropout, self.training)
        logits: Tensor = self.second_own(hidden) + mean(self.second_near(hidden))
        return logits
