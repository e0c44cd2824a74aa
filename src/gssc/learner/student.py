"""The student: a plain MLP that learns a teacher's opinion of every node from feature rows alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gssc.features import RowLinear, Rows, SparseRows
from gssc.models.dropout import drop
from gssc.train.optimize import descend, falling

BATCH = 1024
ROWS_AT_A_TIME = 65_536
LEAST_PASSES, STEPS = 10, 300  # passes over the rows: as many as take this many steps, and never fewer than the least


@dataclass(frozen=True)
class StudentSettings:
    """How a student is built and trained.

    Args:
        hidden: width of every hidden layer.
        layers: number of hidden layers.
        batch_norm: whether batch norm follows every hidden linear map.
        input_dropout: share of feature values dropped in training.
        dropout: share of hidden units dropped in training.
        lr: learning rate, falling to a hundredth.
        weight_decay: L2 penalty.
        steps: gradient steps in all.
    """

    hidden: int = 256
    layers: int = 1
    batch_norm: bool = True
    input_dropout: float = 0.0
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-4
    steps: int = STEPS


class Student(nn.Module):
    """Linear, (batch norm,) leaky ReLU, dropout for each hidden layer, then a linear map to the classes."""

    def __init__(self, inputs: int, outputs: int, settings: StudentSettings):
        super().__init__()
        self.settings, width = settings, settings.hidden
        self.first = RowLinear(inputs, width)
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(width) if settings.batch_norm else nn.Identity() for _ in range(settings.layers)
        )
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(settings.layers - 1))
        self.linears.append(nn.Linear(width, outputs))

    def forward(self, rows: Rows) -> Tensor:
        """Logits of feature rows, [n, C]."""
        hidden = self.first(dropped(rows, self.settings.input_dropout) if self.training else rows)
        for norm, linear in zip(self.norms, self.linears, strict=True):
            active = nn.functional.leaky_relu(norm(hidden))
            hidden = linear(drop(active, self.settings.dropout, self.training))
        return hidden

    @torch.no_grad()
    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The student as (weight [out, in], bias) pairs with batch norm folded in."""
        maps = [(self.first.weight.T, self.first.bias)]
        maps += [(linear.weight, linear.bias) for linear in self.linears]  # type: ignore[misc]
        folded = []
        for place, (weight, bias) in enumerate(maps):
            norm = self.norms[place] if place < len(self.norms) else None
            if isinstance(norm, nn.BatchNorm1d):
                assert norm.running_var is not None
                assert norm.running_mean is not None
                factor = norm.weight / (norm.running_var + norm.eps).sqrt()
                weight, bias = weight * factor.unsqueeze(1), (bias - norm.running_mean) * factor + norm.bias
            folded.append((weight.numpy().copy(), bias.numpy().copy()))
        return folded


class StudentTraining:
    """Trains a student towards soft labels, one pass over the rows at a time; can be interrupted and resumed.

    Args:
        rows: scaled rows of all nodes it may see, dense or CSR, [N, d].
        soft: soft labels, [N, C].
        nodes: rows it is trained on.
        settings: of the student.
        seed: of weights, order and dropout.
    """

    def __init__(self, rows: Any, soft: np.ndarray, nodes: np.ndarray, settings: StudentSettings, seed: int):
        self.rows, self.nodes, self.settings = rows, nodes, settings
        self.soft = torch.from_numpy(np.ascontiguousarray(soft, dtype=np.float32))
        batches = max(1, -(-len(nodes) // BATCH))
        self.batches, self.passes = batches, max(LEAST_PASSES, -(-settings.steps // batches))
        self.rng = np.random.default_rng([seed, 7])
        self.done = 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = Student(rows.shape[1], soft.shape[1], settings)
            self.torch_state = torch.get_rng_state()
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )

    def run(self) -> Iterator[float]:
        """The passes that are left; each gives its mean loss."""
        while self.done < self.passes:
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(self.torch_state)
                loss = self._one_pass()
                self.torch_state = torch.get_rng_state()
            self.done += 1
            yield loss

    def _one_pass(self) -> float:
        self.model.train()
        total = 0.0
        for number, part in enumerate(np.array_split(self.rng.permutation(self.nodes), self.batches)):
            progress = (self.done + number / self.batches) / self.passes
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings.lr * falling(progress)
            if len(part) < 2 and self.settings.batch_norm:
                continue
            loss = nn.functional.cross_entropy(self.model(as_rows(self.rows[part])), self.soft[torch.from_numpy(part)])
            descend(loss, self.optimizer)
            total += loss.item()
        return total / self.batches

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on."""
        from gssc.train.checkpoint import rng_state

        return copy.deepcopy(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "torch": self.torch_state,
                "rng": rng_state(self.rng),
                "done": self.done,
            }
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`state_dict`."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.torch_state, self.done = state["torch"], state["done"]
        self.rng.bit_generator.state = state["rng"]


@torch.no_grad()
def all_logits(model: Student, rows: Any) -> np.ndarray:
    """Logits of scaled rows in evaluation mode, a block at a time, [n, C]."""
    model.eval()
    starts = range(0, rows.shape[0], ROWS_AT_A_TIME)
    return torch.cat([model(as_rows(rows[start : start + ROWS_AT_A_TIME])) for start in starts]).numpy()


def dropped(rows: Rows, share: float) -> Rows:
    """Rows with a share of their values set to zero and the others scaled up."""
    if share == 0:
        return rows
    if isinstance(rows, Tensor):
        return drop(rows, share, training=True)
    matrix = rows.matrix
    kept = drop(torch.from_numpy(matrix.data), share, training=True).numpy()
    return SparseRows(sp.csr_matrix((kept, matrix.indices, matrix.indptr), matrix.shape))


def as_rows(rows: Any) -> Rows:
    """A dense array or CSR matrix as the rows that modules take."""
    return SparseRows(rows) if sp.issparse(rows) else torch.from_numpy(rows)
