"""Atom rows: the one-hot fields of each atom as sparse feature rows, with equal rows stored once.

A set of 50,000 atoms has about a hundred different rows, and only those need to be predicted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gssc.molecules.environments import environments
from gssc.molecules.fields import ATOM_OFFSETS, ATOM_WIDTH
from gssc.molecules.molecule_set import MoleculeSet


@dataclass(frozen=True)
class RowFormat:
    """The columns of an atom row.

    Args:
        radius: adds one hashed column per radius from 1 to this for the atom's circular environment; 0 adds none.
        columns: hashed columns per radius.
    """

    radius: int = 0
    columns: int = 1024

    @property
    def width(self) -> int:
        """Number of columns."""
        return ATOM_WIDTH + self.radius * self.columns

    def set_columns(self, molecules: MoleculeSet) -> np.ndarray:
        """Return the columns that are one in each atom's row, [A, 9 + radius], in ascending order."""
        parts = [molecules.atoms + ATOM_OFFSETS[:-1]]
        for step, identifier in enumerate(environments(molecules, self.radius)):
            hashed = (identifier % np.uint64(self.columns)).astype(np.int64)
            parts.append((ATOM_WIDTH + step * self.columns + hashed)[:, None])
        return np.concatenate(parts, axis=1)


class AtomRows:
    """The different atom rows of a set, and the row of each atom.

    Attributes:
        matrix: [U, width] CSR matrix of ones.
        of_atom: [A] row of each atom.
    """

    def __init__(self, molecules: MoleculeSet, row_format: RowFormat):
        columns = row_format.set_columns(molecules)
        # Sorting one integer per row is many times faster than sorting the rows themselves.
        key = np.zeros(len(columns), dtype=np.uint64)
        weights = np.array(np.random.default_rng(0).integers(1, 2**63, size=columns.shape[1]), dtype=np.uint64)
        weights = weights | np.uint64(1)
        for place in range(columns.shape[1]):
            key += columns[:, place].astype(np.uint64) * weights[place]
        _, first, of_atom = np.unique(key, return_index=True, return_inverse=True)
        chosen = columns[first]
        count, ones = chosen.shape
        self.matrix = sp.csr_matrix(
            (np.ones(count * ones, dtype=np.float32), chosen.ravel(), np.arange(0, count * ones + 1, ones)),
            shape=(count, row_format.width),
        )
        self.of_atom = of_atom.ravel()


def drop_environments(matrix: sp.csr_matrix, radius: int, rate: float, rng: np.random.Generator) -> None:
    """Set a random share of the environments in atom rows to zero, in place, and scale up the others.

    More than half of the different rows of BBBP and Tox21 with two radii belong to one atom each, so a network that
    always sees environments memorises the training molecules.
    """
    if radius and rate:
        ones = matrix.data.reshape(matrix.shape[0], -1)  # nine fields, then one environment per radius
        kept = rng.random((len(ones), radius), dtype=np.float32) >= rate
        ones[:, -radius:] = kept / (1 - rate)
