"""NodeModel: the interface of the models that GSSC is compared with, as the supervised loop uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    """Training settings from the paper of a model.

    Args:
        model: arguments of the model's class.
        epochs: maximum number of epochs.
        patience: epochs without improvement before stopping early.
        lr: learning rate.
        weight_decay: L2 penalty; see :meth:`NodeModel.parameter_groups`.
        normalize: normalisation of features, see :class:`gssc.schedule.ScheduleSettings`.
        warmup: epochs on the full graph before a sparsifier trained by the homophily objective is used.
    """

    model: dict[str, Any] = field(default_factory=dict)
    epochs: int = 300
    patience: int = 100
    lr: float = 0.01
    weight_decay: float = 5e-4
    normalize: str = "auto"
    warmup: int = 50

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings as sections of a :class:`gssc.config.RivalConfig`."""
        train = {name: value for name, value in vars(self).items() if name not in ("model", "warmup")}
        return {"model": dict(self.model), "train": {**train, "warmup_epochs": self.warmup}}


@dataclass(frozen=True)
class TrainingGraph:
    """The data of one training epoch.

    Args:
        rows: feature rows of all nodes.
        edge_index: both directions of every edge, [2, P], no self-loops.
        edge_weight: [P], all one if None; an edge of weight zero is absent.
        labels: labels of all nodes, [N]; only those of ``train`` may be used.
        train: training nodes.
        task: the prediction task, which defines the loss.
    """

    rows: Rows
    edge_index: Tensor
    edge_weight: Tensor | None
    labels: Tensor
    train: Tensor
    task: Task


@torch.no_grad()
def folded(weight: Tensor, bias: Tensor, norm: nn.Module | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return a linear map (weight [out, in]) and the batch norm after it, if there is one, as one linear map."""
    if isinstance(norm, nn.BatchNorm1d):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        factor = norm.weight / (norm.running_var + norm.eps).sqrt()
        weight, bias = factor.unsqueeze(1) * weight, factor * (bias - norm.running_mean) + norm.bias
    return weight.numpy().copy(order="C"), bias.numpy().copy()


@torch.no_grad()
def folded_norm(norm: nn.LayerNorm) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and shift of a layer norm as the linear map that follows ``standardize`` in a deployed model."""
    return norm.weight.diag().numpy().copy(), norm.bias.numpy().copy()


class NodeModel(nn.Module, ABC):
    """Base class of models that map feature rows and, if they pass messages, edges to logits of every node.

    Every subclass takes ``inputs`` (features) and ``outputs`` (classes), then its own arguments by keyword.

    Attributes:
        passes_messages: whether a prediction depends on edges. If so, gradients flow to the edge weights.
        learns_from_edges: whether training uses edges.
        activation: activation between the folded layers, a name of :class:`gssc.deploy.DeployedModel`.
        recipe: settings from the model's paper.
        recipes: settings for datasets where the paper's settings differ, by name (``citeseer``) or by name and kind
            of split (``actor/fixed``).
    """

    passes_messages: ClassVar[bool] = True
    learns_from_edges: ClassVar[bool] = True
    activation: ClassVar[str] = "relu"
    recipe: ClassVar[Recipe] = Recipe()
    recipes: ClassVar[dict[str, Recipe]] = {}

    @abstractmethod
    def forward(self, rows: Rows, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of every node, [N, C].

        Args:
            rows: feature rows of all nodes.
            edge_index: both directions of every edge, [2, P], no self-loops.
            edge_weight: [P], all one by default; an edge of weight zero is absent.
        """

    def losses(self, graph: TrainingGraph, rng: np.random.Generator) -> Iterator[Tensor]:
        """Yield the losses of one epoch; the training loop takes an optimiser step after each."""
        logits = self(graph.rows, graph.edge_index, graph.edge_weight)
        yield graph.task.loss(logits[graph.train], graph.labels[graph.train])

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return the parameter groups of the optimiser; overridden if a paper decays only some weights."""
        return [{"params": list(self.parameters()), "weight_decay": weight_decay}]

    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """Return the model as (weight [out, in], bias) pairs with :attr:`activation` between; None if impossible."""
        return None
