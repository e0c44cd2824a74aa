"""Scoring of epochs, selection of the best one and early stopping, by validation nodes only."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch import Tensor

from gssc.tasks import Task
from gssc.train.checkpoint import State


@dataclass
class Epoch:
    """Record of one epoch. Test score and true homophily are for analysis only: nothing is chosen by them.

    Scores use the metric of the task: accuracy for classes, ROC-AUC for multi-label targets.
    """

    epoch: int
    phase: str  # "warm-up", "alternate", "consolidate"; "supervised", "teacher", "student" or "spread" for rivals
    smoothness_loss: float = 0.0
    classification_loss: float = 0.0
    center_loss: float = 0.0
    sparsifier_loss: float = 0.0
    train_score: float = math.nan
    val_score: float = math.nan
    val_loss: float = math.nan
    test_score: float = math.nan
    edges_kept: int = 0  # undirected edges in the sampled subgraph, in at least one direction; pairs if streamed
    homophily: float = math.nan  # of the sampled subgraph, by true labels
    pseudo_homophily: float = math.nan  # homophily by pseudo-labels
    seconds: float = 0.0
    best: bool = False


@dataclass
class Step:
    """Output of one epoch of updates, before it is scored.

    Args:
        phase: name of the phase.
        scores: logits of the nodes that a :class:`Judge` scores, [n, C].
        edges: positions of the undirected edges trained on, among those of the sparsifier.
        losses: mean losses by their names in :class:`Epoch`.
    """

    phase: str
    scores: Tensor
    edges: np.ndarray
    losses: dict[str, float] = field(default_factory=dict)


@dataclass
class Judge:
    """Scores an epoch. Only training and validation nodes influence anything; the rest is for the record.

    Args:
        task: the prediction task.
        labels: true labels of the scored nodes, [n] or [n, T].
        edges: undirected edges of the sparsifier by the numbers of the scored nodes, [2, E].
        train, val, test: positions among the scored nodes.
        logits: whether scores are logits, which have a loss.
    """

    task: Task
    labels: np.ndarray
    edges: np.ndarray
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    logits: bool = True

    def record(self, step: Step, epoch: int, seconds: float) -> Epoch:
        """Return the record of an epoch."""
        scores = step.scores.numpy()
        train, val, test = (
            self.task.score(scores[part], self.labels[part]) for part in (self.train, self.val, self.test)
        )
        kept = self.edges[:, step.edges]
        agreement = self.task.agreement(step.scores, *torch.from_numpy(kept))
        return Epoch(
            epoch=epoch,
            phase=step.phase,
            **step.losses,  # type: ignore[arg-type]  # named as the fields are
            train_score=train,
            val_score=val,
            val_loss=self.task.log_loss(scores[self.val], self.labels[self.val]) if self.logits else math.nan,
            test_score=test,
            edges_kept=kept.shape[1],
            homophily=self.task.homophily(self.labels, kept),
            pseudo_homophily=float(agreement.mean()) if len(agreement) else math.nan,
            seconds=seconds,
        )


@dataclass
class BestEpoch:
    """The epoch with the highest validation score so far; among equal ones, the one with the lowest validation loss.

    Without validation labels the last epoch is kept and nothing stops early.

    Args:
        patience: epochs without improvement before stopping early, see :meth:`patience_is_over`.
        validation: whether there are validation labels.
    """

    patience: int
    validation: bool
    record: Epoch | None = None
    weights: State = field(default_factory=dict)
    epochs_since: int = 0

    def judge(self, record: Epoch) -> bool:
        """Return whether this epoch replaces the kept one.

        In the last phase the learning rate decays to its end, so the latest epoch is kept: the best of many noisy
        epochs is partly chosen by chance, which does not carry over to test nodes.
        """
        self.epochs_since += 1
        choose = self.validation and record.phase != "consolidate"
        if choose and self.record and self._merit(record) <= self._merit(self.record):
            return False
        record.best, self.record, self.epochs_since = True, record, 0
        return True

    def reason(self) -> str:
        """Return why the kept epoch was chosen."""
        if self.record is not None and self.record.phase == "consolidate":
            return "the last epoch of the consolidation"
        if not self.validation:
            return "the last epoch, since there are no validation labels"
        return "the highest validation score"

    def patience_is_over(self) -> bool:
        """Return whether there has been no better epoch for ``patience`` epochs."""
        return self.validation and self.epochs_since >= self.patience

    def state_dict(self) -> State:
        """Return the kept record and weights, and the number of epochs since."""
        record = asdict(self.record) if self.record else None
        return {"record": record, "weights": self.weights, "epochs_since": self.epochs_since}

    def load_state_dict(self, state: State) -> None:
        """Restore a state of :meth:`state_dict`."""
        self.record = Epoch(**state["record"]) if state["record"] else None
        self.weights, self.epochs_since = state["weights"], state["epochs_since"]

    def _merit(self, record: Epoch) -> tuple[float, float]:
        score, loss = (-math.inf if math.isnan(x) else x for x in (record.val_score, -record.val_loss))
        return score, loss
