"""Class probabilities from feature rows, with NumPy alone.

    python predict.py rows.csv predictions.csv

    from predict import Predictor
    Predictor().predict_proba(rows)

Reads model.json and model.safetensors from the folder of this file. Written by gssc export; it needs NumPy, not gssc.
From a table with named columns it takes the model's features by name (or, if they have no names, every column but ids,
labels and splits).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ID_COLUMNS = ("id", "node_id", "node", "node id", "")
OTHER_COLUMNS = ("label", "y", "class", "target", "split")
BLOCK_ROWS = 2048


class Csr:
    """Rows of a sparse matrix: entry values, their columns, and where each row begins and ends."""

    def __init__(self, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray):
        self.data, self.indices, self.indptr = data, indices, indptr

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, rows: slice) -> Csr:
        """Return consecutive rows; the arrays are shared."""
        return Csr(self.data, self.indices, self.indptr[rows.start : rows.stop + 1])

    def __matmul__(self, weight: np.ndarray) -> np.ndarray:
        """Return the product, computed row by row: NumPy has nothing faster."""
        out = np.empty((len(self), weight.shape[1]), dtype=np.float32)
        places = self.indptr.tolist()
        for row, start, stop in zip(out, places, places[1:], strict=False):
            np.dot(self.data[start:stop], weight.take(self.indices[start:stop], axis=0), out=row)
        return out

    def sizes(self) -> np.ndarray:
        """Return the sum of the absolute values of each row."""
        sums = np.zeros(len(self), dtype=np.float32)
        filled = np.diff(self.indptr) > 0  # reduceat misreads empty rows
        if filled.any():
            first, last = self.indptr[0], self.indptr[-1]
            sums[filled] = np.add.reduceat(np.abs(self.data[first:last]), self.indptr[:-1][filled] - first)
        return sums


class Predictor:
    """The trained model.

    Args:
        folder: where model.json and model.safetensors are; the folder of this file if left out.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent):
        folder = Path(folder)
        description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        digest = description.pop("digest", None)
        text = json.dumps(description, sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise ValueError(f"{folder / 'model.json'} was changed after it was written: copy the folder again")
        weights = (folder / "model.safetensors").read_bytes()
        if hashlib.sha256(weights).hexdigest() != description["weights_sha256"]:
            raise ValueError(f"{folder / 'model.safetensors'} was changed or cut short: copy the folder again")
        tensors = read_tensors(weights)
        self.layers = [
            (np.ascontiguousarray(tensors[f"layers.{number}.weight"].T), tensors[f"layers.{number}.bias"])
            for number in range(len(description["widths"]) - 1)
        ]
        self.features: int = description["widths"][0]
        self.class_names: list[str] = description["class_names"]
        self.feature_names: list[str] | None = description["feature_names"]
        names = description["activation"].split(",")
        self.activations: list[str] = names * (len(self.layers) - 1) if len(names) == 1 else names
        self.normalize = description["normalize"] == "row"
        self.multilabel = description["task"] == "multilabel"
        self.temperature = np.float32(description["temperature"])

    def logits(self, x: Any) -> np.ndarray:
        """Return the scores before softmax or sigmoid, [rows, outputs]; not divided by the temperature.

        Args:
            x: an array [rows, features], a SciPy sparse matrix, or (data, indices, indptr) of a CSR matrix.
        """
        rows = self._rows(x)
        with np.errstate(over="ignore", invalid="ignore"):  # found in the result
            if len(rows) <= BLOCK_ROWS:
                out = self._forward(rows)
            else:
                blocks = range(0, len(rows), BLOCK_ROWS)
                out = np.concatenate([self._forward(rows[start : start + BLOCK_ROWS]) for start in blocks])
            total = float(out.sum())
        if not math.isfinite(total) and not np.isfinite(out).all():
            row = int(np.argmin(np.isfinite(out).all(axis=1)))
            raise ValueError(f"row {row} has a NaN, infinite or far too large feature: fix or drop it")
        return out

    def predict_proba(self, x: Any) -> np.ndarray:
        """Return the probability of each class (or, if several may hold, of each task), [rows, outputs]."""
        scores = self.logits(x)
        scores /= self.temperature
        if self.multilabel:
            return np.float32(0.5) * np.tanh(np.float32(0.5) * scores) + np.float32(0.5)  # never overflows
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def predict(self, x: Any) -> np.ndarray:
        """Return the number of the likeliest class [rows]; of a multi-label model, 0 or 1 per task [rows, tasks]."""
        scores = self.logits(x)
        return (scores >= 0).astype(np.int64) if self.multilabel else scores.argmax(axis=1)

    def _rows(self, x: Any) -> Any:
        parts: tuple[Any, ...] | None = x if isinstance(x, tuple) else None
        if parts is None:
            x = x.tocsr() if hasattr(x, "tocsr") else np.asanyarray(x)
            if x.ndim != 2 or x.shape[1] != self.features:
                raise ValueError(f"rows have shape {x.shape}; the model takes (rows, {self.features})")
            if not hasattr(x, "indptr"):
                return x
            parts = x.data, x.indices, x.indptr
        data, indices, indptr = map(np.asarray, parts)
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.features:
            raise ValueError(f"an entry lies outside the model's {self.features} features")
        if not (len(indptr) and indptr[0] == 0 and indptr[-1] == len(indices) == len(data)):
            raise ValueError("indptr must begin with 0 and end with the number of entries in indices and data")
        if (indptr[1:] < indptr[:-1]).any():
            raise ValueError("indptr must not decrease")
        return Csr(data.astype(np.float32, copy=False), indices, indptr)

    def _forward(self, x: Any) -> np.ndarray:
        if not isinstance(x, Csr):
            x = x.astype(np.float32, copy=False)
        (weight, bias), *rest = self.layers
        hidden = x @ weight
        if self.normalize:  # after the product, which is the smaller matrix
            sums = x.sizes() if isinstance(x, Csr) else np.abs(x).sum(axis=1)
            sums[sums == 0] = 1
            hidden /= sums[:, None]
        hidden += bias
        for (weight, bias), name in zip(rest, self.activations, strict=True):
            hidden = activated(hidden, name) @ weight
            hidden += bias
        return hidden


def activated(hidden: np.ndarray, name: str) -> np.ndarray:
    """Return hidden rows after an activation."""
    if name == "standardize":
        hidden = hidden - hidden.mean(axis=1, keepdims=True)
        return hidden / np.sqrt((hidden * hidden).mean(axis=1, keepdims=True) + np.float32(1e-5))
    if name == "asinh":
        return np.arcsinh(hidden)
    if name == "gelu":
        return hidden * (np.float32(0.5) + np.float32(0.5) * erf(hidden * np.float32(0.5**0.5)))
    return np.maximum(hidden, hidden * np.float32(0.01 if name == "leaky_relu" else 0.0))


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    return np.asarray(np.sign(x) * (1 - series * np.exp(-size * size)))


def read_tensors(content: bytes) -> dict[str, np.ndarray]:
    """Return the float32 arrays of a safetensors file: a length, a JSON header with places, then the numbers."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    numbers = np.frombuffer(content, dtype=np.uint8, offset=8 + size)
    tensors = {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        tensors[name] = numbers[start:stop].view("<f4").reshape(entry["shape"])
    return tensors


def read_table(path: str | Path, feature_names: Sequence[str] | None) -> tuple[list[str] | None, np.ndarray]:
    """Return the ids, if there is a column of them, and the feature rows of a text table."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        first = next((line for line in file if line.strip()), "")
        stated = re.fullmatch(r'\s*"?sep=([,;|\t])"?\s*', first, re.IGNORECASE)  # a line for Excel
        delimiter = stated[1] if stated else max(",;\t", key=re.sub('"[^"]*"', "", first).count)
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    lines = lines[1:] if stated else lines
    if not lines:
        raise ValueError(f"{path} is empty")
    header = [cell.strip() for cell in lines[0][1]]
    counted = len(header) > 2 and header == [str(index) for index in range(len(header))]  # as pandas names columns
    wanted = [name.strip() for name in feature_names or ()]
    named = counted or not all(map(_is_number, header)) or (wanted and set(wanted) <= set(header))
    columns, ids = list(range(len(header))), None
    numbered = [f"column {number}" for number in range(1, len(header) + 1)]  # as training calls them without a header
    if not named and wanted and set(wanted) <= set(numbered):
        columns = [numbered.index(name) for name in wanted]
    elif named:
        lines = lines[1:]
        lower = [name.lower() for name in header]
        ids = next((lower.index(name) for name in ID_COLUMNS if name in lower), None)
        if feature_names is not None:
            if missing := [name for name in wanted if name not in header]:
                raise ValueError(f"{path} lacks the column {missing[0]!r}")
            columns = [header.index(name) for name in wanted]
            if ids is None and header[0] not in wanted and lower[0] not in OTHER_COLUMNS:
                ids = 0  # as gssc predict does
        else:
            known = {*ID_COLUMNS, *OTHER_COLUMNS}
            columns = [index for index, name in enumerate(header) if name.lower() not in known]
    rows = np.empty((len(lines), len(columns)), dtype=np.float32)
    for number, (line, cells) in enumerate(lines):
        if len(cells) != len(header):
            raise ValueError(
                f"{path}:{line}: {len(cells)} columns where the first line has {len(header)}; fix or drop the row"
            )
        try:
            rows[number] = [float(cells[column]) for column in columns]
        except ValueError as error:
            raise ValueError(f"{path}:{line}: {error}; fix or drop the row") from None
    return None if ids is None else [cells[ids].strip() for _, cells in lines], rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def write_table(path: str | Path, model: Predictor, ids: list[str] | None, probabilities: np.ndarray) -> None:
    """Write id or row number, predicted class (or tasks, joined by ;) and every probability; never overwrite a file."""
    names = np.array(model.class_names)
    if model.multilabel:
        predicted = [";".join(names[row]) for row in probabilities >= 0.5]
    else:
        predicted = names[probabilities.argmax(axis=1)].tolist()
    with Path(path).open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row" if ids is None else "id", "prediction", *(f"probability_{name}" for name in names)])
        for key, name, row in zip(ids or range(len(predicted)), predicted, probabilities, strict=True):
            writer.writerow([_safe(key), _safe(name), *map(str, row)])


def _safe(cell: Any) -> Any:
    """Return the text, with an apostrophe in front if a spreadsheet would read it as a formula."""
    formula = isinstance(cell, str) and cell[:1] in tuple("=+-@\t\r") and not _is_number(cell)
    return f"'{cell}" if formula else cell


def main(arguments: Sequence[str]) -> int:
    """Predict a table; return 0, or 2 after one line on stderr."""
    if len(arguments) != 2 or arguments[0].startswith("-"):
        sys.stderr.write("usage: python predict.py ROWS.csv PREDICTIONS.csv\n")
        return 2
    try:
        model = Predictor()
        ids, rows = read_table(arguments[0], model.feature_names)
        write_table(arguments[1], model, ids, model.predict_proba(rows))
    except (OSError, ValueError, csv.Error) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"error: {reason}\n")
        return 2
    sys.stdout.write(f"{len(rows)} row{'s' * (len(rows) != 1)}, written to {arguments[1]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
