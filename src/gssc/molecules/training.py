"""The training loop of all graph-level models: shuffled batches, averaged weights, selection of an epoch.

It is a :class:`gssc.train.training.Training` whose graph is a MoleculeSet.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gssc.errors import GsscError
from gssc.molecules.batches import MoleculeBatch, collate, epoch_shares, shuffled
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.objective import GraphObjective
from gssc.settings import check_section, setting
from gssc.train.checkpoint import State
from gssc.train.optimize import AveragedModel, descend, falling
from gssc.train.selection import BestEpoch, Epoch
from gssc.train.training import NeedsGraph, Outcome, Training

if TYPE_CHECKING:
    from gssc.deploy import DeployedModel

PREDICT_AT_A_TIME = 512  # molecules


@dataclass
class Schedule:
    """Training schedule of a graph-level model.

    Args:
        epochs: passes over the training molecules, or a part of them (``common_per_rare``); the learning rate decays to
            a hundredth over them.
        batch_size: molecules per batch.
        lr: learning rate of Adam.
        weight_decay: weight decay of Adam.
        average: decay of the running average of the weights, which is used for prediction; 0 for none.
        select: the epoch to keep: the ``last`` one, without early stopping, or the one with the best ``validation``
            score.
        patience: with ``validation``, epochs without a better score before stopping early.
        balance: whether the two classes of a binary target have equal total weight.
        common_per_rare: an epoch has every training molecule with a rare label and about this many others for each of
            them, drawn anew for each epoch; 0 for all molecules.
        seed: seed of weights, batches and dropout.
        threads: threads of matrix products.
    """

    epochs: int = setting(25, low=0)
    batch_size: int = setting(64, low=1)
    lr: float = setting(1e-3, low=0)
    weight_decay: float = setting(1e-5, low=0)
    average: float = setting(0.99, low=0, high=0.99999)
    select: Literal["validation", "last"] = "last"
    patience: int = setting(10, low=1)
    balance: bool = True
    common_per_rare: float = setting(30.0, low=0)
    seed: int = setting(0, low=0, high=2**63 - 1)
    threads: int = setting(1, low=1, high=1024)


@dataclass
class MoleculeStep:
    """Output of one pass before it is scored: its phase, and fields of :class:`Epoch` by name.

    ``scores`` is empty because the loop has nothing to check: a loss that is not finite has already raised an error.
    """

    phase: str
    notes: dict[str, Any] = field(default_factory=dict)
    scores: Tensor = field(default_factory=lambda: torch.empty(0))


class MoleculeJudge:
    """Scores the validation and test molecules of a training; nothing is chosen by test scores."""

    def __init__(self, training: MoleculeTraining):
        self.training = training

    def record(self, step: MoleculeStep, epoch: int, seconds: float) -> Epoch:
        """Return the record of an epoch."""
        training, molecules = self.training, self.training.molecules
        scores = [math.nan, math.nan]
        for place, index in enumerate((molecules.val, molecules.test)):
            if len(index):
                scores[place] = training.objective.score(training.predict(index), molecules.targets[index])
        return Epoch(epoch, step.phase, val_score=scores[0], test_score=scores[1], seconds=seconds, **step.notes)


class TorchRandom:
    """The state of torch's generator between two passes, as a component of a training."""

    def __init__(self) -> None:
        self.state = torch.get_rng_state()

    def state_dict(self) -> State:
        """Return the state of the generator."""
        return {"state": self.state}

    def load_state_dict(self, state: State) -> None:
        """Restore a state of :meth:`state_dict`."""
        self.state = state["state"]


class MoleculeTraining(Training):
    """One training of one graph-level model.

    A subclass builds :attr:`model` in :meth:`build` and computes logits in :meth:`logits`.

    Args:
        molecules: the problem.
        config: the model's settings; ``config.train`` is a :class:`Schedule`.
    """

    model: nn.Module
    config: Any

    def __init__(self, molecules: MoleculeSet, config: Any):
        check_section("settings", type(config), config)
        if not len(molecules.train):
            raise GsscError(f"{molecules.name} has no training molecules: choose another split")
        self.molecules, self.config, self.schedule = molecules, config, config.train
        self.graph: Any = molecules
        self.task = molecules.task
        known = ~np.isnan(molecules.targets[molecules.train]).all(1)
        self.train_index = molecules.train[known]
        if min(len(self.train_index), self.schedule.batch_size) < 2:
            raise GsscError(
                f"{molecules.name}: {len(self.train_index)} training molecules with a known target, "
                f"{self.schedule.batch_size} per batch: at least two are needed"
            )
        self.shares = np.ones(len(molecules))  # share of the epochs that contain each molecule
        if not molecules.is_regression:
            targets = molecules.targets[self.train_index]
            self.shares[self.train_index] = epoch_shares(targets, self.schedule.common_per_rare)
        self.objective = GraphObjective(molecules, self.schedule.balance, self.shares)
        self.wanted = self.objective.wanted(molecules.targets)
        self.rng = np.random.Generator(np.random.SFC64(self.schedule.seed))
        by_validation = self.schedule.select == "validation" and len(molecules.val) > 0
        self.best = BestEpoch(self.schedule.patience, validation=by_validation)
        self.judge: Any = MoleculeJudge(self)
        self.epoch, self.seconds = 0, 0.0
        self._reached = 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.schedule.seed)
            self.build()
            self.torch_random = TorchRandom()
        self.averaged = AveragedModel(self.model, self.schedule.average)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=self.schedule.lr, weight_decay=self.schedule.weight_decay, fused=True
        )

    @property
    def total_epochs(self) -> int:
        """The number of epochs if training does not stop early."""
        return self.schedule.epochs

    @property
    def epochs_done(self) -> float:
        """The number of epochs that are done, with the share of the current one; for progress bars."""
        return max(self.epoch, self._reached)

    @abstractmethod
    def build(self) -> None:
        """Set :attr:`model`; called once with torch's generator seeded."""

    @abstractmethod
    def logits(self, model: nn.Module, batch: MoleculeBatch) -> Tensor:
        """Return the logits of a batch, [B, T], with dropout if the model is in training mode."""

    def batch_loss(self, batch: MoleculeBatch) -> Tensor:
        """Return the loss of a batch."""
        return self.objective.loss(self.logits(self.model, batch), self.wanted[torch.from_numpy(batch.index)])

    def end_of_pass(self, step: MoleculeStep) -> None:
        """Called after the pass over the molecules; may add values to the step."""

    def steps(self) -> Iterator[Any]:
        """Yield one step per epoch."""
        while self.epoch < self.schedule.epochs and not self.best.patience_is_over():
            for group in self.optimizer.param_groups:
                group["lr"] = falling(self.epoch / self.schedule.epochs) * self.schedule.lr
            step = MoleculeStep("supervised", {"classification_loss": self.one_pass()})
            self.end_of_pass(step)
            yield step

    def molecules_of_epoch(self) -> np.ndarray:
        """Return the training molecules of one epoch."""
        shares = self.shares[self.train_index]
        drawn = (shares < 1).any()  # otherwise no random number is drawn
        return self.train_index[self.rng.random(len(shares)) < shares] if drawn else self.train_index

    def one_pass(self) -> float:
        """Take one step per batch of training molecules and return the mean loss."""
        outside = torch.get_rng_state()
        torch.set_rng_state(self.torch_random.state)
        self.model.train()
        total, count, seen = 0.0, 0, 0
        chosen = self.molecules_of_epoch()
        try:
            for index in shuffled(chosen, self.schedule.batch_size, self.rng):
                loss = self.batch_loss(collate(self.molecules, index))
                descend(loss, self.optimizer)
                self.averaged.follow()
                total, count, seen = total + loss.item(), count + 1, seen + len(index)
                self._reached = self.epoch + seen / len(chosen)
        finally:
            self.torch_random.state = torch.get_rng_state()
            torch.set_rng_state(outside)
        if not math.isfinite(total):
            raise GsscError(
                f"training diverged in epoch {self.epoch}: the loss is not finite; lower lr (now {self.schedule.lr:g})"
            )
        return total / max(count, 1)

    @torch.no_grad()
    def predict(self, index: np.ndarray) -> np.ndarray:
        """Return the logits of these molecules by the averaged weights, [len(index), T]."""
        model = self.averaged.model
        was_training = model.training
        model.eval()
        blocks = [index[start : start + PREDICT_AT_A_TIME] for start in range(0, len(index), PREDICT_AT_A_TIME)]
        parts = [self.logits(model, collate(self.molecules, block)) for block in blocks]
        model.train(was_training)
        return torch.cat(parts).numpy() if parts else np.empty((0, self.molecules.num_targets), dtype=np.float32)

    def components(self) -> dict[str, Any]:
        """Return the parts that have a state."""
        return {
            "model": self.model,
            "averaged": self.averaged,
            "optimizer": self.optimizer,
            "torch_random": self.torch_random,
        }

    def kept_weights(self) -> State:
        """Return the weights used for prediction."""
        return {"model": self.averaged.model.state_dict()}

    def restore_best(self, weights: State) -> None:
        """Load weights of :meth:`kept_weights`."""
        self.averaged.model.load_state_dict(weights["model"])

    def outcome(self) -> Outcome:
        """Return the result; scores are logits of probabilities, or measured values in their own unit, [M, T]."""
        scores = self.predict(np.arange(len(self.molecules)))
        scores = self.objective.outputs(scores) if self.objective.regression else scores
        edges, trust = self.edge_trust()
        return Outcome(self.kept(), scores, self.seconds, self.epoch, int((trust > 0.5).sum()), edges.shape[1])

    def seconds_to_predict(self) -> float:
        """Return the time to predict every molecule of the set once, from its arrays."""
        started = time.perf_counter()
        self.predict(np.arange(len(self.molecules)))
        return time.perf_counter() - started

    def deployed(self) -> DeployedModel:
        """Raise NeedsGraph: only GSSC is an MLP on rows, and it is deployed by :mod:`gssc.molecules.deployed`."""
        raise NeedsGraph(f"{type(self).__name__} predicts from whole molecules and is not a plain MLP on rows")

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all bonds [2, E] and keep probabilities of one, for models that do not select bonds."""
        return self.molecules.bonds, np.ones(self.molecules.bonds.shape[1], dtype=np.float32)
