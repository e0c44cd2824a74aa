"""Count or estimate the rows of a file before it is read, so that a progress bar can show the time left."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import numpy as np

from gssc.text_tables import PARQUET_ENDINGS, TEXT_ENDINGS, ending

SAMPLE_BYTES = 1 << 20  # read from a text table to estimate its number of lines


def row_count(path: str | Path) -> int | None:
    """Return the number of rows of a table, arrays or a graph on disk; an estimate for a text table.

    None if the number is unknown without reading everything, as for a pipe, or if the file cannot be read; the error is
    then raised by the code that reads it.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return int(json.loads((path / "graph.json").read_text(encoding="utf-8"))["nodes"])
        if not path.is_file():
            return None
        if path.suffix.lower() == ".npy":
            return len(np.load(path, mmap_mode="r", allow_pickle=False))
        if path.suffix.lower() == ".npz":
            return _rows_of_npz(path)
        if ending(path) in PARQUET_ENDINGS:
            from pyarrow.parquet import read_metadata

            return int(read_metadata(path).num_rows)
        return _about_lines(path) if ending(path) in TEXT_ENDINGS else None
    except Exception:
        return None


def _rows_of_npz(path: Path) -> int | None:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        if "x.npy" in names:
            with archive.open("x.npy") as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                return int(read(file)[0][0])
        for name in ("x_shape.npy", "shape.npy"):
            if name in names:
                with archive.open(name) as file:
                    return int(np.lib.format.read_array(file, allow_pickle=False)[0])
    return None


def _about_lines(path: Path) -> int:
    """Return the lines after the first one, extrapolated from the beginning of the file."""
    size = path.stat().st_size
    with path.open("rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
        sample = file.read(SAMPLE_BYTES)
        used = raw.tell()
        ended = not file.read(1)
    lines = sample.count(b"\n")
    if ended:
        return max(0, lines + (not sample.endswith(b"\n")) - 1)
    return max(0, round(lines * size / used) - 1)
