"""Convert many SMILES to a MoleculeSet, with several processes, a progress bar, and a cache on disk."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.fetch import cache_root
from gssc.errors import GsscError
from gssc.extras import require
from gssc.files import atomic_write
from gssc.molecules.fields import ATOM_FIELDS, BOND_FIELDS
from gssc.molecules.molecule_set import MoleculeSet, Skipped
from gssc.molecules.smiles import InvalidSmiles, Molecule, read_molecule
from gssc.progress_bar import ProgressBar

CHUNK = 500  # SMILES that a process reads at a time; the progress bar advances by as many
# Part of the cache key: to be increased when the arrays made from a SMILES change.
FORMAT = 1
ARRAYS = ("atoms", "atom_starts", "bonds", "bond_fields", "bond_starts", "scaffolds", "kept")


def featurize(
    smiles: Sequence[str],
    targets: np.ndarray | None = None,
    target_names: Sequence[str] = (),
    *,
    name: str = "molecules",
    invalid: str = "skip",
    jobs: int = 1,
    cache: bool = False,
    progress: bool = False,
    scaffolds: bool = True,
) -> MoleculeSet:
    """Return the molecules of a list of SMILES.

    Args:
        smiles: the SMILES.
        targets: [len(smiles), T] numbers, NaN where unknown.
        target_names: [T].
        name: name of the set.
        invalid: ``skip`` leaves out what RDKit cannot read and lists it in ``skipped``; ``refuse`` raises GsscError.
        jobs: number of processes.
        cache: whether to store the arrays in the cache folder, under a digest of the SMILES, and reuse them.
        progress: whether to show a progress bar if there are many molecules.
        scaffolds: whether to compute scaffolds; prediction does not need them, and they take longer than everything
            else. Must be True with ``cache``.
    """
    if invalid not in ("skip", "refuse"):
        raise GsscError(f"unknown value invalid={invalid!r}: use skip or refuse")
    texts = [str(text) for text in smiles]
    path = cache_path(texts) if cache else None
    found = read_cache(path) if path else None
    if found is None:
        found = arrays_of(texts, jobs, progress, scaffolds)
        if path:
            write_cache(path, *found)
    arrays, reasons = found
    skipped = tuple(Skipped(row + 1, texts[row], reason) for row, reason in reasons)
    if skipped and invalid == "refuse":
        raise GsscError(f"row {skipped[0].row}: {skipped[0].reason}; {len(skipped)} of {len(texts)} rows are like this")
    kept = arrays.pop("kept")
    if not len(kept):
        raise GsscError(f"{name}: none of {len(texts)} rows holds a molecule" + first_reason(skipped))
    if targets is None:
        targets = np.empty((len(texts), 0), dtype=np.float32)
    return MoleculeSet(
        smiles=np.array(texts, dtype=object)[kept],
        targets=np.asarray(targets, dtype=np.float32)[kept],
        target_names=tuple(target_names),
        rows=kept + 1,
        skipped=skipped,
        name=name,
        **arrays,
    )


def first_reason(skipped: Sequence[Skipped]) -> str:
    """Return the end of an error message: the first skipped row and the reason."""
    return f": row {skipped[0].row}: {skipped[0].reason}" if skipped else ""


Found = tuple[dict[str, Any], list[tuple[int, str]]]


def arrays_of(smiles: Sequence[str], jobs: int = 1, progress: bool = False, with_scaffolds: bool = True) -> Found:
    """Return the arrays of all molecules that can be read, and (row, reason) of those that cannot."""
    molecules: list[Molecule] = []
    reasons: list[tuple[int, str]] = []
    kept: list[int] = []
    for row, outcome in enumerate(_read_all(smiles, jobs, progress, with_scaffolds)):
        if isinstance(outcome, str):
            reasons.append((row, outcome))
        else:
            kept.append(row)
            molecules.append(outcome)
    atoms = [len(molecule.atoms) for molecule in molecules]
    atom_starts = np.concatenate([[0], np.cumsum(atoms)]).astype(np.int64)
    bonds = [molecule.bonds + start for molecule, start in zip(molecules, atom_starts, strict=False)]
    number: dict[str, int] = {}
    scaffolds = [number.setdefault(molecule.scaffold, len(number)) for molecule in molecules]
    return {
        "atoms": np.concatenate([np.empty((0, len(ATOM_FIELDS)), np.uint8), *(each.atoms for each in molecules)]),
        "atom_starts": atom_starts,
        "bonds": np.concatenate([np.empty((2, 0), np.int64), *bonds], axis=1),
        "bond_fields": np.concatenate(
            [np.empty((0, len(BOND_FIELDS)), np.uint8), *(each.bond_fields for each in molecules)]
        ),
        "bond_starts": np.concatenate([[0], np.cumsum([each.shape[1] for each in bonds])]).astype(np.int64),
        "scaffolds": np.array(scaffolds, dtype=np.int64),
        "kept": np.array(kept, dtype=np.int64),
    }, reasons


def _read_all(smiles: Sequence[str], jobs: int, progress: bool, scaffolds: bool) -> Iterator[Molecule | str]:
    chunks = [smiles[start : start + CHUNK] for start in range(0, len(smiles), CHUNK)]
    read = partial(_read_chunk, scaffold=scaffolds)
    if jobs > 1 and len(chunks) > 1:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            yield from _tracked(pool.map(read, chunks), len(smiles), progress)
    else:
        yield from _tracked(map(read, chunks), len(smiles), progress)


def _tracked(chunks: Iterator[list[Molecule | str]], total: int, progress: bool) -> Iterator[Molecule | str]:
    with ProgressBar("reading", total, "molecules", shown=progress) as bar:
        for chunk in chunks:
            yield from chunk
            bar.advance(len(chunk))


def _read_chunk(smiles: Sequence[str], scaffold: bool) -> list[Molecule | str]:
    """Return for each text the molecule, or the reason why it cannot be read."""
    outcomes: list[Molecule | str] = []
    for text in smiles:
        try:
            outcomes.append(read_molecule(text, scaffold))
        except InvalidSmiles as error:
            outcomes.append(str(error))
    return outcomes


def cache_path(smiles: Sequence[str]) -> Path:
    """Return the cache path of the arrays of these SMILES; it depends on the version of RDKit, which affects them."""
    digest = hashlib.sha256(f"{FORMAT} {require('rdkit', extra='molecules').__version__}\n".encode())
    for text in smiles:
        digest.update(text.encode() + b"\n")
    return cache_root() / "molecules" / f"{digest.hexdigest()[:32]}.npz"


def read_cache(path: Path) -> Found | None:
    """Return the content written by :func:`write_cache`; None if it is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            reasons = [(int(row), str(reason)) for row, reason in json.loads(str(file["reasons"]))]
            return {name: file[name] for name in ARRAYS}, reasons
    except (OSError, KeyError, ValueError):
        return None


def write_cache(path: Path, arrays: dict[str, np.ndarray], reasons: list[tuple[int, str]]) -> None:
    """Write arrays and reasons to one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        np.savez_compressed(temporary, allow_pickle=False, reasons=np.array(json.dumps(reasons)), **arrays)
