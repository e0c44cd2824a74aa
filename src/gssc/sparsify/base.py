"""Sparsifier: the common interface of the sparsifiers, so that each can be combined with any model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import Rows

WEIGHT_DECAY = 5e-4  # of every learned sparsifier, as in the released program


class Sparsifier(nn.Module):
    """Assigns weights to the undirected edges of one graph.

    Its settings are a dataclass of :mod:`gssc.sparsify.settings`. A subclass lists in :attr:`trained_by` how it can be
    trained; an empty list means that it has nothing to learn:

    * ``loss``: its weights enter message passing with gradient, and it minimises the classifier's loss;
    * ``validation``: the same, on labels that the classifier is not trained on;
    * ``homophily``: it optimises the homophily objective (Eq. 16), under a model that does not pass messages.

    Args:
        rows: feature rows of all nodes.
        edges: undirected edges, each once, [2, E].
        config: its settings, of the class that the registry names.
        rng: for random choices at construction.

    Attributes:
        trained_by: the ways in which it can be trained.
        any_device: whether it can learn on devices other than a CPU.
        reads_features: whether it reads feature rows, which may be on disk.
        edges: the edges it assigns weights to, [2, E']: those given, without those it removed and with those it
            proposes. They do not change after construction.
    """

    trained_by: ClassVar[tuple[str, ...]] = ()
    any_device: ClassVar[bool] = False
    reads_features: ClassVar[bool] = False

    def __init__(self, rows: Rows, edges: Tensor, config: Any, rng: np.random.Generator):
        super().__init__()
        self.rows, self.edges, self.config = rows, edges, config

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph it was made for."""
        return self.rows.shape[0]

    @property
    def given(self) -> int:
        """Number of leading :attr:`edges` that are edges of the graph; the sparsifier proposed the others."""
        return self.edges.shape[1]

    @property
    def trains(self) -> bool:
        """Whether it has parameters to learn."""
        return bool(self.trained_by)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Return edge weights for one training epoch, [E']: ones and zeros, with the gradient of their distribution."""
        return torch.ones(self.edges.shape[1])

    def sample_pairs(self, rng: np.random.Generator) -> Tensor:
        """Return weights for both directions of every edge, first all (i, j), then all (j, i), [2E']."""
        return self.sample(rng).repeat(2)

    def own_loss(self) -> Tensor | None:
        """Return its own loss, which is added to the training objective, or None."""
        return None

    def pretrain(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Train the sparsifier before the classifier's first step; training continues with the same optimiser."""

    def keep_probability(self) -> Tensor:
        """Return the keep probability of each of :attr:`edges`, from 0 to 1, without sampling, [E']."""
        return torch.ones(self.edges.shape[1])

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges and weights for prediction, on the training graph or a larger one with unseen nodes.

        Args:
            rows: feature rows of all nodes of that graph.
            edges: its undirected edges, [2, E].
            seen_nodes: number of each node of the training graph in that graph.
        """
        return edges, torch.ones(edges.shape[1])
