"""Write predictions to files, atomically: csv block by block, parquet and npz at the end."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from gssc.deploy.model import DeployedModel
from gssc.deploy.table_rows import id_array
from gssc.errors import GsscError
from gssc.files import atomic_write, check_output
from gssc.text_tables import is_number

LABEL_SEPARATOR = ";"
STREAM = "-"  # standard output, which gets csv
LONGEST_IDS = 1 << 28  # bytes that a text array of an npz may take; every entry takes as much as the longest


class Output(Protocol):
    """Destination of predictions, which are written block by block."""

    def write(self, probabilities: np.ndarray, ids: np.ndarray | None) -> None:
        """Write the predictions of some rows; either all blocks have ids or none has."""


def write_predictions(
    path: str | Path,
    model: DeployedModel,
    probabilities: np.ndarray,
    ids: np.ndarray | None = None,
    overwrite: bool = False,
) -> None:
    """Write one row per prediction: id (or row number), predicted class, and each class's probability.

    In parquet and csv the columns are ``id`` or ``row``, ``prediction`` and ``probability_<class>``; in npz the
    arrays are ``id`` or ``row``, ``prediction``, ``probability`` [rows, classes] and ``class_names``. Of a
    multi-label model, ``prediction`` names every task with a probability of at least one half, joined by ``;``. In csv,
    text that a spreadsheet would read as a formula gets an apostrophe in front.
    """
    with predictions_to(path, model, overwrite) as output:
        output.write(probabilities, ids)


@contextmanager
def predictions_to(path: str | Path, model: DeployedModel, overwrite: bool = False) -> Iterator[Output]:
    """Yield an output for predictions: a file, which appears when complete, or for ``-`` csv on standard output."""
    if str(path) == STREAM:
        yield CsvOutput(sys.stdout, model)
        return
    path = check_output(path, FORMATS, overwrite)
    with atomic_write(path) as temporary:
        write = WRITERS.get(path.suffix.lower())
        if write is None:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                yield CsvOutput(file, model)
        else:
            gathered = Gathered()
            yield gathered
            write(temporary, model, *gathered.joined())


class CsvOutput:
    """Writes every block as it arrives."""

    def __init__(self, file: IO[str], model: DeployedModel):
        self.file, self.model, self.rows = file, model, 0

    def write(self, probabilities: np.ndarray, ids: np.ndarray | None) -> None:
        """Write some rows, the first time with a header, and flush them for the reader of a pipe."""
        writer = csv.writer(self.file, lineterminator="\n" if self.file is sys.stdout else "\r\n")
        if self.rows == 0:
            writer.writerow(column_names(self.model, "row" if ids is None else "id"))
        keys = range(self.rows, self.rows + len(probabilities)) if ids is None else map(safe_cell, ids.tolist())
        names = map(safe_cell, predicted_names(self.model, probabilities).tolist())
        # str(float32) is the shortest text that reads back as the same float32.
        for key, name, row in zip(keys, names, probabilities.astype(np.float32, copy=False), strict=True):
            writer.writerow([key, name, *map(str, row)])
        self.rows += len(probabilities)
        self.file.flush()


class Gathered:
    """Keeps all blocks, for formats that are written in one piece."""

    def __init__(self) -> None:
        self.probabilities: list[np.ndarray] = []
        self.ids: list[np.ndarray] = []

    def write(self, probabilities: np.ndarray, ids: np.ndarray | None) -> None:
        """Keep some rows."""
        self.probabilities.append(probabilities)
        if ids is not None:
            self.ids.append(ids)

    def joined(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return all probabilities and ids; ids that are all integers are returned as int64."""
        probabilities, ids = np.concatenate(self.probabilities), np.concatenate(self.ids) if self.ids else None
        return probabilities, id_array(ids.tolist()) if ids is not None and ids.dtype == object else ids


def predicted_names(model: DeployedModel, probabilities: np.ndarray) -> np.ndarray:
    """Return the name of the predicted class of each row (of the predicted tasks, joined, if there are several)."""
    # Python objects: rows of the same class share its name, however long that is.
    names = np.array(model.class_names, dtype=object)
    if model.task == "multiclass":
        return names[probabilities.argmax(axis=1)]
    return np.array([LABEL_SEPARATOR.join(names[row]) for row in probabilities >= 0.5], dtype=object)


def column_names(model: DeployedModel, key: str) -> list[str]:
    """Return the names of the columns of csv and parquet."""
    return [key, "prediction", *(f"probability_{name}" for name in model.class_names)]


def safe_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet reads as a formula: text that looks like one gets an apostrophe in front.

    >>> safe_cell("=1+1"), safe_cell("-3"), safe_cell("a=b"), safe_cell(7)
    ("'=1+1", '-3', 'a=b', 7)
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") and not is_number(value) else value


def parquet_table(model: DeployedModel, probabilities: np.ndarray, ids: np.ndarray | None) -> Any:
    """Return predictions as a pyarrow table."""
    import pyarrow as pa

    keys = np.arange(len(probabilities)) if ids is None else ids
    arrays = [pa.array(keys if keys.dtype.kind in "iu" else keys.tolist())]
    arrays.append(pa.array(predicted_names(model, probabilities).tolist(), pa.string()))
    arrays += [pa.array(np.ascontiguousarray(column)) for column in probabilities.T]
    return pa.table(arrays, names=column_names(model, "row" if ids is None else "id"))


def _write_parquet(path: Path, model: DeployedModel, probabilities: np.ndarray, ids: np.ndarray | None) -> None:
    import pyarrow.parquet as pq

    pq.write_table(parquet_table(model, probabilities, ids), path)


def _write_npz(path: Path, model: DeployedModel, probabilities: np.ndarray, ids: np.ndarray | None) -> None:
    keys = np.arange(len(probabilities)) if ids is None else ids
    arrays = {
        "row" if ids is None else "id": _fixed_width(keys),
        "prediction": _fixed_width(predicted_names(model, probabilities)),
        "probability": probabilities,
        "class_names": _fixed_width(np.array(model.class_names, dtype=object)),
    }
    np.savez_compressed(path, allow_pickle=False, **arrays)


def _fixed_width(texts: np.ndarray) -> np.ndarray:
    """Return text as an array of fixed width, as npz stores it. Raises GsscError if it would take too much memory."""
    if texts.dtype != object:
        return texts
    longest = max(map(len, texts.tolist()), default=0)
    if 4 * longest * len(texts) > LONGEST_IDS:
        raise GsscError(f"text of {longest:,} characters is too long for .npz; write .csv or .parquet")
    return texts.astype(np.str_)


WRITERS: dict[str, Callable[[Path, DeployedModel, np.ndarray, np.ndarray | None], None]] = {
    ".parquet": _write_parquet,
    ".npz": _write_npz,
}
FORMATS = (".parquet", ".csv", ".npz")
