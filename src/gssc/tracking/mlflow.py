"""A run in MLflow, in the store that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gssc.errors import GsscError
from gssc.extras import require
from gssc.files import atomic_write
from gssc.tracking.callback import Callback, epoch_numbers, flat_settings, result_numbers

if TYPE_CHECKING:
    from gssc.run import Run
    from gssc.train.selection import Epoch

RUN_ID = "mlflow-run-id.txt"  # in the run folder: a resumed run continues the same MLflow run


class MLflow(Callback):
    """Logs settings, the numbers of every epoch and the result of a run.

    Args:
        experiment: name of the experiment; the graph's name if left out.
        uri: of the tracking store; MLFLOW_TRACKING_URI or MLflow's own default if left out.
    """

    def __init__(self, experiment: str | None = None, uri: str | None = None):
        self.mlflow = require("mlflow", extra="mlflow")
        self.experiment, self.uri = experiment, uri

    def start(self, run: Run) -> None:
        """Open an MLflow run, or the one that the folder began with."""
        with self._one_line():
            self._open(run)

    def _open(self, run: Run) -> None:
        self.client = self.mlflow.MlflowClient(self.uri)
        known = run.folder / RUN_ID
        if run.resumed and known.exists():
            self.run_id = known.read_text(encoding="utf-8").strip()
            self.client.update_run(self.run_id, status="RUNNING")
            return
        name = self.experiment or run.graph.name
        found = self.client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self.client.create_experiment(name)
        self.run_id = self.client.create_run(experiment, run_name=Path(run.folder).name).info.run_id
        with atomic_write(known) as temporary:
            temporary.write_text(self.run_id, encoding="utf-8")
        entities = self.mlflow.entities
        params = [entities.Param(key, str(value)) for key, value in flat_settings(run.config.to_dict()).items()]
        self.client.log_batch(self.run_id, params=params)

    def epoch(self, record: Epoch) -> None:
        """Log the numbers of an epoch in one request."""
        self._log(epoch_numbers(record), record.epoch)

    def end(self, metrics: Mapping[str, Any] | None) -> None:
        """Log the result and close the MLflow run: finished, or killed if there is no result."""
        if metrics is not None:
            self._log(result_numbers(metrics), 0)
        with self._one_line():
            self.client.set_terminated(self.run_id, status="KILLED" if metrics is None else "FINISHED")

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        """Raise an error of the tracking store as GsscError with its first sentence."""
        try:
            yield
        except self.mlflow.exceptions.MlflowException as error:
            reason = " ".join(str(error).split()).split(". ")[0].rstrip(".")
            raise GsscError(f"MLflow: {reason}; check MLFLOW_TRACKING_URI, or train without --track mlflow") from None

    def _log(self, numbers: Mapping[str, float], step: int) -> None:
        now, metric = int(1000 * time.time()), self.mlflow.entities.Metric
        points = [metric(name, value, now, step) for name, value in numbers.items()]
        with self._one_line():
            self.client.log_batch(self.run_id, metrics=points)
