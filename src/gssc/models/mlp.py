"""A plain MLP on feature rows, trained on labels alone, without the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import RowLinear, Rows
from gssc.models.base import NodeModel, Recipe, folded
from gssc.models.dropout import drop, drop_entries
from gssc.settings import Count, Dropout


class MLP(NodeModel):
    """Two linear layers with ReLU and dropout.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the hidden layer.
        dropout: share of hidden units dropped in training.
        input_dropout: share of feature values dropped in training.
    """

    passes_messages: ClassVar[bool] = False
    learns_from_edges: ClassVar[bool] = False
    recipe: ClassVar[Recipe] = Recipe(model={"hidden": 64, "dropout": 0.5}, lr=0.01, weight_decay=5e-4)
    # Few labels and bags of words need more regularisation: half of the inputs dropped and a strong decay.
    _bags_of_words: ClassVar[Recipe] = Recipe(
        model={"hidden": 64, "dropout": 0.5, "input_dropout": 0.5}, lr=0.01, weight_decay=5e-3, normalize="row"
    )
    # Chosen by validation accuracy on one split of Chameleon, Actor and the Coauthor graphs; Squirrel and Deezer follow
    # Chameleon.
    recipes: ClassVar[dict[str, Recipe]] = {
        **dict.fromkeys(("cora", "citeseer", "digits", "ogbn-arxiv"), _bags_of_words),
        **dict.fromkeys(("coauthor-cs", "coauthor-physics"), replace(_bags_of_words, weight_decay=5e-4)),
        **dict.fromkeys(("chameleon", "squirrel", "deezer-europe", "actor"), replace(_bags_of_words, normalize="none")),
        "actor/fixed": replace(_bags_of_words, weight_decay=5e-4, normalize="none"),
    }

    def __init__(
        self, inputs: int, outputs: int, hidden: Count = 64, dropout: Dropout = 0.5, input_dropout: Dropout = 0.0
    ):
        super().__init__()
        self.first = RowLinear(inputs, hidden)
        self.second = nn.Linear(hidden, outputs)
        self.dropout, self.input_dropout = dropout, input_dropout

    def forward(self, rows: Rows, edge_index: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of the rows; edges are not used."""
        hidden = F.relu(self.first(drop_entries(rows, self.input_dropout, self.training)))
        return self.second(drop(hidden, self.dropout, self.training))

    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return its two linear maps."""
        return [folded(self.first.weight.T, self.first.bias), folded(self.second.weight, self.second.bias)]
