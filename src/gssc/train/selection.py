"""Selection of the best epoch and early stopping, by validation nodes only."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

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
    edges_kept: int = 0  # undirected edges in the sampled subgraph, in at least one direction
    homophily: float = math.nan  # of the sampled subgraph, by true labels
    pseudo_homophily: float = math.nan  # the same by pseudo-labels
    seconds: float = 0.0
    best: bool = False


@dataclass
class BestEpoch:
    """The best epoch so far by validation. Without validation labels the last epoch is kept and nothing stops early.

    Args:
        select: ``accuracy`` (ties: lower loss) or ``loss``.
        patience: epochs without improvement before stopping early, see :meth:`patience_is_over`.
        validation: whether there are validation labels.
    """

    select: str
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
        return "the lowest validation loss" if self.select == "loss" else "the highest validation score"

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

    def _merit(self, record: Epoch) -> tuple[float, ...]:
        score, loss = (-math.inf if math.isnan(x) else x for x in (record.val_score, -record.val_loss))
        return (loss,) if self.select == "loss" else (score, loss)
