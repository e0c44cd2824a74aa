"""Circular environments: the surroundings of an atom, hashed to columns that can be added to its row.

The identifier of an atom at radius 0 is a hash of some of its fields; at radius r + 1 it is a hash of its identifier at
radius r and of those of its neighbours with the bonds to them, regardless of order. Morgan fingerprints are built the
same way. Two atoms with equal surroundings up to r bonds get equal identifiers; equal columns can also be a collision.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gssc.molecules.fields import ATOM_FIELDS

# Fields that enter an identifier: chirality, radicals and hybridization would split similar environments.
HASHED = tuple(
    place
    for place, field in enumerate(ATOM_FIELDS)
    if field.name in ("element", "degree", "charge", "hydrogens", "aromatic", "in_ring")
)


class Atoms(Protocol):
    """Atoms and bonds, in the form of a MoleculeSet."""

    @property
    def atoms(self) -> np.ndarray:
        """Codes of all atoms, [A, 9]."""

    @property
    def bonds(self) -> np.ndarray:
        """Atom numbers of the two ends, each bond once, [2, E]."""

    @property
    def bond_fields(self) -> np.ndarray:
        """Codes of all bonds, [E, 3]."""


def environments(molecules: Atoms, radius: int) -> list[np.ndarray]:
    """Return the identifiers of all atoms at radius 1 to ``radius``, each [A] unsigned 64-bit integers."""
    identifier = np.zeros(len(molecules.atoms), dtype=np.uint64)
    for place in HASHED:
        identifier = scramble(identifier * np.uint64(31) + molecules.atoms[:, place] + np.uint64(1))
    source, target = np.concatenate([molecules.bonds, molecules.bonds[::-1]], axis=1)
    kind = np.tile(molecules.bond_fields[:, 0].astype(np.uint64), 2)
    found = []
    for _ in range(radius):
        arriving = scramble(identifier[target] * np.uint64(7) + kind + np.uint64(1))
        total = np.zeros_like(identifier)
        np.add.at(total, source, arriving)  # a sum modulo 2^64, which does not depend on the order of neighbours
        identifier = scramble(identifier * np.uint64(131) + total)
        found.append(identifier)
    return found


def scramble(values: np.ndarray) -> np.ndarray:
    """Return each 64-bit integer with its bits mixed, so that its remainder is a good hash."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))
