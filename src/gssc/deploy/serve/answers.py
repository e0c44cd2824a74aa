"""Predictions as JSON, CSV or Parquet, made in memory; the tables have the columns that ``gssc predict`` writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic_core import to_json

from gssc.deploy.model import DeployedModel
from gssc.deploy.tables import predicted_names

CONTENT_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


class Answers:
    """Writes the answers of one model.

    Args:
        model: names the classes.
        model_id: goes into every JSON answer.
    """

    def __init__(self, model: DeployedModel, model_id: str):
        self.model = model
        # The same in every answer, so written once.
        self._head = to_json({"model": model_id, "class_names": model.class_names})[:-1] + b","
        self.writers: dict[str, Callable[[np.ndarray, np.ndarray | None], bytes]] = {
            "json": self.json_with_ids,
            "csv": self.csv,
            "parquet": self.parquet,
        }

    def json(self, probabilities: np.ndarray) -> bytes:
        """Predicted classes by number, and probabilities."""
        classes = (
            probabilities.argmax(axis=1).tolist()
            if self.model.task == "multiclass"
            else [np.flatnonzero(row).tolist() for row in probabilities >= 0.5]
        )
        return self._head + to_json({"classes": classes, "probabilities": probabilities.tolist()})[1:]

    def json_with_ids(self, probabilities: np.ndarray, ids: np.ndarray | None) -> bytes:
        """The same, and the ids of the table's rows or null."""
        known = {"ids": None if ids is None else ids.tolist()}
        return self.json(probabilities)[:-1] + b"," + to_json(known)[1:]

    def csv(self, probabilities: np.ndarray, ids: np.ndarray | None) -> bytes:
        """A text table."""
        names, columns = self._columns(probabilities, ids)
        file = io.StringIO(newline="")
        writer = csv.writer(file)
        writer.writerow(names)
        # str(float32) is the shortest text that reads back as the same float32.
        for first, second, row in zip(*columns, probabilities, strict=True):
            writer.writerow([first, second, *map(str, row)])
        return file.getvalue().encode()

    def parquet(self, probabilities: np.ndarray, ids: np.ndarray | None) -> bytes:
        """A Parquet table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        names, columns = self._columns(probabilities, ids)
        arrays = [pa.array(column) for column in columns]
        arrays += [pa.array(np.ascontiguousarray(column)) for column in probabilities.T]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(arrays, names=names), sink)
        return bytes(sink.getvalue().to_pybytes())

    def _columns(self, probabilities: np.ndarray, ids: np.ndarray | None) -> tuple[list[str], list[list[Any]]]:
        names = ["row" if ids is None else "id", "prediction"]
        names += [f"probability_{name}" for name in self.model.class_names]
        keys = list(range(len(probabilities))) if ids is None else ids.tolist()
        return names, [keys, predicted_names(self.model, probabilities).tolist()]
