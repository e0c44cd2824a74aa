"""Molecules, a graph-level task: an MLP on atoms trained from SMILES, graph neural networks and fingerprint baselines.

Names are imported on first use, so that importing this package needs neither RDKit nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gssc.molecules.load import load_molecules as load_molecules
    from gssc.molecules.load import read_molecules as read_molecules
    from gssc.molecules.molecule_set import MoleculeSet as MoleculeSet

_HOME = {
    "MoleculeSet": "gssc.molecules.molecule_set",
    "load_molecules": "gssc.molecules.load",
    "read_molecules": "gssc.molecules.load",
}

__all__ = ["MoleculeSet", "load_molecules", "read_molecules"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
