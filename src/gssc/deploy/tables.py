"""Predictions to files: parquet, csv or npz, whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gssc.deploy.model import DeployedModel
from gssc.files import atomic_write, check_output

LABEL_SEPARATOR = ";"


def write_predictions(
    path: str | Path,
    model: DeployedModel,
    probabilities: np.ndarray,
    ids: np.ndarray | None = None,
    overwrite: bool = False,
) -> None:
    """Write one row a prediction: id (or row number), predicted class, and each class's probability.

    In parquet and csv the columns are ``id`` or ``row``, ``prediction`` and ``probability_<class>``; in npz the
    arrays are ``id`` or ``row``, ``prediction``, ``probability`` [rows, classes] and ``class_names``. Of a
    multi-label model, ``prediction`` names every task with a probability of at least one half, joined by ``;``.
    """
    path = check_output(path, WRITERS, overwrite)
    key = "row" if ids is None else "id"
    ids = np.arange(len(probabilities)) if ids is None else ids
    with atomic_write(path) as temporary:
        WRITERS[path.suffix.lower()](temporary, key, ids, predicted_names(model, probabilities), probabilities, model)


def predicted_names(model: DeployedModel, probabilities: np.ndarray) -> np.ndarray:
    """Name of the predicted class of each row (of the predicted tasks, joined, if there are several)."""
    names = np.array(model.class_names)
    if model.task == "multiclass":
        return names[probabilities.argmax(axis=1)]
    return np.array([LABEL_SEPARATOR.join(names[row]) for row in probabilities >= 0.5], dtype=np.str_)


def _columns(model: DeployedModel) -> list[str]:
    return [f"probability_{name}" for name in model.class_names]


def _write_csv(
    path: Path, key: str, ids: np.ndarray, names: np.ndarray, probabilities: np.ndarray, model: DeployedModel
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([key, "prediction", *_columns(model)])
        # str(float32) is the shortest text that reads back as the same float32.
        for row_id, name, row in zip(ids.tolist(), names.tolist(), probabilities.astype(np.float32), strict=True):
            writer.writerow([row_id, name, *map(str, row)])


def _write_parquet(
    path: Path, key: str, ids: np.ndarray, names: np.ndarray, probabilities: np.ndarray, model: DeployedModel
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        key: pa.array(ids if ids.dtype.kind in "iu" else ids.tolist()),
        "prediction": pa.array(names.tolist(), pa.string()),
    }
    for number, name in enumerate(_columns(model)):
        columns[name] = pa.array(np.ascontiguousarray(probabilities[:, number]))
    pq.write_table(pa.table(columns), path)


def _write_npz(
    path: Path, key: str, ids: np.ndarray, names: np.ndarray, probabilities: np.ndarray, model: DeployedModel
) -> None:
    arrays = {
        key: ids,
        "prediction": names,
        "probability": probabilities,
        "class_names": np.array(model.class_names),
    }
    np.savez_compressed(path, allow_pickle=False, **arrays)


WRITERS: dict[str, Callable[[Path, str, np.ndarray, np.ndarray, np.ndarray, DeployedModel], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".npz": _write_npz,
}
