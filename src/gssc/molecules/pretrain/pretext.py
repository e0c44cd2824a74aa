"""What the seven pretext tasks share: the interface, a projection head, and the loss that matches two views."""

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
    """A task without labels that trains an encoder.

    Args:
        encoder: what is pre-trained.
        pool: the molecules, for what a task computes about them beforehand.
    """

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__()
        self.encoder = encoder

    def usable(self, index: np.ndarray) -> np.ndarray:
        """Return the molecules of the pool, out of these, that the task can be trained on."""
        return index

    @abstractmethod
    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        """Return the loss of a batch."""


def projection(width: int) -> nn.Sequential:
    """Return the two-layer head that contrastive tasks put on a molecule's embedding and throw away afterwards."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def matching_loss(first: Tensor, second: Tensor, temperature: float = 0.1) -> Tensor:
    """NT-Xent: each row of one view must find its own row among all rows of the other, [n, k] each.

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
