"""SGC (Wu et al., 2019): all averaging first, then one linear map."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from gssc.features import Rows
from gssc.models.base import NodeModel, Recipe
from gssc.models.input_map import InputMap
from gssc.models.propagation import normalized
from gssc.settings import Dropout, WholeNumber


class SGC(NodeModel):
    r"""Simple graph convolution, https://arxiv.org/abs/1902.07153.

    .. math:: \hat A^K X W + b, \quad \hat A = D^{-1/2} (A + I) D^{-1/2}

    computed as :math:`\hat A^K (X W)`, which gives the same result and propagates only one column per class.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hops: number of propagation steps K.
        dropout: share of feature values dropped in training.
    """

    recipe: ClassVar[Recipe] = Recipe(model={"hops": 2}, epochs=100, lr=0.2, weight_decay=1e-5)
    # Chosen by validation accuracy on one split of Chameleon and of Actor; Squirrel and Deezer follow Chameleon.
    recipes: ClassVar[dict[str, Recipe]] = {
        "citeseer": Recipe(model={"hops": 2}, epochs=100, lr=0.2, weight_decay=1e-4),
        "chameleon": replace(recipe, lr=0.05, weight_decay=1e-4, normalize="none"),
        "squirrel": replace(recipe, lr=0.05, weight_decay=1e-4, normalize="none"),
        "deezer-europe": replace(recipe, lr=0.05, weight_decay=1e-4, normalize="none"),
        "actor": replace(recipe, lr=0.05, weight_decay=1e-3, normalize="none"),
        "actor/fixed": replace(recipe, lr=0.05, weight_decay=1e-4, normalize="none"),
    }

    def __init__(self, inputs: int, outputs: int, hops: WholeNumber = 2, dropout: Dropout = 0.0):
        super().__init__()
        self.linear = InputMap(inputs, outputs, dropout)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.hops = hops

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        spread = normalized(edge_index, edge_weight, rows.shape[0])
        logits: Tensor = self.linear(rows)
        for _ in range(self.hops):
            logits = spread(logits)
        return logits + self.bias
