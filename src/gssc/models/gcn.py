"""GCN (Kipf and Welling, 2017): two rounds of averaging over neighbours."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import Rows
from gssc.models.base import NodeModel, Recipe
from gssc.models.dropout import drop
from gssc.models.input_map import InputMap, decay_only
from gssc.models.propagation import normalized
from gssc.settings import Count, Dropout


class GCN(NodeModel):
    r"""Graph convolutional network, https://arxiv.org/abs/1609.02907.

    .. math:: \hat A \, \mathrm{ReLU}(\hat A X W_1) W_2, \quad \hat A = D^{-1/2} (A + I) D^{-1/2}

    The L2 penalty is on the first layer only, as in the paper.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the hidden layer.
        dropout: share of feature values and of hidden units dropped in training.
    """

    # The paper has 16 hidden units; 64 is common in later comparisons.
    recipe: ClassVar[Recipe] = Recipe(model={"hidden": 64, "dropout": 0.5}, lr=0.01, weight_decay=5e-4)

    def __init__(self, inputs: int, outputs: int, hidden: Count = 64, dropout: Dropout = 0.5):
        super().__init__()
        self.first = InputMap(inputs, hidden, dropout)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Linear(hidden, outputs, bias=False)
        self.second_bias = nn.Parameter(torch.zeros(outputs))
        self.dropout = dropout
        nn.init.xavier_uniform_(self.second.weight)

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        spread = normalized(edge_index, edge_weight, rows.shape[0])
        hidden = F.relu(spread(self.first(rows)) + self.first_bias)
        return spread(self.second(drop(hidden, self.dropout, self.training))) + self.second_bias

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return parameter groups with weight decay on the first layer only."""
        return decay_only([self.first.weight, self.first_bias], self, weight_decay)
