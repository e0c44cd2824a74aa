"""MoleculeSet: molecules as a few flat arrays, with their targets and their split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gssc.data.labels import clean_index, refuse_overlap
from gssc.errors import GsscError
from gssc.tasks import MultiLabel, Regression, Task


@dataclass(frozen=True)
class Skipped:
    """A row of a file without a valid molecule: its number (from 1, header not counted), its text, the reason."""

    row: int
    smiles: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class MoleculeSet:
    """Molecules, each a small graph, with one or several targets per molecule.

    Args:
        smiles: [M] SMILES.
        atoms: [A, 9] codes of all atoms, molecule after molecule, see :mod:`gssc.molecules.fields`.
        atom_starts: [M + 1] position of the first atom of each molecule.
        bonds: [2, E] atom numbers in the whole set, each bond once.
        bond_fields: [E, 3] codes.
        bond_starts: [M + 1] position of the first bond of each molecule.
        scaffolds: [M] number of the molecule's scaffold; equal scaffolds have equal numbers.
        targets: [M, T]; NaN where unknown.
        target_names: [T].
        train, val, test: molecule numbers.
        rows: [M] row of each molecule in the file.
        skipped: rows without a valid molecule.
    """

    smiles: np.ndarray
    atoms: np.ndarray
    atom_starts: np.ndarray
    bonds: np.ndarray
    bond_fields: np.ndarray
    bond_starts: np.ndarray
    scaffolds: np.ndarray
    targets: np.ndarray
    target_names: tuple[str, ...]
    train: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    val: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    test: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    skipped: tuple[Skipped, ...] = ()
    name: str = "molecules"
    split: str = "unnamed"

    def __post_init__(self) -> None:
        count = len(self.smiles)
        if self.targets.shape != (count, len(self.target_names)):
            raise GsscError(
                f"targets have shape {self.targets.shape} for {count} molecules and {len(self.target_names)} names: "
                "give one row per molecule and one column per name"
            )
        if np.isinf(self.targets).any():
            raise GsscError("targets hold an infinite number: leave unknown ones blank")
        parts = {part: clean_index(getattr(self, part), count, part) for part in ("train", "val", "test")}
        refuse_overlap(parts)
        for part, index in parts.items():
            object.__setattr__(self, part, index)

    def __len__(self) -> int:
        return len(self.smiles)

    def __repr__(self) -> str:
        kind = "measured" if self.is_regression else "binary"
        targets = f"{self.num_targets} {kind} target" + ("" if self.num_targets == 1 else "s")
        return (
            f"MoleculeSet({self.name!r}: {len(self):,} molecules, {len(self.atoms):,} atoms, {self.bonds.shape[1]:,} "
            f"bonds, {targets}; split {self.split!r} "
            f"{len(self.train):,}/{len(self.val):,}/{len(self.test):,})"
        )

    @property
    def num_targets(self) -> int:
        return len(self.target_names)

    @property
    def is_regression(self) -> bool:
        """Whether some known target is neither 0 nor 1."""
        return len(self.binary_targets()) < self.num_targets

    def binary_targets(self) -> tuple[str, ...]:
        """Return the names of the targets whose known values are all 0 or 1."""
        binary = (np.isnan(self.targets) | (self.targets == 0) | (self.targets == 1)).all(0)
        return tuple(name for name, only in zip(self.target_names, binary, strict=True) if only)

    @property
    def task(self) -> Task:
        """The prediction task: binary targets or measurements."""
        return Regression(self.num_targets) if self.is_regression else MultiLabel(self.num_targets)

    @property
    def molecule_of_atom(self) -> np.ndarray:
        """Return the molecule each atom belongs to, [A]."""
        return np.repeat(np.arange(len(self)), np.diff(self.atom_starts))

    def with_(self, **changes: Any) -> MoleculeSet:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    def take(self, chosen: Sequence[int] | np.ndarray) -> MoleculeSet:
        """Return a set of these molecules, in this order, without a split."""
        chosen = np.asarray(chosen, dtype=np.int64)
        atoms, atom_starts = spans(self.atom_starts, chosen)
        bonds, bond_starts = spans(self.bond_starts, chosen)
        shift = np.repeat(atom_starts[:-1] - self.atom_starts[chosen], np.diff(bond_starts))
        empty = np.empty(0, dtype=np.int64)
        return self.with_(
            smiles=self.smiles[chosen],
            atoms=self.atoms[atoms],
            atom_starts=atom_starts,
            bonds=self.bonds[:, bonds] + shift,
            bond_fields=self.bond_fields[bonds],
            bond_starts=bond_starts,
            scaffolds=self.scaffolds[chosen],
            targets=self.targets[chosen],
            rows=self.rows[chosen] if len(self.rows) else self.rows,
            skipped=(),
            train=empty,
            val=empty,
            test=empty,
        )


def concatenate(sets: Sequence[MoleculeSet], name: str = "union") -> MoleculeSet:
    """Return the molecules of several sets as one, without targets, scaffolds or split."""
    atoms = np.cumsum([0, *(len(each.atoms) for each in sets)])
    bonds = np.cumsum([0, *(each.bonds.shape[1] for each in sets)])
    count = sum(len(each) for each in sets)
    atom_starts = [each.atom_starts[:-1] + shift for each, shift in zip(sets, atoms, strict=False)]
    bond_starts = [each.bond_starts[:-1] + shift for each, shift in zip(sets, bonds, strict=False)]
    return MoleculeSet(
        smiles=np.concatenate([each.smiles for each in sets]),
        atoms=np.concatenate([each.atoms for each in sets]),
        atom_starts=np.concatenate([*atom_starts, atoms[-1:]]),
        bonds=np.concatenate([each.bonds + shift for each, shift in zip(sets, atoms, strict=False)], axis=1),
        bond_fields=np.concatenate([each.bond_fields for each in sets]),
        bond_starts=np.concatenate([*bond_starts, bonds[-1:]]),
        scaffolds=np.zeros(count, dtype=np.int64),
        targets=np.empty((count, 0), dtype=np.float32),
        target_names=(),
        name=name,
    )


def spans(starts: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions inside the chosen spans, span after span, and the start of each among them.

    >>> positions, begins = spans(np.array([0, 2, 5]), np.array([1, 0]))
    >>> positions.tolist(), begins.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    lengths = starts[chosen + 1] - starts[chosen]
    begins = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(begins[-1]) + np.repeat(starts[chosen] - begins[:-1], lengths), begins
