"""Training of a student: a plain MLP that learns soft labels from feature rows alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax
from torch import nn

from gssc.data.scaling import mean_length
from gssc.learner.linear import Fit
from gssc.learner.multinomial import NARROW, naive_bayes
from gssc.learner.ridge import soft_ridge
from gssc.learner.splits import start_at_splits
from gssc.models.settings import GsscSettings
from gssc.models.student import LinearMap, Student, StudentSettings, all_logits, as_rows
from gssc.train.checkpoint import rng_state
from gssc.train.optimize import descend, falling
from gssc.train.training import Diverged

SMALL = 2000  # rows; with fewer, students take fewer steps
FEW = 4000  # narrow rows up to which a student is half as wide: it is as good, predicts and trains in half the time
USUAL_WIDTH = 256
BATCH = 256, 1024  # minimum and maximum rows per step; wide rows, whose updates cost more, use the maximum
BATCHES = 64  # per pass over narrow rows, within the limits of the batch size
UNREGULARISED = "unregularised"  # kind of student that follows its teacher as closely as it can
LEAST_PASSES = 10  # minimum number of passes over the rows, however many steps they take


def _naive_bayes_map(rows: Any, soft: np.ndarray) -> LinearMap | None:
    fitted = naive_bayes(rows, soft)
    return None if fitted is None else LinearMap(fitted.weights, np.zeros(soft.shape[1], np.float32))


def constant_map(soft: np.ndarray, width: int) -> LinearMap:
    """Return the linear map that predicts the mean soft label for every row of this width."""
    bias = np.log(np.maximum(soft.mean(axis=0), np.finfo(np.float32).tiny))
    return LinearMap(np.zeros((width, soft.shape[1]), np.float32), bias.astype(np.float32))


FITS = {"naive Bayes": _naive_bayes_map, "ridge": soft_ridge}  # the linear models that a student may be averaged with


class StudentTraining:
    """Trains a student towards soft labels, one pass over the rows at a time; can be interrupted and resumed.

    Args:
        rows: scaled rows of all nodes, dense or CSR, [N, d].
        soft: soft labels, [N, C].
        nodes: rows that it is trained on.
        settings: settings of the student.
        seed: seed of weights, order of rows and dropout.
    """

    def __init__(self, rows: Any, soft: np.ndarray, nodes: np.ndarray, settings: StudentSettings, seed: int):
        self.rows, self.nodes, self.settings = rows, nodes, settings
        self.soft = torch.from_numpy(np.ascontiguousarray(soft, dtype=np.float32))
        self.batches, self.passes = batches_and_passes(settings, len(nodes))
        self.rng = np.random.default_rng([seed, 7])
        self.done = 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = Student(rows.shape[1], soft.shape[1], settings, 1 / mean_length(rows))
            self.torch_state = torch.get_rng_state()
        own, own_soft = rows[nodes], soft[nodes]
        self.model.first.weight.data[torch.from_numpy(unused_columns(own))] = 0
        if settings.splits:
            start_at_splits(self.model, own, own_soft, settings.splits, seed)
        fitted = [FITS[name](own, own_soft) for name in settings.beside]
        maps = [found for found in fitted if found is not None]
        if not settings.steps and not maps:
            maps = [constant_map(own_soft, rows.shape[1])]
        self.model.average_with(maps)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )

    @property
    def has_ended(self) -> bool:
        """Whether all passes are done."""
        return self.done >= self.passes

    def run(self) -> Iterator[float]:
        """Run the remaining passes; yield the mean loss of each."""
        while not self.has_ended:
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
            if not math.isfinite(total):
                raise Diverged(f"pass {self.done}, batch {number} of a student", "use another --train.normalize")
        return total / self.batches

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
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
        """Resume from a state of :meth:`state_dict`."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.torch_state, self.done = state["torch"], state["done"]
        self.rng.bit_generator.state = state["rng"]


def batches_and_passes(settings: StudentSettings, rows: int) -> tuple[int, int]:
    """Return the number of batches per pass over rows, and the number of passes.

    >>> batches_and_passes(StudentSettings(steps=300, batch=1024), 10_000)
    (10, 30)
    """
    batches = max(1, -(-rows // settings.batch))
    return batches, max(LEAST_PASSES, -(-settings.steps // batches)) if settings.steps else 0


def student_variants(
    model: GsscSettings, num_nodes: int, num_features: int, judged: bool = False, counts: bool = False
) -> dict[str, StudentSettings]:
    """Return the settings of each kind of student; of wide rows, from the least to the most regularised one.

    Defaults depend on the size of the data.

    Args:
        model: settings of the run.
        num_nodes: number of rows.
        num_features: number of columns.
        judged: whether students are judged on held-out rows. Then there is a ridge regression and, for wide rows, one
            student drops few inputs (half of a row of five words is too little) and one that drops half of them is
            averaged with a ridge regression.
        counts: whether rows are counts (:func:`gssc.learner.multinomial.are_counts`) and the students are for unseen
            rows: there are two students, both averaged with naive Bayes and a ridge regression. The unregularised one
            is left out: validation rows are too easy for it, since their neighbours, whose soft labels depend on them,
            are in training.
    """
    wide, small = num_features > NARROW, num_nodes < SMALL
    usual = 200 if small else 300 if wide else 1200
    width = USUAL_WIDTH if wide or num_nodes > FEW else USUAL_WIDTH // 2
    base = StudentSettings(
        hidden=model.hidden or width, layers=model.layers or (1 if wide else 2), steps=model.steps or usual
    )
    base = base if wide or small else replace(base, batch=min(max(num_nodes // BATCHES, BATCH[0]), BATCH[1]))
    base = base if wide else replace(base, splits=0.5)
    close = replace(base, dropout=0.0, weight_decay=0.0)
    dropped = replace(base, batch_norm=False, input_dropout=0.5)
    ridge = {"ridge": replace(base, layers=0, batch_norm=False, splits=0.0, steps=0, beside=("ridge",))}
    if not wide:
        return {
            UNREGULARISED: close,
            **(ridge if judged else {}),
            "plain": replace(base, batch_norm=False, dropout=0.1, weight_decay=1e-4),
            "batch norm": replace(base, dropout=0.2, weight_decay=1e-4),
        }
    if not judged:
        return {UNREGULARISED: close, "inputs dropped": dropped}
    few = replace(dropped, input_dropout=0.2)
    if counts:
        kinds = {"few inputs dropped": few, "inputs dropped": dropped}
        return {name: replace(settings, beside=("naive Bayes", "ridge")) for name, settings in kinds.items()}
    averaged = {"inputs dropped and ridge": replace(dropped, beside=("ridge",))}
    return {UNREGULARISED: close, "few inputs dropped": few, **averaged, **ridge}


def labels_only_mlp(classes: int, seed: int) -> Fit:
    """Return the fit function of an MLP trained on labels, with dropout of units and, on wide rows, of inputs."""

    def fit(inputs: Any, train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        soft = np.zeros((inputs.shape[0], classes), dtype=np.float32)
        soft[train, labels] = 1 if weight is None else weight / weight.mean()
        settings = StudentSettings(batch_norm=False, input_dropout=0.5 if inputs.shape[1] > NARROW else 0.0)
        training = StudentTraining(inputs, soft, train, settings, seed)
        for _ in training.run():
            pass
        return np.asarray(softmax(all_logits(training.model, inputs), axis=1), dtype=np.float32)

    return fit


def unused_columns(rows: Any) -> np.ndarray:
    """Return the columns that are zero in every row.

    Their weights get no gradient, so random initial values would add noise to later rows that have a value there.
    """
    filled = rows.getnnz(axis=0) if sp.issparse(rows) else rows.any(axis=0)
    return np.flatnonzero(~filled.astype(bool))
