"""The first linear map of a message-passing model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gssc.features import Rows, product
from gssc.models.dropout import drop_entries


class InputMap(nn.Module):
    """Dropout of feature values, then a linear map without bias, for dense and sparse rows alike.

    It commutes with averaging over neighbours, so that the narrow output is averaged rather than the wide rows.

    Args:
        inputs: number of features.
        outputs: width of the result.
        dropout: share of feature values dropped in training.
    """

    def __init__(self, inputs: int, outputs: int, dropout: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
        self.dropout = dropout

    def forward(self, rows: Rows) -> Tensor:
        """Map rows [n, in] to [n, out]."""
        return product(drop_entries(rows, self.dropout, self.training), self.weight)


def decay_only(first: list[nn.Parameter], model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return parameter groups with weight decay on the first layer only."""
    chosen = {id(parameter) for parameter in first}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    return [{"params": first, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
