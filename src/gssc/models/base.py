"""NodeModel: what the supervised loop asks of a model that GSSC is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import Rows


@dataclass(frozen=True)
class Recipe:
    """How a model's own paper trains it.

    Args:
        model: arguments of the model's class.
        epochs: at most this many.
        patience: epochs without a better validation result before stopping.
        lr: learning rate.
        weight_decay: L2 penalty; see :meth:`NodeModel.parameter_groups`.
        normalize: ``row`` or ``none``, of features.
        warmup: epochs on the full graph before a sparsifier that follows the homophily objective takes part.
        select: best epoch by validation ``accuracy`` (ties: lower loss) or ``loss``.
    """

    model: dict[str, Any] = field(default_factory=dict)
    epochs: int = 300
    patience: int = 100
    lr: float = 0.01
    weight_decay: float = 5e-4
    normalize: str = "row"
    warmup: int = 50
    select: str = "accuracy"

    def at_most(self, epochs: int) -> Recipe:
        """The same with fewer epochs; 0 leaves it as it is."""
        return replace(self, epochs=min(self.epochs, epochs)) if epochs else self


@dataclass(frozen=True)
class TrainingGraph:
    """What one epoch of training sees.

    Args:
        rows: feature rows of all nodes.
        edge_index: both directions of every edge, [2, P], no self-loops.
        edge_weight: [P], all one if None; zero is no edge.
        labels: of all nodes, [N]; only those of ``train`` may be looked at.
        train: nodes with a label to learn from.
    """

    rows: Rows
    edge_index: Tensor
    edge_weight: Tensor | None
    labels: Tensor
    train: Tensor


class NodeModel(nn.Module):
    """Logits of every node, from feature rows and (where it passes messages) edges.

    Args of every subclass: ``inputs`` features, ``outputs`` classes, then its own by keyword.

    Attributes:
        passes_messages: whether a prediction depends on edges. If it does, edge weights enter with gradient.
        learns_from_edges: whether training does.
        recipe: its own paper's settings.
        recipes: the same, for data sets where that paper's settings differ, by name (``citeseer``) or by name and kind
            of split (``actor/fixed``).
    """

    passes_messages: ClassVar[bool] = True
    learns_from_edges: ClassVar[bool] = True
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
        yield F.cross_entropy(logits[graph.train], graph.labels[graph.train])

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """What the optimiser gets; a paper that decays only some weights says so here."""
        return [{"params": list(self.parameters()), "weight_decay": weight_decay}]
