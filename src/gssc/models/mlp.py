"""A plain MLP on feature rows: what the labels alone can teach, with no use of the graph."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import RowLinear, Rows


class MLP(nn.Module):
    """Two linear layers with ReLU and dropout.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the hidden layer.
        dropout: share of hidden units dropped in training.
    """

    def __init__(self, inputs: int, outputs: int, hidden: int = 64, dropout: float = 0.5):
        super().__init__()
        self.first = RowLinear(inputs, hidden)
        self.second = nn.Linear(hidden, outputs)
        self.dropout = dropout

    def forward(self, rows: Rows, edge_index: Tensor | None = None) -> Tensor:
        """Logits of the rows; the edges are not looked at."""
        return self.second(F.dropout(F.relu(self.first(rows)), self.dropout, self.training))
