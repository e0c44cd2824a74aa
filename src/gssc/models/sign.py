"""SIGN (Frasca et al., 2020): an MLP on features averaged over several numbers of hops."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from gssc.features import Rows
from gssc.models.base import NodeModel, Recipe
from gssc.models.dropout import drop
from gssc.models.input_map import InputMap
from gssc.models.propagation import normalized
from gssc.settings import Count, Dropout, WholeNumber


class SIGN(NodeModel):
    r"""Scalable inception graph network with powers of the adjacency, https://arxiv.org/abs/2004.11198.

    .. math:: \mathrm{PReLU}\big([X \Theta_0 \,\|\, \hat A X \Theta_1 \,\|\, \ldots
        \,\|\, \hat A^r X \Theta_r]\big) \Omega

    Rows are mapped before they are averaged: the result is the same, and edge weights get a gradient, which features
    averaged in advance would not give them.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of each hop's map.
        hops: highest power r.
        dropout: share of hidden units dropped in training.
        input_dropout: share of feature values dropped in training.
    """

    recipe: ClassVar[Recipe] = Recipe(
        model={"hidden": 64, "hops": 3, "dropout": 0.5, "input_dropout": 0.5}, lr=0.01, weight_decay=5e-4
    )
    # Chosen by validation accuracy on one split of Chameleon and of Actor; Squirrel and Deezer follow Chameleon.
    recipes: ClassVar[dict[str, Recipe]] = {
        "chameleon": replace(recipe, weight_decay=5e-3, normalize="none"),
        "squirrel": replace(recipe, weight_decay=5e-3, normalize="none"),
        "deezer-europe": replace(recipe, weight_decay=5e-3, normalize="none"),
        "actor/fixed": replace(recipe, weight_decay=5e-4, normalize="none"),
    }

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Count = 64,
        hops: WholeNumber = 3,
        dropout: Dropout = 0.5,
        input_dropout: Dropout = 0.0,
    ):
        super().__init__()
        width = hidden * (hops + 1)
        self.first = InputMap(inputs, width, input_dropout)
        self.first_bias = nn.Parameter(torch.zeros(width))
        self.prelu = nn.PReLU()
        self.second = nn.Linear(width, outputs)
        self.hidden, self.hops, self.dropout = hidden, hops, dropout

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        spread = normalized(edge_index, edge_weight, rows.shape[0])
        travelling: Tensor = self.first(rows)
        arrived = []
        for _ in range(self.hops):  # after each step, the part of one more hop is complete
            stays, travelling = travelling.split([self.hidden, travelling.shape[1] - self.hidden], dim=1)
            arrived.append(stays)
            travelling = spread(travelling)
        hidden = self.prelu(torch.cat([*arrived, travelling], dim=1) + self.first_bias)
        logits: Tensor = self.second(drop(hidden, self.dropout, self.training))
        return logits
