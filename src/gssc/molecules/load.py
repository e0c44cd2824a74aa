"""Load a published set of molecules or your own table as a MoleculeSet with a split."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.fetch import fetch
from gssc.data.molecule_tables import SmilesTable, read_smiles_table
from gssc.data.registry import find_dataset
from gssc.errors import GsscError
from gssc.molecules.featurize import featurize
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.splits import split_molecules


def load_molecules(
    name: str,
    *,
    split: str | None = None,
    seed: int = 0,
    data_root: str | PathLike[str] | None = None,
    jobs: int = 1,
    invalid: str = "skip",
) -> MoleculeSet:
    """Return a published set as a MoleculeSet.

    Args:
        name: bbbp, tox21, muv or hiv.
        split: ``scaffold`` (default) or ``random``, see :func:`gssc.molecules.splits.split_molecules`.
        seed: seed of a random split.
        data_root: folder with data files, see :func:`gssc.data.load_dataset`.
        jobs: processes that read SMILES the first time; later the arrays come from the cache.
        invalid: ``skip`` or ``refuse`` rows that RDKit cannot read.
    """
    dataset = find_dataset(name)
    if dataset.level != "graph":
        raise GsscError(f"{name} is one graph, not a set of molecules: use gssc.load_dataset({name!r})")
    table: SmilesTable = dataset.load(fetch(dataset, data_root))
    return _with_split(table, name, split or dataset.default_split, seed, jobs, invalid)


def read_molecules(
    path: str | Path,
    *,
    smiles_column: str | None = None,
    targets: Sequence[str] | None = None,
    split: str = "scaffold",
    seed: int = 0,
    jobs: int = 1,
    invalid: str = "skip",
) -> MoleculeSet:
    """Return your own .csv or .tsv of SMILES and numeric targets (0 and 1, or measurements) as a MoleculeSet."""
    table = read_smiles_table(path, smiles_column, targets)
    if not table.target_names:
        raise GsscError(f"{path} has no column to learn besides the SMILES: add one, or name it with --targets")
    return _with_split(table, Path(path).stem, split, seed, jobs, invalid)


def _with_split(table: SmilesTable, name: str, split: str, seed: int, jobs: int, invalid: str) -> MoleculeSet:
    found = featurize(
        table.smiles,
        table.targets,
        table.target_names,
        name=name,
        invalid=invalid,
        jobs=jobs,
        cache=True,
        progress=True,
    )
    (train, val, test), split_name = split_molecules(split, found.scaffolds, seed)
    if not len(train) or np.isnan(found.targets[train]).all():
        raise GsscError(
            f"{name}: split {split_name!r} leaves no molecule with a known target to train on; try --split random"
        )
    return found.with_(train=train, val=val, test=test, split=split_name)


def properties(molecules: MoleculeSet, *names: str) -> MoleculeSet:
    """Return the set with targets computed by RDKit instead of its own: ``logp`` and ``tpsa``, for regression."""
    from gssc.extras import require
    from gssc.molecules.smiles import parse

    known: dict[str, Any] = {
        "logp": lambda molecule: require("rdkit.Chem.Crippen", extra="molecules").MolLogP(molecule),
        "tpsa": lambda molecule: require("rdkit.Chem.rdMolDescriptors", extra="molecules").CalcTPSA(molecule),
    }
    for name in names:
        if name not in known:
            raise GsscError(f"unknown property {name!r}: use {' or '.join(known)}")
    parsed = [parse(text) for text in molecules.smiles]
    targets = np.array([[known[name](each) for name in names] for each in parsed], dtype=np.float32)
    return molecules.with_(targets=targets, target_names=tuple(names))
