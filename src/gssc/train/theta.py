"""Theta: the classifier of Algorithm 1, its updates on pairs of feature rows and its predictions.

Which pairs it is trained on is decided by a subclass: :mod:`gssc.train.bilevel` or :mod:`gssc.train.stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gssc.config import ContrastConfig
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.features import FeatureTable, Rows
from gssc.graph import Graph
from gssc.models.str_contrast import PairLogits, RowLogits, STRContrast
from gssc.train import losses
from gssc.train.batches import EdgeBatch, EdgeBatches
from gssc.train.distributed import SharedModel, processes
from gssc.train.optimize import AveragedModel, adam, descend
from gssc.train.process import is_mixed, usable_device
from gssc.train.row_losses import row_losses, weighted_targets
from gssc.train.training import Diverged, Training, deployed_mlp, training_labels

CENTER_NODES = 4096  # maximum number of nodes in the step on class centres, to limit its cost


@dataclass
class PairLosses:
    """Losses of a batch: the total to minimise, its two parts, and l_ij of every pair, [B], without gradient."""

    total: Tensor
    smoothness: Tensor
    classification: Tensor
    of_pairs: Tensor


class PairTraining(Training):
    """Training of the classifier STR-Contrast on pairs of rows.

    Several processes share the pairs of a batch and the nodes to predict, see :mod:`gssc.train.distributed`.

    Attributes:
        settings: settings of pair training.
        table: feature rows of the nodes visible in training.
        labels: their labels, -1 or NaN where unknown.
        model, averaged, optimizer: the classifier, the running average of its weights, and its
            optimiser.
        class_weight: weight of each class, [C], in addition to the weights of the objective.
        center_nodes: maximum number of nodes in the step on class centres.
    """

    several_processes = True
    maps_rows = True
    settings: ContrastConfig
    class_weight: Tensor | None = None
    center_nodes: int = CENTER_NODES

    # Construction -----------------------------------------------------------------------------------------------

    def _choose_device(self, plain: bool = False) -> None:
        """Set where and how to compute; ``plain`` uses ordinary torch operations, as on devices other than a CPU."""
        self.device = usable_device(self.settings.train.device)
        self.mixed = is_mixed(self.settings.train.mixed_precision, self.device)
        self.plain = plain or self.mixed or self.device.type != "cpu"

    def _share_work(self) -> None:
        """Set the processes that share this training, and check the batch size."""
        self.processes, size = processes(), self.settings.train.batch_size
        self.own_rng = self.processes.own_rng(self.rng)  # for what differs between processes: dropout
        least = 2 * self.processes.count
        if self.processes.count > 1 and size < least:
            raise GsscError(f"train.batch_size is {size}: {self.processes.count} processes need at least {least}")

    def _build_classifier(self, seen: Graph) -> None:
        """Build the classifier and its batches for the nodes visible in training; draws from torch's generator."""
        config = self.settings
        self.table = FeatureTable(seen.features, config.train.normalize, self.device if self.plain else None)
        self.scaling = self.table.scaling
        self.labels = training_labels(seen)
        size, negatives, most = config.train.batch_size, config.objective.negatives, config.train.max_batches
        self.batches = EdgeBatches(self.table, self.labels, size, negatives, most, self.processes)
        model = STRContrast(seen.num_features, seen.num_classes, config.model, self.own_rng, self.plain)
        self.model = model.to(self.device)
        self.shared = SharedModel(self.model, self.processes)
        self.averaged = AveragedModel(self.model, config.train.average)
        groups = self.model.parameter_groups(config.train.mix_lr)
        self.optimizer = adam(groups, config.train.lr, config.train.weight_decay)

    # Updates ----------------------------------------------------------------------------------------------------

    def descend_on(
        self,
        batches: Iterable[EdgeBatch],
        class_weight: Tensor | None,
        after: Callable[[Any, PairLogits | RowLogits, Tensor], None] = lambda batch, out, smoothness: None,
    ) -> dict[str, float]:
        """Take one step of the classifier per batch (Eq. 13 and 17) and return mean losses.

        Args:
            batches: training batches.
            class_weight: weight of each class, [C].
            after: called after each step with the batch, its logits and its l_ij, [B].
        """
        class_weight = self._on_device(class_weight)
        total, count = np.zeros(2), 0
        self.model.train()
        self.processes.renew(self.own_rng, self.settings.train.seed, self.epoch)
        for batch, scales in self.processes.scaled(batches, partial(self._amounts, class_weight=class_weight)):
            out, found = self.compare(batch, class_weight, scales)
            descend(found.total, self.optimizer)
            self.averaged.follow()
            after(batch, out, found.of_pairs)
            total += self._finite(count, found.smoothness.item(), found.classification.item())
            count += 1
        self.processes.average_statistics(self.model, self.averaged.model)
        means = self.processes.mean(total / max(count, 1)).tolist()
        return dict(zip(("smoothness_loss", "classification_loss"), means, strict=True))

    def compare(
        self, batch: EdgeBatch, class_weight: Tensor | None, scales: Sequence[float] = (1.0, 1.0)
    ) -> tuple[PairLogits | RowLogits, PairLosses]:
        """Return the outputs of the model for a batch and its losses (Eq. 13).

        Args:
            batch: the pairs of this process.
            class_weight: weight of each class, [C].
            scales: factors of the means over pairs and over labels.
        """
        objective, (of_pairs, of_labels) = self.settings.objective, scales
        if self.settings.model.mix_at == "output" and self.task.has_classes:
            rows = self._call("compare_rows", batch)
            targets = weighted_targets(rows, batch.labels, batch.soft, class_weight, of_pairs, of_labels)
            smoothness_weight = objective.smoothness_weight * of_pairs / len(batch)
            total, classified, smoothness = row_losses(rows, targets, smoothness_weight, objective.negative_weight)
            return rows, PairLosses(total, of_pairs * smoothness.mean(), classified, smoothness)
        out = self._call("compare", batch).float()
        smoothness = losses.pair_smoothness(
            self.task, out.endpoints, out.mixed, out.negatives, objective.negative_weight
        )
        smooth = of_pairs * smoothness.mean()
        classified = of_labels * losses.classification(self.task, out.endpoints, out.mixed, batch.labels, class_weight)
        total = objective.smoothness_weight * smooth + classified
        return out, PairLosses(total, smooth, classified, smoothness.detach())

    def update_centers(self) -> float:
        """Take the extra step of the released program, which pulls labelled and predicted class centres together.

        Processes share the nodes: each computes the logits of its own and their gradient, given those of all.
        """
        weight = self.settings.objective.center_weight
        if weight == 0 or not self.task.has_classes:
            return 0.0
        nodes = self._center_nodes()
        if len(nodes) < 2:
            return 0.0
        share = self.processes.share(len(nodes))
        own = self._call("forward", self._rows_for_centers(nodes[share])).float()
        logits = self.processes.gathered(own.detach(), share, len(nodes)).requires_grad_()
        labels = self.labels[torch.from_numpy(nodes)].to(self.device)
        loss = weight * losses.class_centers(logits, labels)
        (to_logits,) = torch.autograd.grad(loss, logits)
        if len(own) < len(nodes):
            to_logits *= self.processes.count  # gradients are averaged, but those of the shares add up
        descend((own * to_logits[share]).sum(), self.optimizer)
        self.processes.average_statistics(self.model)
        return loss.item()

    def _center_nodes(self) -> np.ndarray:
        """Return the nodes of the step on class centres: all, or labelled and random ones if there are too many."""
        count, most = self.table.shape[0], self.center_nodes
        if count <= most:
            return np.arange(count)
        labelled = self.rng.permutation(self._labelled_nodes)[: most // 2]
        return np.union1d(labelled, self.rng.integers(0, count, most - len(labelled)))

    @cached_property
    def _labelled_nodes(self) -> np.ndarray:
        return np.flatnonzero(self.labels.numpy() >= 0)

    def _rows_for_centers(self, nodes: np.ndarray) -> Rows:
        """Return the feature rows of nodes; the table of all nodes is built once and reused."""
        return self.table.all() if len(nodes) == self.table.shape[0] else self.table.rows(nodes)

    def descend_towards(self, batches: Iterable[tuple[Rows, Tensor]], class_weight: Tensor | None = None) -> float:
        """Take one step of the classifier per batch of feature rows and their soft labels; return the mean loss.

        Args:
            batches: feature rows and soft labels, [n, C].
            class_weight: weight of each class, [C].
        """
        class_weight = self._on_device(class_weight)
        total, count = np.zeros(1), 0
        self.model.train()
        self.processes.renew(self.own_rng, self.settings.train.seed, self.epoch)
        for (rows, soft), (scale,) in self.processes.scaled(batches, lambda batch: (len(batch[1]),)):
            logits = self._call("forward", rows).float()
            loss = scale * self.task.soft_loss(logits, soft.to(self.device), class_weight)
            descend(loss, self.optimizer)
            self.averaged.follow()
            total += self._finite(count, loss.item())
            count += 1
        self.processes.average_statistics(self.model, self.averaged.model)
        return float(self.processes.mean(total / max(count, 1))[0])

    def scale_learning_rate(self, factor: float) -> None:
        """Set the classifier's learning rate to this share of its full value."""
        self.optimizer.param_groups[0]["lr"] = factor * self.settings.train.lr

    def _call(self, method: str, given: Any) -> Any:
        """Return the result of a method of the model, in mixed precision if enabled."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed):
            return self.shared(method, given)

    def _amounts(self, batch: EdgeBatch, class_weight: Tensor | None) -> tuple[float, float]:
        """Return the weights of this process's means over pairs and over labels in the means over all processes."""
        if self.processes.count == 1:
            return 1.0, 1.0
        return len(batch), self.task.loss_weight(batch.labels, class_weight)

    def _finite(self, batch: int, *values: float) -> np.ndarray:
        """Return the losses of a batch. Raises Diverged if one is not finite."""
        if not np.isfinite(values).all():
            raise Diverged(f"epoch {self.epoch}, batch {batch}", f"lower train.lr (now {self.settings.train.lr:g})")
        return np.array(values)

    def _on_device(self, weight: Tensor | None) -> Tensor | None:
        return None if weight is None else weight.to(self.device)

    # Prediction -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict_rows(self, table: FeatureTable, part: slice | None = None) -> Tensor:
        """Return y of all rows of a table, or of a part of them, computed by this process alone, [n, C]."""
        model = self.averaged.model.eval()
        return torch.cat([model(rows).cpu() for rows in table.blocks(part=part)])

    def deployed(self) -> DeployedModel:
        """Return the current model with batch norm folded in, ready to serve."""
        return deployed_mlp(
            self.graph, self.averaged.model.folded_layers(), self.settings.model.activation, self.scaling
        )
