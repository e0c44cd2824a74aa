"""Prediction tasks: classes, multi-label targets or numbers, each with its loss, metric and decoding.

A task serves nodes and whole graphs: each row of logits and targets is one of them. Methods that take tensors need
torch; the others take arrays and work without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gssc.extras import deferred
from gssc.metrics import accuracy, binary_log_loss, edge_homophily, log_loss, rmse, roc_auc

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import Tensor
else:
    torch, F = deferred("torch", extra="train"), deferred("torch.nn.functional", extra="train")


@dataclass(frozen=True)
class Task(ABC):
    """One kind of prediction.

    Args:
        width: number of outputs: classes, targets or numbers per row.

    Attributes:
        name: as :class:`gssc.deploy.DeployedModel` names it.
        metric: what :meth:`score` computes.
        outputs: what the columns of a prediction are called.
        missing: the value of an unknown target.
        has_classes: whether each row has exactly one class.
    """

    width: int
    name: ClassVar[str]
    metric: ClassVar[str]
    outputs: ClassVar[str]
    missing: ClassVar[float] = float("nan")
    has_classes: ClassVar[bool] = False

    def unknown(self, count: int) -> Tensor:
        """Return the targets of ``count`` rows, none of them known, [count, width]."""
        return torch.full((count, self.width), self.missing)

    def known(self, targets: Any) -> Any:
        """Return the mask of the targets that are known; NaN marks those that are not. Takes tensors and arrays."""
        return targets == targets

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        """Return the mean loss over known targets; zero, with a gradient of zero, if there are none.

        Args:
            logits: [..., width].
            targets: as the graph stores them, with as many leading axes.
            class_weight: weight of each class, [width]; for classes only.
        """

    def loss_weight(self, targets: Tensor, class_weight: Tensor | None = None) -> float:
        """Return what :meth:`loss` divides by: the number of known targets, or the sum of their weights."""
        return float(self.known(targets).sum())

    @abstractmethod
    def soft_loss(self, logits: Tensor, soft_targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        """Return the mean loss against soft targets, both [n, width]: probabilities, or numbers for a regression."""

    @abstractmethod
    def probabilities(self, logits: Tensor, dim: int = -1) -> Tensor:
        """Return logits as probabilities; ``dim`` is the axis of the outputs. A regression returns its logits."""

    @abstractmethod
    def agreement(self, logits: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return how far the pseudo-labels of rows ``first`` and ``second`` agree, in [0, 1] (indicator of Eq. 16)."""

    @abstractmethod
    def soft_agreement(self, probabilities: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return the chance that two rows draw the same label from their probabilities."""

    def with_known(self, soft: Tensor, targets: Tensor) -> Tensor:
        """Return soft targets [n, width] with the known ones put in."""
        return torch.where(targets.isnan(), soft, targets)

    def rescaled(self, soft: Tensor) -> Tensor:
        """Return soft targets as probabilities again after averaging."""
        return soft

    @abstractmethod
    def score(self, scores: np.ndarray, targets: np.ndarray) -> float:
        """Return the value of :attr:`metric` on known targets, higher is better; NaN if there are none."""

    @abstractmethod
    def log_loss(self, logits: np.ndarray, targets: np.ndarray) -> float:
        """Return the mean loss of logits on known targets; NaN if there are none."""

    def homophily(self, targets: np.ndarray, pairs: np.ndarray) -> float:
        """Return the homophily (Eq. 4) of pairs [2, P]; NaN where rows have no single class."""
        return float("nan")

    @abstractmethod
    def decode(self, logits: np.ndarray) -> np.ndarray:
        """Return predictions: class numbers [n], or zeros and ones or numbers [n, width]."""


class Classes(Task):
    """One class per row; -1 marks an unknown one.

    >>> task = Classes(2)
    >>> round(task.loss(torch.zeros(2, 2), torch.tensor([1, -1])).item(), 4)  # log 2: only the first row counts
    0.6931
    """

    name = "multiclass"
    metric = "accuracy"
    outputs = "classes"
    missing = -1
    has_classes = True

    def unknown(self, count: int) -> Tensor:
        return torch.full((count,), self.missing)

    def known(self, targets: Any) -> Any:
        return targets >= 0

    def loss(self, logits: Tensor, targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        known = self.known(targets)
        if not known.any():
            return logits.sum() * 0
        return F.cross_entropy(logits[known], targets[known], class_weight)

    def loss_weight(self, targets: Tensor, class_weight: Tensor | None = None) -> float:
        known = self.known(targets)
        return float(known.sum() if class_weight is None else class_weight[targets[known]].sum())

    def soft_loss(self, logits: Tensor, soft_targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        return F.cross_entropy(logits, soft_targets, class_weight)

    def probabilities(self, logits: Tensor, dim: int = -1) -> Tensor:
        return logits.softmax(dim)

    def agreement(self, logits: Tensor, first: Tensor, second: Tensor) -> Tensor:
        predicted = logits.argmax(1)
        return (predicted[first] == predicted[second]).float()

    def soft_agreement(self, probabilities: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return (probabilities[first] * probabilities[second]).sum(1)

    def with_known(self, soft: Tensor, targets: Tensor) -> Tensor:
        known = self.known(targets)
        soft = soft.clone()
        soft[known] = F.one_hot(targets[known], self.width).to(soft.dtype)
        return soft

    def rescaled(self, soft: Tensor) -> Tensor:
        return soft / soft.sum(1, keepdim=True)

    def score(self, scores: np.ndarray, targets: np.ndarray) -> float:
        return accuracy(scores, targets)

    def log_loss(self, logits: np.ndarray, targets: np.ndarray) -> float:
        return log_loss(logits, targets)

    def homophily(self, targets: np.ndarray, pairs: np.ndarray) -> float:
        return edge_homophily(targets, pairs)

    def decode(self, logits: np.ndarray) -> np.ndarray:
        return logits.argmax(axis=1)


class MultiLabel(Task):
    """Several binary targets per row; NaN marks a missing one.

    There is no single pseudo-label: agreement is the share of targets on which two rows get the same binary
    prediction, which is the indicator itself when there is one target.
    """

    name = "multilabel"
    metric = "roc_auc"
    outputs = "tasks"

    def loss(self, logits: Tensor, targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        known = self.known(targets)
        if not known.any():
            return logits.sum() * 0
        return F.binary_cross_entropy_with_logits(logits[known], targets[known])

    def soft_loss(self, logits: Tensor, soft_targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, soft_targets)

    def probabilities(self, logits: Tensor, dim: int = -1) -> Tensor:
        return logits.sigmoid()

    def agreement(self, logits: Tensor, first: Tensor, second: Tensor) -> Tensor:
        positive = logits > 0
        return (positive[first] == positive[second]).float().mean(1)

    def soft_agreement(self, probabilities: Tensor, first: Tensor, second: Tensor) -> Tensor:
        one, other = probabilities[first], probabilities[second]
        return (one * other + (1 - one) * (1 - other)).mean(1)

    def score(self, scores: np.ndarray, targets: np.ndarray) -> float:
        return roc_auc(scores, targets)

    def log_loss(self, logits: np.ndarray, targets: np.ndarray) -> float:
        return binary_log_loss(logits, targets)

    def decode(self, logits: np.ndarray) -> np.ndarray:
        return (logits >= 0).astype(np.int64)


class Regression(Task):
    """Numbers per row; NaN marks a missing one. The score is the negative root mean squared error: higher is better.

    Agreement of two rows falls from one, at equal predictions, as exp(-d^2) with their mean squared difference; so
    targets should be on a scale of about one.
    """

    name = "regression"
    metric = "negative_rmse"
    outputs = "numbers"

    def loss(self, logits: Tensor, targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        known = self.known(targets)
        if not known.any():
            return logits.sum() * 0
        return F.mse_loss(logits[known], targets[known])

    def soft_loss(self, logits: Tensor, soft_targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
        return F.mse_loss(logits, soft_targets)

    def probabilities(self, logits: Tensor, dim: int = -1) -> Tensor:
        return logits

    def agreement(self, logits: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return (-(logits[first] - logits[second]).square().mean(1)).exp()

    def soft_agreement(self, probabilities: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return self.agreement(probabilities, first, second)

    def score(self, scores: np.ndarray, targets: np.ndarray) -> float:
        return -rmse(scores, targets)

    def log_loss(self, logits: np.ndarray, targets: np.ndarray) -> float:
        return rmse(logits, targets) ** 2

    def decode(self, logits: np.ndarray) -> np.ndarray:
        return logits


def node_task(labels: np.ndarray, names: tuple[str, ...] | None = None) -> Task:
    """Return the task of a graph's labels: classes if they are [N], binary targets if they are [N, T].

    Args:
        labels: class numbers, -1 where unknown, or targets, NaN where missing.
        names: names of the classes; without them, classes are counted up to the largest label.
    """
    if labels.ndim == 2:
        return MultiLabel(labels.shape[1])
    return Classes(len(names) if names is not None else int(labels.max(initial=-1)) + 1)
