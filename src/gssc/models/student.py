"""The student: the plain MLP that GSSC's default learner trains and deploys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gssc.features import RowLinear, Rows, SparseRows, product
from gssc.models.base import folded
from gssc.models.dropout import drop

ROWS_AT_A_TIME = 65_536


@dataclass(frozen=True)
class StudentSettings:
    """Architecture and training settings of a student.

    Args:
        hidden: width of every hidden layer.
        layers: number of hidden layers; with none it is a linear map.
        batch_norm: whether batch norm follows every hidden linear map.
        input_dropout: share of feature values dropped in training.
        dropout: share of hidden units dropped in training.
        lr: initial learning rate, which decays to a hundredth.
        weight_decay: L2 penalty.
        steps: total number of gradient steps.
        batch: rows per step.
        splits: share of the units of the first layer that start at splits of trees (:mod:`gssc.learner.splits`).
    """

    hidden: int = 256
    layers: int = 1
    batch_norm: bool = True
    input_dropout: float = 0.0
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-4
    steps: int = 300
    batch: int = 1024
    splits: float = 0.0


class Student(nn.Module):
    """MLP: linear, (batch norm,) leaky ReLU and dropout per hidden layer, then a linear map to the classes.

    Args:
        inputs: number of features.
        outputs: number of classes.
        settings: its architecture.
        input_scale: factor by which rows are multiplied.
    """

    passes_messages: ClassVar[bool] = False
    learns_from_edges: ClassVar[bool] = True

    def __init__(self, inputs: int, outputs: int, settings: StudentSettings, input_scale: float = 1.0):
        super().__init__()
        self.register_buffer("input_scale", torch.tensor(input_scale))
        self.input_scale: Tensor
        self.settings, width = settings, settings.hidden if settings.layers else outputs
        self.first = RowLinear(inputs, width)
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(width) if settings.batch_norm else nn.Identity() for _ in range(settings.layers)
        )
        after = [width] * (settings.layers - 1) + [outputs] * (settings.layers > 0)
        self.linears = nn.ModuleList(nn.Linear(width, size) for size in after)

    def forward(self, rows: Rows) -> Tensor:
        """Return the logits of feature rows, [n, C]."""
        rows = dropped(rows, self.settings.input_dropout) if self.training else rows
        hidden = torch.addcmul(self.first.bias, product(rows, self.first.weight), self.input_scale)
        for norm, linear in zip(self.norms, self.linears, strict=True):
            active = nn.functional.leaky_relu(norm(hidden))
            hidden = linear(drop(active, self.settings.dropout, self.training))
        return hidden

    @torch.no_grad()
    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the student as (weight [out, in], bias) pairs with batch norm folded in."""
        maps: list[tuple[Tensor, Tensor]] = [(self.first.weight.T * self.input_scale, self.first.bias)]
        maps += [(linear.weight, linear.bias) for linear in self.linears]  # type: ignore[misc]
        return [folded(*pair, norm) for pair, norm in zip(maps, [*self.norms, None], strict=True)]


@torch.no_grad()
def all_logits(model: Student, rows: Any) -> np.ndarray:
    """Return the logits of scaled rows in evaluation mode, computed in blocks, [n, C]."""
    model.eval()
    starts = range(0, rows.shape[0], ROWS_AT_A_TIME)
    return torch.cat([model(as_rows(rows[start : start + ROWS_AT_A_TIME])) for start in starts]).numpy()


def dropped(rows: Rows, share: float) -> Rows:
    """Return rows with a share of their values dropped and the others scaled up.

    Unlike :func:`gssc.models.dropout.drop_entries` it caches nothing: the rows of a batch are used once.
    """
    if share == 0:
        return rows
    if isinstance(rows, Tensor):
        return drop(rows, share, training=True)
    matrix = rows.matrix
    kept = drop(torch.from_numpy(matrix.data), share, training=True).numpy()
    return SparseRows(sp.csr_matrix((kept, matrix.indices, matrix.indptr), matrix.shape))


def as_rows(rows: Any) -> Rows:
    """Return a dense array or CSR matrix as the rows that modules accept."""
    return SparseRows(rows) if sp.issparse(rows) else torch.from_numpy(rows)
