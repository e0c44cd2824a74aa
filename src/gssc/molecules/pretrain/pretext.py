"""Common parts of the seven pretext tasks: the interface, a projection head, and the contrastive loss of two views."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet


class Pretext(nn.Module):
    """A self-supervised task that trains an encoder.

    Args:
        encoder: the encoder to pre-train.
        pool: the molecules, for values that a task computes in advance.
    """

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__()
        self.encoder = encoder

    def usable(self, index: np.ndarray) -> np.ndarray:
        """Return those of the given molecules of the pool that the task can be trained on."""
        return index

    @abstractmethod
    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        """Return the loss of a batch."""


def projection(width: int) -> nn.Sequential:
    """Return the two-layer projection head of contrastive tasks, which is discarded after pre-training."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def matching_loss(first: Tensor, second: Tensor, temperature: float = 0.1) -> Tensor:
    """Return the NT-Xent loss: each row of one view should match its own row of the other view, [n, k] each.

    >>> one = torch.eye(3)
    >>> matching_loss(one, one).item() < matching_loss(one, one.roll(1, 0)).item()
    True
    """
    similarity = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T / temperature
    wanted = torch.arange(len(first))
    return (F.cross_entropy(similarity, wanted) + F.cross_entropy(similarity.T, wanted)) / 2


def random_mask(count: int, share: float, rng: np.random.Generator) -> Tensor:
    """Return a mask with about this share of ones, at least one of them, [count]."""
    mask = rng.random(count) < share
    mask[rng.integers(count)] = True
    return torch.from_numpy(mask)
