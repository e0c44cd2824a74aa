"""Predictions for a table of SMILES of any length, read, predicted and written in blocks."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from gssc.data.molecule_tables import find_column, header_and_rows, open_table
from gssc.deploy.tables import STREAM, safe_cell
from gssc.errors import GsscError
from gssc.files import atomic_write, check_output
from gssc.molecules.deployed import DeployedMolecules
from gssc.molecules.smiles import reason_against
from gssc.text_tables import Lines, records

BLOCK = 5000  # rows predicted together


@dataclass
class SmilesCounts:
    """The numbers of rows and of rows without a valid molecule, and the first few of the latter."""

    rows: int = 0
    invalid: int = 0
    first_invalid: list[int] = field(default_factory=list)


def predict_table(
    model: DeployedMolecules,
    source: str | Path,
    out: str | Path,
    smiles_column: str | None = None,
    *,
    overwrite: bool = False,
    invalid: str = "skip",
    on_rows: Callable[[int], None] = lambda rows: None,
) -> SmilesCounts:
    """Write a CSV with one line per row of ``source``: row number, SMILES, one column per target.

    ``-`` is standard input or standard output.

    No row is lost: with ``invalid="skip"`` a row that is not a molecule gets blank predictions; with ``refuse`` the
    first of them raises an error and nothing is written. ``on_rows`` is called with the number of rows that are done.
    """
    source = Path(source)
    if str(out) != STREAM:
        check_output(out, (".csv",), overwrite)
    if str(source) == STREAM:
        source = Path("standard input")
        header, rows = header_and_rows(
            source, records(Lines(sys.stdin.buffer, source), ".csv", source, keep_blank=True)
        )
    else:
        header, rows = open_table(source)
    place = find_column(source, header, smiles_column)
    kind = "value" if model.mean is not None else "probability"
    counts = SmilesCounts()
    with _opened(out) as file:
        writer = csv.writer(file, lineterminator="\n" if file is sys.stdout else "\r\n")
        writer.writerow(["row", "smiles", *(f"{kind}_{name}" for name in model.target_names)])
        for block in _blocks(rows, place):
            values = model.predict_smiles(block, invalid="skip")
            bad = np.isnan(values).all(1)
            if bad.any() and invalid == "refuse":
                first = int(bad.argmax())
                reason = reason_against(block[first]) or "its predictions are not numbers; train the model again"
                raise GsscError(f"{source}, row {counts.rows + first + 1}: {reason}")
            for text, row, blank in zip(block, values, bad, strict=True):
                counts.rows += 1
                writer.writerow([counts.rows, safe_cell(text), *([""] * len(row) if blank else map(str, row))])
                if blank:
                    counts.invalid += 1
                    counts.first_invalid = [*counts.first_invalid, counts.rows][:5]
            on_rows(counts.rows)
    return counts


@contextmanager
def _opened(out: str | Path) -> Iterator[IO[str]]:
    """Yield a file that appears once all rows are written, or standard output."""
    if str(out) == STREAM:
        yield sys.stdout
        return
    with atomic_write(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file


def _blocks(rows: Iterator[tuple[int, list[str]]], place: int) -> Iterator[list[str]]:
    while block := [cells[place] for _, cells in islice(rows, BLOCK)]:
        yield block
