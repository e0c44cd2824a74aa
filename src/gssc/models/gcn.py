"""GCN (Kipf and Welling, 2017, https://arxiv.org/abs/1609.02907): two rounds of averaging over neighbours."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from gssc.extras import require
from gssc.features import RowLinear, Rows


class GCN(nn.Module):
    """Two graph convolutions with ReLU and dropout between them; PyTorch Geometric's normalisation and propagation.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of the hidden layer.
        dropout: share of hidden units dropped in training.
    """

    def __init__(self, inputs: int, outputs: int, hidden: int = 64, dropout: float = 0.5):
        super().__init__()
        conv = require("torch_geometric.nn", "bench").GCNConv
        self.first = RowLinear(inputs, hidden)  # the linear half of the first convolution, for sparse rows too
        self.spread = conv(hidden, hidden, bias=False)
        self.spread.lin = nn.Identity()
        self.second = conv(hidden, outputs)
        self.dropout = dropout

    def forward(self, rows: Rows, edge_index: Tensor) -> Tensor:
        """Logits of every node of the graph that ``edge_index`` [2, both directions] connects."""
        hidden = F.relu(self.spread(self.first(rows), edge_index))
        return self.second(F.dropout(hidden, self.dropout, self.training), edge_index)
