"""The student: the plain MLP that GSSC's default learner trains and deploys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gssc.deploy.activations import LEAKY_SLOPE
from gssc.features import RowLinear, Rows, SparseRows, product
from gssc.models.base import folded
from gssc.models.dropout import drop

Layers = list[tuple[np.ndarray, np.ndarray]]  # (weight [out, in], bias) of each linear map

ROWS_AT_A_TIME = 65_536


class LinearMap(NamedTuple):
    """A linear model: the logits of rows x are x @ weights + bias.

    Args:
        weights: [d, C].
        bias: [C].
    """

    weights: np.ndarray
    bias: np.ndarray


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
        steps: total number of gradient steps; with none there is no network, only linear models.
        batch: rows per step.
        splits: share of the units of the first layer that start at splits of trees (:mod:`gssc.learner.splits`).
        beside: names of linear models that its network is averaged with, ``naive Bayes``
            (:mod:`gssc.learner.multinomial`) or ``ridge`` (:mod:`gssc.learner.ridge`). They are fitted in closed form.
            Predictions are the geometric mean of all.
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
    beside: tuple[str, ...] = ()


class Student(nn.Module):
    """MLP: linear, (batch norm,) leaky ReLU and dropout per hidden layer, then a linear map to the classes.

    Its predictions may be averaged with those of linear models of the same rows (``settings.beside``). Without steps of
    training there is no network, and these are all there is.

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
        self.network_share: Tensor
        self.linear_weight: Tensor
        self.linear_bias: Tensor
        averaged = bool(settings.beside)
        self.register_buffer("network_share", torch.tensor(1.0) if averaged else None)
        self.register_buffer("linear_weight", torch.zeros(inputs, outputs) if averaged else None)
        self.register_buffer("linear_bias", torch.zeros(outputs) if averaged else None)

    def average_with(self, maps: list[LinearMap]) -> None:
        """Make the logits of every prediction the mean of the network's, if there is one, and those of linear maps."""
        if maps:
            networks = int(self.settings.steps > 0)
            share = 1 / (networks + len(maps))
            self.network_share.fill_(share * networks)
            self.linear_weight.copy_(share * torch.from_numpy(np.sum([one.weights for one in maps], axis=0)))
            self.linear_bias.copy_(share * torch.from_numpy(np.sum([one.bias for one in maps], axis=0)))

    def forward(self, rows: Rows) -> Tensor:
        """Return the logits of feature rows, [n, C]."""
        rows = dropped(rows, self.settings.input_dropout) if self.training else rows
        hidden = torch.addcmul(self.first.bias, product(rows, self.first.weight), self.input_scale)
        for norm, linear in zip(self.norms, self.linears, strict=True):
            active = nn.functional.leaky_relu(norm(hidden))
            hidden = linear(drop(active, self.settings.dropout, self.training))
        if self.settings.beside and not self.training:
            hidden = self.network_share * hidden + product(rows, self.linear_weight) + self.linear_bias
        return hidden

    @torch.no_grad()
    def folded_layers(self) -> Layers:
        """Return the student as (weight [out, in], bias) pairs with batch norm and the linear maps folded in."""
        maps: list[tuple[Tensor, Tensor]] = [(self.first.weight.T * self.input_scale, self.first.bias)]
        maps += [(linear.weight, linear.bias) for linear in self.linears]  # type: ignore[misc]
        layers = [folded(*pair, norm) for pair, norm in zip(maps, [*self.norms, None], strict=True)]
        if not self.settings.beside:
            return layers
        weight, bias = layers[-1]
        share = self.network_share.numpy()
        layers[-1] = share * weight, share * bias + self.linear_bias.numpy()
        return sum_with_linear(layers, self.linear_weight.numpy().T)


def sum_with_linear(layers: Layers, direct: np.ndarray) -> Layers:
    r"""Return an MLP with leaky ReLU whose logits are the sum of another one's and of a linear map's.

    Two additional units per class in every hidden layer carry the output u of the linear map and -u. Leaky ReLU with
    slope s, written r, loses nothing of them:

    .. math:: u = (r(u) - r(-u)) / (1 + s)

    Args:
        layers: (weight [out, in], bias) pairs of the MLP.
        direct: weight of the linear map, [C, d].
    """
    classes = len(direct)
    back = np.concatenate([np.eye(classes), -np.eye(classes)], axis=1, dtype=np.float32) / np.float32(1 + LEAKY_SLOPE)
    found = []
    for place, (weight, bias) in enumerate(layers):
        if place:
            direct = np.concatenate([np.zeros((classes, weight.shape[1]), np.float32), back], axis=1)
            weight = np.concatenate([weight, np.zeros((len(weight), 2 * classes), np.float32)], axis=1)
        if place == len(layers) - 1:
            found.append((weight + direct, bias))
        else:
            carried = np.zeros(2 * classes, np.float32)
            found.append((np.concatenate([weight, direct, -direct]), np.concatenate([bias, carried])))
    return found


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
