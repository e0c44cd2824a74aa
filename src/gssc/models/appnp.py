"""APPNP (Gasteiger et al., 2019): predictions of an MLP, propagated by personalised PageRank."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import Rows
from gssc.models.base import NodeModel, Recipe
from gssc.models.dropout import drop
from gssc.models.input_map import InputMap, decay_only
from gssc.models.propagation import normalized
from gssc.settings import Count, Dropout, Share, WholeNumber


class APPNP(NodeModel):
    r"""Predict then propagate, https://arxiv.org/abs/1810.05997.

    .. math:: Z^{(0)} = \mathrm{MLP}(X), \quad Z^{(k+1)} = (1 - \alpha) \hat A Z^{(k)} + \alpha Z^{(0)}

    with :math:`\hat A = D^{-1/2} (A + I) D^{-1/2}`. The L2 penalty is on the first layer only, and training drops
    different edges of :math:`\hat A` in every propagation step, as in the paper.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the hidden layer.
        hops: number of propagation steps K.
        restart: share of its own prediction that a node keeps, alpha.
        dropout: share of feature values, of hidden units and of edges dropped in training.
    """

    recipe: ClassVar[Recipe] = Recipe(
        model={"hidden": 64, "hops": 10, "restart": 0.1, "dropout": 0.5}, epochs=1000, lr=0.01, weight_decay=5e-3
    )

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Count = 64,
        hops: WholeNumber = 10,
        restart: Share = 0.1,
        dropout: Dropout = 0.5,
    ):
        super().__init__()
        self.first = InputMap(inputs, hidden, dropout)
        self.second = nn.Linear(hidden, outputs, bias=False)
        self.hops, self.restart, self.dropout = hops, restart, dropout
        nn.init.xavier_uniform_(self.second.weight)

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        hidden = drop(F.relu(self.first(rows)), self.dropout, self.training)
        own: Tensor = self.second(hidden)
        spread = normalized(edge_index, edge_weight, rows.shape[0])
        logits = own
        for _ in range(self.hops):
            logits = own.lerp(spread.with_dropout(self.dropout, self.training)(logits), 1 - self.restart)
        return logits

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return parameter groups with weight decay on the first layer only."""
        return decay_only([self.first.weight], self, weight_decay)
