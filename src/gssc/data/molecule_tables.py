"""Tables of SMILES and targets: four from MoleculeNet, and your own. Reading them does not need RDKit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gssc.data.entry import Dataset, File, FilePaths
from gssc.errors import GsscError
from gssc.files import require_file
from gssc.names import nearest
from gssc.text_tables import records_of

SMILES_NAMES = ("smiles", "canonical_smiles", "mol")
UNKNOWN = ("", "nan", "na", "none", "null")
_ADDRESS = "https://github.com/chemprop/chemprop"
_RAW = "https://raw.githubusercontent.com/chemprop/chemprop"


@dataclass(frozen=True)
class SmilesTable:
    """SMILES, targets [M, T] with NaN where unknown, and their names."""

    smiles: list[str]
    targets: np.ndarray
    target_names: tuple[str, ...]


def read_smiles_table(
    path: str | Path, smiles_column: str | None = None, targets: Sequence[str] | None = None
) -> SmilesTable:
    """Return the SMILES and targets of a .csv or .tsv file (also .gz) with a header line.

    Args:
        path: the table.
        smiles_column: name of the SMILES column; not needed if it is called smiles.
        targets: columns to learn; by default every other column.
    """
    path = Path(path)
    header, records = open_table(path)
    place = find_column(path, header, smiles_column)
    wanted = [name for index, name in enumerate(header) if index != place] if targets is None else list(targets)
    if place in (places := [_place(path, header, name) for name in wanted]):
        raise GsscError(f"{path}: column {header[place]!r} holds the SMILES and cannot be a target")
    smiles: list[str] = []
    values: list[list[float]] = []
    for line, cells in records:
        smiles.append(cells[place])
        values.append([_number(cells[column], path, line, header[column]) for column in places])
    if not smiles:
        raise GsscError(f"{path} has a header but no rows")
    table = np.array(values, dtype=np.float32).reshape(len(smiles), len(places))
    return SmilesTable(smiles, table, tuple(wanted))


def open_table(path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the header of a file and an iterator over its other lines, each with its line number."""
    require_file(path)
    return header_and_rows(path, records_of(path, keep_blank=True))


def header_and_rows(
    path: Path, lines: Iterator[tuple[int, list[str]]]
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the header of a table and an iterator over its rows, each with its line number.

    Args:
        path: path shown in errors.
        lines: the cells of its lines with their numbers; an empty line has no cells.
    """
    first = next(lines, None)
    if first is None or not any(map(str.strip, first[1])):
        raise GsscError(f"{path} is empty: it needs a header line and one line per molecule")
    header = [cell.strip() for cell in first[1]]
    return header, _same_width(path, header, lines)


def _same_width(
    path: Path, header: list[str], lines: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table. In a table of one column an empty line is an empty cell, unless nothing follows it."""
    empty: list[int] = []
    for line, cells in lines:
        if not cells:
            empty.append(line)
            continue
        if len(header) == 1:
            yield from ((before, [""]) for before in empty)
        empty.clear()
        if len(cells) != len(header):
            raise GsscError(f"{path}, line {line}: {len(cells)} cells where the header has {len(header)} columns")
        yield line, cells


def find_column(path: Path, header: list[str], smiles_column: str | None) -> int:
    """Return the position of the SMILES column."""
    if smiles_column is not None:
        return _place(path, header, smiles_column)
    for name in header:
        if name.lower() in SMILES_NAMES:
            return _place(path, header, name)
    raise GsscError(f"{path} has no column named smiles ({', '.join(header[:6])}): name it with --smiles-column")


def _place(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        raise GsscError(f"{path} has no column {name!r}: {nearest(name, header)}")
    if header.count(name) > 1:
        raise GsscError(f"{path} has {header.count(name)} columns named {name!r}: rename all but one")
    return header.index(name)


def _number(cell: str, path: Path, line: int, column: str) -> float:
    text = cell.strip()
    if text.lower() in UNKNOWN:
        return float("nan")
    try:
        return float(text)
    except ValueError:
        raise GsscError(
            f"{path}, line {line}: {text!r} in column {column!r} is not a number: leave unknown targets blank, or name "
            "the columns to learn with --targets"
        ) from None


def load(files: FilePaths, seed: int = 0) -> SmilesTable:
    """Read the one file of a published set."""
    (path,) = files.values()
    return read_smiles_table(path)


def _entry(
    name: str, description: str, sizes: tuple[int, int, int, int], file: str, sha256: str, address: str | None
) -> Dataset:
    return Dataset(
        name=name,
        description=description,
        load=load,
        default_split="scaffold",
        splits=("scaffold", "random"),
        files=(File(file, f"{_RAW}/{address}" if address else None, sha256),),
        address=_ADDRESS,
        licence="MIT",
        citation="Wu et al.: MoleculeNet: a benchmark for molecular machine learning, Chemical Science 2018",
        sizes=sizes,
        level="graph",
    )


ENTRIES = (
    _entry(
        "bbbp",
        "2,039 molecules: which of them cross the blood-brain barrier",
        (49_068, 52_921, 177, 1),
        "BBBP.csv",
        "a61e17872cbec0743a6147dc802a1f7550acfe8dc1053f881f4c42a3ce2dc597",
        "a68ade20f227862fe6265c46f021c78217a324ab/data/bbbp.csv",
    ),
    _entry(
        "tox21",
        "7,831 molecules: twelve toxicity assays",
        (145_256, 150_901, 177, 12),
        "tox21.csv",
        "b58cc1f683e78e3c7a1bf7116e9aac0119804018d100f7b8cdb0857941c31aca",
        "b83635bcddaddcdb91d453128edec9f2be0d25cf/data/tox21.csv",
    ),
    _entry(
        "muv",
        "93,087 molecules: seventeen screens with about thirty actives each",
        (2_255_846, 2_446_126, 177, 17),
        "muv.csv.gz",
        "ee68d1fad0b10440dc494ac3a74cf99168a0b0da9683556b2b48220b88172135",
        None,
    ),
    _entry(
        "hiv",
        "41,127 molecules: which of them inhibit HIV replication",
        (1_048_955, 1_129_451, 177, 1),
        "HIV.csv.gz",
        "0a4a7390d6f22035c293e8e0d500655d76233b35f0f68ab128f3ceccdd97a297",
        None,
    ),
)
