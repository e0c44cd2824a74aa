"""The loop that every graph-level model shares: shuffled batches, averaged weights, selection by validation molecules.

It has the methods of the training protocol: ``epochs``, ``state_dict``, ``load_state_dict``, ``outcome``.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gssc.errors import GsscError
from gssc.molecules.batches import MoleculeBatch, collate, shuffled
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.objective import GraphObjective, average_precision
from gssc.train.averaging import AveragedModel
from gssc.train.checkpoint import module_state, optimizer_state, restore_optimizer, restore_rng, rng_state
from gssc.train.optimize import descend, falling

PREDICT_AT_A_TIME = 512


@dataclass
class Schedule:
    """How long and how fast a graph-level model is trained.

    Args:
        epochs: passes over the training molecules; the learning rate falls to a hundredth over them.
        batch_size: molecules per batch.
        lr: learning rate of Adam.
        weight_decay: of Adam.
        average: decay of the running average of the weights, which is what predicts; 0 for none.
        patience: epochs without a better validation score before stopping early.
        balance: weigh the two classes of a binary target equally.
        seed: of weights, batches and dropout.
    """

    epochs: int = 40
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 1e-5
    average: float = 0.99
    patience: int = 20
    balance: bool = True
    seed: int = 0


@dataclass
class MoleculeEpoch:
    """What happened in one epoch. The test score is for the record: nothing is chosen by it."""

    epoch: int
    phase: str
    loss: float
    val_score: float
    test_score: float
    bonds_kept: float = math.nan  # share of the training bonds that were kept
    agreement: float = math.nan  # share of kept bonds whose two ends have the same pseudo-label
    seconds: float = 0.0
    best: bool = False


@dataclass
class MoleculeOutcome:
    """A finished training.

    Args:
        kept: the epoch whose weights were kept.
        scores: logits of every molecule, [M, T].
        seconds: of training, without reading data and without scoring.
        epochs: trained.
        val_precision, test_precision: average precision of binary targets.
        predict_seconds: to predict all molecules of the set once, from arrays.
    """

    kept: MoleculeEpoch
    scores: np.ndarray
    seconds: float
    epochs: int
    val_precision: float
    test_precision: float
    predict_seconds: float


class MoleculeTraining(ABC):
    """One training of one graph-level model.

    A subclass builds :attr:`model` in :meth:`build` and computes logits in :meth:`logits`.

    Args:
        molecules: the problem.
        settings: its ``schedule`` is a :class:`Schedule`.
    """

    model: nn.Module

    def __init__(self, molecules: MoleculeSet, settings: Any):
        if not len(molecules.train):
            raise GsscError(f"{molecules.name} has no training molecules: choose another split")
        self.molecules, self.settings, self.schedule = molecules, settings, settings.schedule
        self.objective = GraphObjective(molecules, self.schedule.balance)
        self.wanted = self.objective.wanted(molecules.targets)
        known = ~np.isnan(molecules.targets[molecules.train]).all(1)
        self.train_index = molecules.train[known]
        self.rng = np.random.Generator(np.random.SFC64(self.schedule.seed))
        self.epoch, self.seconds = 0, 0.0
        self.best: MoleculeEpoch | None = None
        self.best_weights: dict[str, Tensor] = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.schedule.seed)
            self.build()
            self.torch_state = torch.get_rng_state()
        self.averaged = AveragedModel(self.model, self.schedule.average)
        self.optimizer = torch.optim.Adam(
            self.parameter_groups(), lr=self.schedule.lr, weight_decay=self.schedule.weight_decay, fused=True
        )

    @abstractmethod
    def build(self) -> None:
        """Set :attr:`model`; called once with torch's generator seeded."""

    @abstractmethod
    def logits(self, model: nn.Module, batch: MoleculeBatch) -> Tensor:
        """Return the logits of a batch, [B, T]; whether the model is in training mode decides about dropout."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What the optimiser updates."""
        return [{"params": list(self.model.parameters())}]

    def batch_loss(self, batch: MoleculeBatch) -> Tensor:
        """Return the loss of a batch."""
        return self.objective.loss(self.logits(self.model, batch), self.wanted[torch.from_numpy(batch.index)])

    def end_of_epoch(self, record: MoleculeEpoch) -> None:
        """Do what follows the pass over the molecules, and note it in the record."""

    def epochs(self) -> Iterator[MoleculeEpoch]:
        """Train from wherever it stands to the end; every yield is a point to resume from."""
        while self.epoch < self.schedule.epochs and not self.patience_is_over():
            started = time.perf_counter()
            self.scale_learning_rate(falling(self.epoch / self.schedule.epochs))
            loss = self.one_pass()
            record = MoleculeEpoch(self.epoch, "supervised", loss, math.nan, math.nan)
            self.end_of_epoch(record)
            self.seconds += time.perf_counter() - started
            record.seconds = self.seconds
            self.judge(record)
            self.epoch += 1
            yield record
        if self.best_weights:
            self.averaged.model.load_state_dict(self.best_weights)

    def one_pass(self) -> float:
        """Take one step per batch of training molecules; returns the mean loss."""
        outside = torch.get_rng_state()
        torch.set_rng_state(self.torch_state)
        self.model.train()
        total, count = 0.0, 0
        try:
            for index in shuffled(self.train_index, self.schedule.batch_size, self.rng):
                loss = self.batch_loss(collate(self.molecules, index))
                descend(loss, self.optimizer)
                self.averaged.follow()
                total, count = total + loss.item(), count + 1
        finally:
            self.torch_state = torch.get_rng_state()
            torch.set_rng_state(outside)
        if not math.isfinite(total):
            raise GsscError(
                f"training diverged in epoch {self.epoch}: the loss is not finite; lower lr (now {self.schedule.lr:g})"
            )
        return total / max(count, 1)

    def judge(self, record: MoleculeEpoch) -> None:
        """Score the epoch, and keep its weights if it is the best by validation molecules; without any, the last."""
        targets = self.molecules.targets
        for part in ("val", "test"):
            index = getattr(self.molecules, part)
            score = self.objective.score(self.predict(index), targets[index]) if len(index) else math.nan
            setattr(record, f"{part}_score", score)
        if self.best is None or math.isnan(record.val_score) or record.val_score > self.best.val_score:
            record.best, self.best = True, record
            self.best_weights = module_state(self.averaged.model)

    def patience_is_over(self) -> bool:
        """Whether the best epoch lies as far back as the schedule's patience."""
        if self.best is None or math.isnan(self.best.val_score):
            return False
        return self.epoch - self.best.epoch > self.schedule.patience

    def scale_learning_rate(self, factor: float) -> None:
        """Set each group's learning rate to this share of its full value."""
        for group in self.optimizer.param_groups:
            group["lr"] = factor * group.setdefault("full_lr", group["lr"])

    @torch.no_grad()
    def predict(self, index: np.ndarray) -> np.ndarray:
        """Return the logits of these molecules by the averaged weights, [len(index), T]."""
        model = self.averaged.model
        was_training = model.training
        model.eval()
        starts = range(0, len(index), PREDICT_AT_A_TIME)
        parts = [self.logits(model, collate(self.molecules, index[start : start + PREDICT_AT_A_TIME])) for start in starts]
        model.train(was_training)
        return torch.cat(parts).numpy() if parts else np.empty((0, self.molecules.num_targets), dtype=np.float32)

    def outcome(self) -> MoleculeOutcome:
        """Return how it went, after the end of :meth:`epochs`."""
        if self.best is None:
            raise GsscError("nothing was trained: the schedule has no epochs")
        started = time.perf_counter()
        scores = self.predict(np.arange(len(self.molecules)))
        elapsed = time.perf_counter() - started
        val, test, targets = self.molecules.val, self.molecules.test, self.molecules.targets
        precision = (math.nan, math.nan)
        if not self.objective.regression:
            precision = (average_precision(scores[val], targets[val]), average_precision(scores[test], targets[test]))
        return MoleculeOutcome(self.best, scores, self.seconds, self.epoch, *precision, predict_seconds=elapsed)

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on from here: groups of tensors, and plain notes under ``notes``."""
        return {
            "model": module_state(self.model),
            "averaged": module_state(self.averaged.model),
            "optimizer": optimizer_state(self.optimizer),
            "best": dict(self.best_weights),
            "torch": {"rng": self.torch_state},
            "notes": {
                "epoch": self.epoch,
                "seconds": self.seconds,
                "steps": self.averaged.steps,
                "best": asdict(self.best) if self.best else None,
                "rng": rng_state(self.rng),
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`state_dict`."""
        notes = state["notes"]
        self.model.load_state_dict(state["model"])
        self.averaged.model.load_state_dict(state["averaged"])
        restore_optimizer(self.optimizer, state.get("optimizer", {}))
        self.best_weights = state.get("best", {})
        self.torch_state = state["torch"]["rng"]
        self.epoch, self.seconds, self.averaged.steps = notes["epoch"], notes["seconds"], notes["steps"]
        self.best = MoleculeEpoch(**notes["best"]) if notes["best"] else None
        restore_rng(self.rng, notes["rng"])
