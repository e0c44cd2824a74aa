"""Batches of molecules as tensors: atoms, bonds, and the molecule of each atom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gssc.molecules.molecule_set import MoleculeSet, spans
from gssc.train.edge_stream import cut


@dataclass
class MoleculeBatch:
    """B molecules with n atoms and b bonds.

    Attributes:
        index: numbers of the molecules in the set, [B].
        atoms: numbers of the atoms in the set, [n].
        owner: position in the batch of each atom's molecule, [n].
        sizes: atoms per molecule, [B].
        bonds: positions of the two ends among ``atoms``, each bond once, [2, b].
        bond_index: numbers of the bonds in the set, [b].
    """

    index: np.ndarray
    atoms: np.ndarray
    owner: Tensor
    sizes: Tensor
    bonds: Tensor
    bond_index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def mean_pool(self, values: Tensor) -> Tensor:
        """Return the mean over each molecule's atoms, [n, k] to [B, k]."""
        total = values.new_zeros(len(self), values.shape[1]).index_add(0, self.owner, values)
        return total / self.sizes.unsqueeze(1)


def collate(molecules: MoleculeSet, index: np.ndarray) -> MoleculeBatch:
    """Return the batch of these molecules."""
    atoms, atom_starts = spans(molecules.atom_starts, index)
    bond_index, bond_starts = spans(molecules.bond_starts, index)
    shift = np.repeat(atom_starts[:-1] - molecules.atom_starts[index], np.diff(bond_starts))
    sizes = np.diff(atom_starts)
    return MoleculeBatch(
        index=index,
        atoms=atoms,
        owner=torch.from_numpy(np.repeat(np.arange(len(index)), sizes)),
        sizes=torch.from_numpy(sizes).float(),
        bonds=torch.from_numpy(molecules.bonds[:, bond_index] + shift),
        bond_index=bond_index,
    )


def shuffled(index: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield batches of ``index`` in random order; a last batch of one is merged with the batch before it."""
    yield from cut(rng.permutation(index), size)


def epoch_shares(targets: np.ndarray, common_per_rare: float) -> np.ndarray:
    """Return for each training molecule the share of epochs that contain it, [M].

    A label is rare if it is the less frequent one of a binary target. Molecules with a rare label are in every epoch.
    The others are drawn, so that an epoch has at most ``common_per_rare`` of them per molecule with a rare label:
    otherwise thirty positives among thousands of negatives would be seen too rarely to be learned in reasonable time.

    Args:
        targets: binary targets of the training molecules, [M, T]; NaN where unknown.
        common_per_rare: number of others per molecule with a rare label; 0 for all.

    >>> epoch_shares(np.array([[1, 0], [0, np.nan], [0, 1], [0, 0], [0, 0], [0, 0]]), 1).tolist()
    [1.0, 0.5, 1.0, 0.5, 0.5, 0.5]
    """
    positive, negative = targets == 1, targets == 0
    rare = np.where(positive.sum(0) <= negative.sum(0), positive, negative).any(1)
    wanted, others = common_per_rare * rare.sum(), len(rare) - rare.sum()
    return np.where(rare, 1.0, wanted / others if 0 < wanted < others else 1.0)
