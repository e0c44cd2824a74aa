"""NodeModel: what the supervised loop asks of a model that GSSC is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import Rows
from gssc.tasks import Task


@dataclass(frozen=True)
class Recipe:
    """How a model's own paper trains it.

    Args:
        model: arguments of the model's class.
        epochs: at most this many.
        patience: epochs without a better validation result before stopping.
        lr: learning rate.
        weight_decay: L2 penalty; see :meth:`NodeModel.parameter_groups`.
        normalize: of features, see :class:`gssc.schedule.RivalTrainConfig`.
        warmup: epochs on the full graph before a sparsifier that follows the homophily objective takes part.
        select: best epoch by validation ``accuracy`` (ties: lower loss) or ``loss``.
    """

    model: dict[str, Any] = field(default_factory=dict)
    epochs: int = 300
    patience: int = 100
    lr: float = 0.01
    weight_decay: float = 5e-4
    normalize: str = "auto"
    warmup: int = 50
    select: str = "accuracy"

    def settings(self) -> dict[str, dict[str, Any]]:
        """As sections of a :class:`gssc.config.RivalConfig`."""
        train = {name: value for name, value in vars(self).items() if name not in ("model", "warmup")}
        return {"model": dict(self.model), "train": {**train, "warmup_epochs": self.warmup}}


@dataclass(frozen=True)
class TrainingGraph:
    """What one epoch of training sees.

    Args:
        rows: feature rows of all nodes.
        edge_index: both directions of every edge, [2, P], no self-loops.
        edge_weight: [P], all one if None; zero is no edge.
        labels: of all nodes, [N]; only those of ``train`` may be looked at.
        train: nodes with a label to learn from.
        task: what is predicted.
    """

    rows: Rows
    edge_index: Tensor
    edge_weight: Tensor | None
    labels: Tensor
    train: Tensor
    task: Task


@torch.no_grad()
def folded(weight: Tensor, bias: Tensor, norm: nn.Module | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A linear map (weight [out, in]) with the batch norm after it, if there is one, as one linear map."""
    if isinstance(norm, nn.BatchNorm1d):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        factor = norm.weight / (norm.running_var + norm.eps).sqrt()
        weight, bias = factor.unsqueeze(1) * weight, factor * (bias - norm.running_mean) + norm.bias
    return weight.numpy().copy(order="C"), bias.numpy().copy()


@torch.no_grad()
def folded_norm(norm: nn.LayerNorm) -> tuple[np.ndarray, np.ndarray]:
    """Scale and shift of a layer norm as the linear map that follows ``standardize`` in a deployed model."""
    return norm.weight.diag().numpy().copy(), norm.bias.numpy().copy()


class NodeModel(nn.Module):
    """Logits of every node, from feature rows and (where it passes messages) edges.

    Args of every subclass: ``inputs`` features, ``outputs`` classes, then its own by keyword.

    Attributes:
        passes_messages: whether a prediction depends on edges. If it does, edge weights enter with gradient.
        learns_from_edges: whether training does.
        activation: what stands between its folded layers, as :class:`gssc.deploy.DeployedModel` names it.
        recipe: its own paper's settings.
        recipes: the same, for data sets where that paper's settings differ, by name (``citeseer``) or by name and kind
            of split (``actor/fixed``).
    """

    passes_messages: ClassVar[bool] = True
    learns_from_edges: ClassVar[bool] = True
    activation: ClassVar[str] = "relu"
    recipe: ClassVar[Recipe] = Recipe()
    recipes: ClassVar[dict[str, Recipe]] = {}

    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits of every node, [N, C].

        Args:
            rows: feature rows of all nodes.
            edge_index: both directions of every edge, [2, P], no self-loops.
            edge_weight: [P], all one if left out; zero is no edge.
        """
        raise NotImplementedError

    def losses(self, graph: TrainingGraph, rng: np.random.Generator) -> Iterator[Tensor]:
        """The losses of one epoch; the loop takes a step after each, before it asks for the next."""
        logits = self(graph.rows, graph.edge_index, graph.edge_weight)
        yield graph.task.loss(logits[graph.train], graph.labels[graph.train])

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """What the optimiser gets; a paper that decays only some weights says so here."""
        return [{"params": list(self.parameters()), "weight_decay": weight_decay}]

    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """The model as (weight [out, in], bias) pairs with :attr:`activation` between them; None if it is none."""
        return None
