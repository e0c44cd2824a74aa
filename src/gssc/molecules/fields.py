"""The features of atoms and bonds: nine fields per atom and three per bond, as integer codes.

The fields are those commonly used with MoleculeNet (Hu et al. 2020, the Open Graph Benchmark). The code of a value is
its position in a list; a value that is not in the list gets the last code, "other".

>>> [field.name for field in ATOM_FIELDS][:3], ATOM_WIDTH
(['element', 'chirality', 'degree'], 177)
>>> ATOM_FIELDS[3].code(-1), ATOM_FIELDS[3].code(99)
(4, 11)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
HYBRIDIZATION = ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2")
BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")


@dataclass(frozen=True)
class Field:
    """One property of an atom or bond.

    Args:
        name: name of the property.
        values: the values that have their own code.
        read: function that returns the value of an RDKit atom or bond.
    """

    name: str
    values: tuple[Any, ...]
    read: Callable[[Any], Any]
    codes: dict[Any, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", {value: code for code, value in enumerate(self.values)})

    @property
    def width(self) -> int:
        """Number of codes, "other" included."""
        return len(self.values) + 1

    def code(self, value: Any) -> int:
        """Return the code of a value."""
        return self.codes.get(value, len(self.values))


ATOM_FIELDS = (
    Field("element", tuple(range(1, 119)), lambda atom: atom.GetAtomicNum()),
    Field("chirality", CHIRALITY, lambda atom: atom.GetChiralTag().name),
    Field("degree", tuple(range(11)), lambda atom: atom.GetTotalDegree()),
    Field("charge", tuple(range(-5, 6)), lambda atom: atom.GetFormalCharge()),
    Field("hydrogens", tuple(range(9)), lambda atom: atom.GetTotalNumHs()),
    Field("radicals", tuple(range(5)), lambda atom: atom.GetNumRadicalElectrons()),
    Field("hybridization", HYBRIDIZATION, lambda atom: atom.GetHybridization().name),
    Field("aromatic", (False, True), lambda atom: atom.GetIsAromatic()),
    Field("in_ring", (False, True), lambda atom: atom.IsInRing()),
)
BOND_FIELDS = (
    Field("type", BOND_TYPE, lambda bond: bond.GetBondType().name),
    Field("stereo", STEREO, lambda bond: bond.GetStereo().name),
    Field("conjugated", (False, True), lambda bond: bond.GetIsConjugated()),
)
# First one-hot column of each field.
ATOM_OFFSETS = np.cumsum([0, *(entry.width for entry in ATOM_FIELDS)])
ATOM_WIDTH = int(ATOM_OFFSETS[-1])
BOND_WIDTHS = tuple(entry.width for entry in BOND_FIELDS)
