"""Convert one SMILES to the arrays of one molecule, by RDKit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gssc.errors import GsscError
from gssc.extras import require
from gssc.molecules.fields import ATOM_FIELDS, BOND_FIELDS

# Field.code as plain lookups, which take most of the time of reading a molecule.
ATOM_READERS, BOND_READERS = (
    tuple((entry.read, entry.codes.get, len(entry.values)) for entry in fields) for fields in (ATOM_FIELDS, BOND_FIELDS)
)


@dataclass(frozen=True)
class Molecule:
    """Atom codes [n, 9], bonds [2, b] (each once), bond codes [b, 3] and the Bemis-Murcko scaffold's SMILES."""

    atoms: np.ndarray
    bonds: np.ndarray
    bond_fields: np.ndarray
    scaffold: str


class InvalidSmiles(GsscError):
    """A text that is not the SMILES of a molecule with atoms."""


@cache
def chemistry() -> Any:
    """Return RDKit's Chem with its messages on stderr turned off; errors are raised as InvalidSmiles."""
    chem = require("rdkit.Chem", extra="molecules")
    require("rdkit.RDLogger", extra="molecules").DisableLog("rdApp.*")
    return chem


def parse(smiles: str) -> Any:
    """Return RDKit's molecule. Raises InvalidSmiles with the reason if there is none."""
    text = smiles.strip()
    if not text:
        raise InvalidSmiles("the SMILES is empty")
    molecule = chemistry().MolFromSmiles(text)
    if molecule is None:
        raise InvalidSmiles(f"{text!r} is not a SMILES that RDKit can read (wrong syntax or an impossible valence)")
    if molecule.GetNumAtoms() == 0:
        raise InvalidSmiles(f"{text!r} has no atoms")
    return molecule


def reason_against(smiles: str) -> str | None:
    """Return why a text is not a molecule; None if it is one."""
    try:
        parse(smiles)
    except InvalidSmiles as error:
        return str(error)
    return None


def read_molecule(smiles: str, scaffold: bool = True) -> Molecule:
    """Return the arrays of a molecule. All fragments of a salt are kept, as one graph of several parts.

    >>> ethanol = read_molecule("CCO")
    >>> ethanol.atoms.shape, ethanol.bonds.tolist(), ethanol.scaffold
    ((3, 9), [[0, 1], [1, 2]], '')
    """
    molecule = parse(smiles)
    atoms = [[code(read(atom), other) for read, code, other in ATOM_READERS] for atom in molecule.GetAtoms()]
    found = list(molecule.GetBonds())
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in found]
    codes = [[code(read(bond), other) for read, code, other in BOND_READERS] for bond in found]
    return Molecule(
        np.array(atoms, dtype=np.uint8),
        np.array(bonds, dtype=np.int64).reshape(-1, 2).T,
        np.array(codes, dtype=np.uint8).reshape(-1, len(BOND_FIELDS)),
        scaffold_of(molecule) if scaffold else "",
    )


def scaffold_of(molecule: Any) -> str:
    """Return the SMILES of the Bemis-Murcko scaffold (rings and their linkers); empty if there is no ring."""
    scaffolds = require("rdkit.Chem.Scaffolds.MurckoScaffold", extra="molecules")
    try:
        return str(scaffolds.MurckoScaffoldSmiles(mol=molecule, includeChirality=True))
    except (RuntimeError, ValueError):  # a few organometallic rings have no valid scaffold; they form a separate group
        return str(chemistry().MolToSmiles(molecule))
