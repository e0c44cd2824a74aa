"""DAGNN (Liu et al., 2020): predictions of an MLP after 0 to K propagation steps, weighted per node."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import RowLinear, Rows
from gssc.models.base import NodeModel, Recipe
from gssc.models.dropout import drop, drop_entries
from gssc.models.propagation import normalized
from gssc.settings import Count, Dropout, WholeNumber


class DAGNN(NodeModel):
    r"""Deep adaptive graph neural network, https://arxiv.org/abs/2007.09296.

    .. math:: H_0 = \mathrm{MLP}(X), \quad H_k = \hat A^k H_0, \quad
        \mathrm{logits}_i = \sum_{k=0}^{K} \mathrm{sigmoid}(s^T H_{k,i}) H_{k,i}

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the hidden layer.
        hops: number of propagation steps K.
        dropout: share of feature values and of hidden units dropped in training.
    """

    recipe: ClassVar[Recipe] = Recipe(
        model={"hidden": 64, "hops": 10, "dropout": 0.8}, epochs=1000, lr=0.01, weight_decay=5e-3
    )
    recipes: ClassVar[dict[str, Recipe]] = {
        "citeseer": Recipe(model={"hidden": 64, "hops": 10, "dropout": 0.5}, epochs=1000, lr=0.01, weight_decay=2e-2),
    }

    def __init__(self, inputs: int, outputs: int, hidden: Count = 64, hops: WholeNumber = 10, dropout: Dropout = 0.8):
        super().__init__()
        self.first = RowLinear(inputs, hidden)
        self.second = nn.Linear(hidden, outputs)
        self.score = nn.Linear(outputs, 1)
        self.hops, self.dropout = hops, dropout

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        hidden = F.relu(self.first(drop_entries(rows, self.dropout, self.training)))
        reached = [self.second(drop(hidden, self.dropout, self.training))]
        spread = normalized(edge_index, edge_weight, rows.shape[0])
        for _ in range(self.hops):
            reached.append(spread(reached[-1]))
        by_hops = torch.stack(reached, dim=1)  # [N, K + 1, C]
        return (torch.sigmoid(self.score(by_hops)) * by_hops).sum(1)
