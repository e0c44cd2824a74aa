"""H2GCN (Zhu et al., 2020): own row, neighbours and two-hop neighbours as separate inputs."""

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
from gssc.models.propagation import Messages, normalized
from gssc.models.recent import Recent
from gssc.models.two_hop import two_hop_pairs
from gssc.settings import Count, Dropout

_two_hops: Recent[Messages] = Recent(2)


class H2GCN(NodeModel):
    r"""Beyond homophily, https://arxiv.org/abs/2006.11468.

    .. math:: R_0 = \mathrm{ReLU}(X W), \quad R_k = [A_1 R_{k-1} \,\|\, A_2 R_{k-1}], \quad
        \mathrm{logits} = [R_0 \,\|\, \ldots \,\|\, R_K] W'

    :math:`A_1` are the edges and :math:`A_2` the pairs exactly two steps apart, both normalised by degree, without
    self-loops.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of R_0; every round doubles it.
        rounds: rounds of aggregation K.
        dropout: share of units of the final rows dropped in training.
        input_dropout: share of feature values dropped in training.
    """

    recipe: ClassVar[Recipe] = Recipe(
        model={"hidden": 64, "rounds": 2, "dropout": 0.5}, epochs=500, lr=0.01, weight_decay=5e-4
    )
    # Chosen by validation accuracy on one split of Chameleon and of Actor; Squirrel and Deezer follow Chameleon.
    recipes: ClassVar[dict[str, Recipe]] = {
        "chameleon": replace(recipe, weight_decay=5e-3, normalize="none"),
        "squirrel": replace(recipe, weight_decay=5e-3, normalize="none"),
        "deezer-europe": replace(recipe, weight_decay=5e-3, normalize="none"),
    }

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Count = 64,
        rounds: Count = 2,
        dropout: Dropout = 0.5,
        input_dropout: Dropout = 0.0,
    ):
        super().__init__()
        self.first = InputMap(inputs, hidden, input_dropout)
        self.last = nn.Linear(hidden * (2 ** (rounds + 1) - 1), outputs, bias=False)
        self.rounds, self.dropout = rounds, dropout
        nn.init.xavier_uniform_(self.last.weight)

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C]."""
        near = normalized(edge_index, edge_weight, rows.shape[0], loops=False)
        far = two_hops(edge_index, edge_weight, rows.shape[0])
        seen = [F.relu(self.first(rows))]
        for _ in range(self.rounds):
            seen.append(torch.cat([near(seen[-1]), far(seen[-1])], dim=1))
        logits: Tensor = self.last(drop(torch.cat(seen, dim=1), self.dropout, self.training))
        return logits


def two_hops(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Messages:
    """Return the normalised pairs two steps apart, :math:`A_2`; cached for edges with fixed weights."""

    def build() -> Messages:
        return normalized(*two_hop_pairs(edge_index, edge_weight, num_nodes), num_nodes, loops=False)

    if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
        return build()
    return _two_hops.get((edge_index, edge_weight), (num_nodes,), build)
