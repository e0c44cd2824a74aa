"""Predictions as JSON, CSV or Parquet, made in memory; the tables have the columns that ``gssc predict`` writes."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from pydantic_core import to_json

from gssc.deploy.model import DeployedModel
from gssc.deploy.tables import CsvOutput, parquet_table

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
        # The same in every answer, so it is serialised once.
        self._head = to_json({"model": model_id, "class_names": model.class_names})[:-1] + b","
        self.writers: dict[str, Callable[[np.ndarray, np.ndarray | None], bytes]] = {
            "json": self.json_with_ids,
            "csv": self.csv,
            "parquet": self.parquet,
        }

    def json(self, probabilities: np.ndarray) -> bytes:
        """Return the predicted classes, by number, and the probabilities."""
        classes = (
            probabilities.argmax(axis=1).tolist()
            if self.model.task == "multiclass"
            else [np.flatnonzero(row).tolist() for row in probabilities >= 0.5]
        )
        return self._head + to_json({"classes": classes, "probabilities": probabilities.tolist()})[1:]

    def json_with_ids(self, probabilities: np.ndarray, ids: np.ndarray | None) -> bytes:
        """Return the answer of :meth:`json` with the ids of the table's rows, or null."""
        known = {"ids": None if ids is None else ids.tolist()}
        return self.json(probabilities)[:-1] + b"," + to_json(known)[1:]

    def csv(self, probabilities: np.ndarray, ids: np.ndarray | None) -> bytes:
        """Return a text table."""
        file = io.StringIO(newline="")
        CsvOutput(file, self.model).write(probabilities, ids)
        return file.getvalue().encode()

    def parquet(self, probabilities: np.ndarray, ids: np.ndarray | None) -> bytes:
        """Return a Parquet table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(parquet_table(self.model, probabilities, ids), sink)
        return bytes(sink.getvalue().to_pybytes())
