"""The molecules to pre-train on: the union of the available sets, without molecules of the target's test fold."""

from __future__ import annotations

from functools import cache

import numpy as np

from gssc.data.registry import find_dataset
from gssc.errors import GsscError
from gssc.molecules.load import load_molecules
from gssc.molecules.molecule_set import MoleculeSet, concatenate
from gssc.molecules.smiles import chemistry, parse


def pretraining_pool(target: MoleculeSet, sets: str, limit: int, seed: int = 0) -> MoleculeSet:
    """Return up to ``limit`` unlabelled molecules, drawn from the target's own and those of the named sets.

    A molecule is left out if its canonical SMILES equals that of a test molecule.

    Args:
        target: the set to fine-tune on.
        sets: names separated by commas; empty for the target's own molecules only.
        limit: maximum number of molecules.
        seed: seed of the draw.
    """
    names = [name for name in sets.split(",") if name]
    for name in names:
        if find_dataset(name).level != "graph":
            raise GsscError(f"cannot pre-train on {name}: it is one graph, not a set of molecules")
    own = np.setdiff1d(np.arange(len(target)), target.test)
    union = concatenate([target.take(own), *(published(name) for name in names if name != target.name)])
    drawn = np.random.default_rng(seed).permutation(len(union))[:limit]
    hidden = {canonical(text) for text in target.smiles[target.test]}
    kept = [place for place in drawn if canonical(union.smiles[place]) not in hidden]
    if len(kept) < 2:
        raise GsscError("fewer than two molecules are left to pre-train on: name more sets or a larger limit")
    return union.take(np.sort(np.array(kept)))


@cache
def published(name: str) -> MoleculeSet:
    """Return a published set, loaded once per process because every run of a comparison needs all of them."""
    return load_molecules(name)


def canonical(smiles: str) -> str:
    """Return the canonical SMILES of a molecule."""
    return str(chemistry().MolToSmiles(parse(smiles)))
