"""Sparsifier: which edges to trust. One interface, so that any of them runs under any model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import Rows
from gssc.settings import inherit_meanings, setting


@dataclass
class SparsifierSettings:
    """The sparsifier, which decides the edges to train on.

    Args:
        name: of the sparsifier, see ``gssc bench --list``; ``none`` keeps every edge (the ablation).
    """

    name: str = "none"

    def __init_subclass__(cls) -> None:
        inherit_meanings(cls)


@dataclass
class LearnedSettings(SparsifierSettings):
    """What every sparsifier that learns has.

    Args:
        objective: what trains it under a model that never looks at edges: ``ratio`` (released program: mean weight of
            disagreeing over agreeing kept edges), ``share`` (Eq. 16), ``masked_smoothness`` (Eq. 14, the
            counter-example that empties the graph).
        lr: its learning rate.
        weight_decay: its weight decay.
    """

    objective: Literal["ratio", "share", "masked_smoothness"] = "ratio"
    lr: float = setting(0.01, low=0)
    weight_decay: float = setting(5e-4, low=0)


class Sparsifier(nn.Module):
    """Weighs the undirected edges of one graph.

    A subclass brings its settings as a dataclass and declares how it can be trained. ``loss``: its weights enter
    message passing with gradient, and it follows the classifier's loss. ``validation``: the same, on labels the
    classifier is not trained on. ``homophily``: it follows the homophily objective (Eq. 16) under a model that never
    looks at edges. Nothing: it has nothing to learn.

    Args:
        rows: feature rows of all nodes.
        edges: undirected edges, each once, [2, E].
        config: its settings, of the class :attr:`Settings`.
        rng: for what is drawn once, at the start.

    Attributes:
        any_device: whether it learns on devices other than a CPU, too.
        reads_features: whether it looks at feature rows, which may lie on disk.
        edges: the edges it weighs, [2, E']: those given, without the ones it ruled out and with those it proposes. They
            stay the same from construction on.
    """

    Settings: ClassVar[type[SparsifierSettings]] = SparsifierSettings
    trained_by: ClassVar[tuple[str, ...]] = ()
    any_device: ClassVar[bool] = False
    reads_features: ClassVar[bool] = False

    def __init__(self, rows: Rows, edges: Tensor, config: Any, rng: np.random.Generator):
        super().__init__()
        self.rows, self.edges, self.config = rows, edges, config

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph it was made for."""
        return self.rows.shape[0]

    @property
    def given(self) -> int:
        """How many of :attr:`edges`, from the front, are edges of the graph; those after them it proposed itself."""
        return self.edges.shape[1]

    @property
    def trains(self) -> bool:
        """Whether there is anything to learn."""
        return bool(self.trained_by)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Weights for one epoch of training, [E']: ones and zeros, with the gradient of what they were drawn from."""
        return torch.ones(self.edges.shape[1])

    def sample_pairs(self, rng: np.random.Generator) -> Tensor:
        """The same for both directions of every edge, first all (i, j), then all (j, i), [2E']."""
        return self.sample(rng).repeat(2)

    def own_loss(self) -> Tensor | None:
        """What it asks of itself, beside the objective that trains it."""
        return None

    def pretrain(self, optimizer: torch.optim.Optimizer | None) -> None:
        """What it learns before the classifier's first step; the optimiser goes on afterwards."""

    def keep_probability(self) -> Tensor:
        """How far each of :attr:`edges` is trusted, from 0 to 1, without chance, [E']."""
        return torch.ones(self.edges.shape[1])

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Edges and weights that prediction uses, on the graph it was made for or a larger one with unseen nodes.

        Args:
            rows: feature rows of all nodes of that graph.
            edges: its undirected edges, [2, E].
            seen_nodes: what each node of the training graph is called there.
        """
        return edges, torch.ones(edges.shape[1])
