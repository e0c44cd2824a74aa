"""Predict properties of molecules from their SMILES with NumPy and RDKit; reads model.npz next to this file.

python predict.py molecules.csv predictions.csv [COLUMN]

Written by `gssc export`; fields.py and environments.py next to it define the columns of an atom's row.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rdkit import Chem, rdBase

from gssc.molecules.environments import environments
from gssc.molecules.fields import ATOM_FIELDS, ATOM_OFFSETS, ATOM_WIDTH, BOND_FIELDS

BLOCK = 5000  # number of table rows predicted together
LEAKY_SLOPE = 0.01
rdBase.DisableLog("rdApp.*")  # what cannot be read is reported as NaN


class Molecules(NamedTuple):
    """Codes of all atoms [A, 9], bonds [2, E] and their codes [E, 3], and the first atom of each molecule."""

    atoms: np.ndarray
    bonds: np.ndarray
    bond_fields: np.ndarray
    starts: np.ndarray


class Predictor:
    """The model of an export folder.

    Args:
        folder: folder of model.npz; by default that of this file.
    """

    def __init__(self, folder: str | Path | None = None):
        path = Path(folder) if folder else Path(__file__).parent
        with np.load(path / "model.npz", allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}
        about = json.loads(str(self.arrays.pop("about")))
        self.target_names: list[str] = about["target_names"]
        self.radius, self.columns = about["row_format"]["radius"], about["row_format"]["columns"]
        self.use_size, self.use_sum, self.members = about["use_size"], about["use_sum"], about["members"]
        self.is_regression = "mean" in self.arrays

    def predict(self, smiles: Sequence[str]) -> np.ndarray:
        """Return probabilities, or measured values, [len(smiles), targets]; NaN where RDKit cannot read a text."""
        out = np.full((len(smiles), len(self.target_names)), np.nan, dtype=np.float32)
        parsed = [Chem.MolFromSmiles(text.strip()) for text in smiles]
        good = [place for place, each in enumerate(parsed) if each is not None and each.GetNumAtoms()]
        if good:
            found = molecules_of([parsed[place] for place in good])
            out[good] = self._outputs(self._logits(self.set_columns(found), found.starts))
        return out

    def set_columns(self, molecules: Molecules) -> np.ndarray:
        """Return the columns that are one in each atom's row, [A, 9 + radius]."""
        parts = [molecules.atoms + ATOM_OFFSETS[:-1]]
        for step, identifier in enumerate(environments(molecules, self.radius)):
            hashed = (identifier % np.uint64(self.columns)).astype(np.int64)
            parts.append((ATOM_WIDTH + step * self.columns + hashed)[:, None])
        return np.concatenate(parts, axis=1)

    def _outputs(self, logits: np.ndarray) -> np.ndarray:
        if self.is_regression:
            return np.asarray(logits * self.arrays["scale"] + self.arrays["mean"])
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -60, 60))))

    def _logits(self, columns: np.ndarray, starts: np.ndarray) -> np.ndarray:
        different, place = np.unique(columns, axis=0, return_inverse=True)  # each different atom row is computed once
        sizes = np.diff(starts).astype(np.float32)[:, None]
        results = []
        for member in range(self.members):
            layers = self._layers(f"{member}.atoms")
            weight, bias = layers[0]
            hidden = weight.T[different].sum(1) + bias
            for weight, bias in layers[1:]:
                hidden = np.where(hidden > 0, hidden, LEAKY_SLOPE * hidden) @ weight.T + bias
            total = np.add.reduceat(hidden[place.ravel()], starts[:-1], axis=0)
            parts = [total / sizes, *([total] if self.use_sum else []), *([np.log(sizes)] if self.use_size else [])]
            out = np.concatenate(parts, axis=1)
            for number, (weight, bias) in enumerate(self._layers(f"{member}.readout")):
                out = (np.maximum(out, 0) if number else out) @ weight.T + bias
            results.append(out)
        return np.asarray(np.mean(results, axis=0))

    def _layers(self, start: str) -> list[tuple[np.ndarray, np.ndarray]]:
        count = sum(name.startswith(start) for name in self.arrays) // 2
        return [
            (self.arrays[f"{start}.{place}.weight"], self.arrays[f"{start}.{place}.bias"]) for place in range(count)
        ]


def molecules_of(parsed: Iterable[Chem.Mol]) -> Molecules:
    """Return the arrays of RDKit molecules."""
    atoms: list[list[int]] = []
    bonds: list[tuple[int, int]] = []
    codes: list[list[int]] = []
    starts = [0]
    for molecule in parsed:
        for bond in molecule.GetBonds():
            bonds.append((starts[-1] + bond.GetBeginAtomIdx(), starts[-1] + bond.GetEndAtomIdx()))
            codes.append([entry.code(entry.read(bond)) for entry in BOND_FIELDS])
        atoms.extend([entry.code(entry.read(atom)) for entry in ATOM_FIELDS] for atom in molecule.GetAtoms())
        starts.append(len(atoms))
    return Molecules(
        np.array(atoms, dtype=np.uint8),
        np.array(bonds, dtype=np.int64).reshape(-1, 2).T,
        np.array(codes, dtype=np.uint8).reshape(-1, len(BOND_FIELDS)),
        np.array(starts),
    )


def cells_of(records: Iterable[list[str]], place: int, width: int) -> Iterator[str]:
    """Yield one cell per row; in a table of one column an empty line is an empty cell, unless nothing follows it."""
    empty = 0
    for cells in records:
        if not cells:
            empty += 1
            continue
        yield from [""] * (empty if width == 1 else 0)
        empty = 0
        yield cells[place] if place < len(cells) else ""


def safe_cell(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") else text


def predict_table(source: str, target: str, column: str = "smiles") -> int:
    """Write one line of predictions per line of a table, in blocks, and return their number.

    Predictions for invalid molecules are blank. An existing file is not overwritten, and after an error there is none.
    """
    model, count, found = Predictor(), 0, Path(target)
    with Path(source).open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        records = csv.reader(file, delimiter=max(",;\t", key=first.count))
        names = [name.strip() for name in next(records, [])]
        if column not in names:
            raise ValueError(f"{source} has no column {column!r}: name it as the third argument")
        cells = cells_of(records, names.index(column), len(names))
        with found.open("x", newline="", encoding="utf-8") as out:
            try:
                writer = csv.writer(out)
                writer.writerow(["smiles", *map(safe_cell, model.target_names)])
                while block := list(islice(cells, BLOCK)):
                    for text, values in zip(block, model.predict(block), strict=True):
                        writer.writerow([safe_cell(text), *("" if np.isnan(value) else str(value) for value in values)])
                    count += len(block)
            except BaseException:
                found.unlink()
                raise
    return count


def main(arguments: Sequence[str]) -> int:
    """Predict a table and return the exit code: 0, or 2 after one line on standard error."""
    if len(arguments) not in (2, 3) or arguments[0].startswith("-"):
        sys.stderr.write("usage: python predict.py MOLECULES.csv PREDICTIONS.csv [COLUMN OF SMILES]\n")
        return 2
    try:
        count = predict_table(*arguments)
    except (OSError, ValueError, csv.Error) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"wrote {count:,} row{'' if count == 1 else 's'} to {arguments[1]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
