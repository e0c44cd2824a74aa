"""A run in MLflow, in the store that MLFLOW_TRACKING_URI names, or in a database in the current folder."""

from __future__ import annotations

import shlex
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

# File in the run folder with the id and the store of the MLflow run, which a resumed run continues.
RUN_ID = "mlflow-run-id.txt"
DATABASE = "mlflow.db"  # the default store, also of MLflow itself


class MLflow(Callback):
    """Logs settings, the numbers of every epoch and the result of a run.

    Args:
        experiment: name of the experiment; the graph's name if left out.
        uri: address of the tracking store. If left out, the one that MLFLOW_TRACKING_URI or
            ``mlflow.set_tracking_uri`` names; else the one that the run began with; else the SQLite database
            ``mlflow.db`` in the current folder.
    """

    def __init__(self, experiment: str | None = None, uri: str | None = None):
        self.mlflow = require("mlflow", extra="mlflow")
        self.experiment, self.uri = experiment, uri

    def start(self, run: Run) -> None:
        """Open an MLflow run, or the one that the folder began with."""
        with self._one_line():
            self._open(run)

    def _open(self, run: Run) -> None:
        known = run.folder / RUN_ID
        before = known.read_text(encoding="utf-8").split("\n") if run.resumed and known.exists() else []
        store = self._store(*before[1:2])
        self.client = self.mlflow.MlflowClient(store)
        self.look = f"view with: {_command(store)}"
        if before:
            self.run_id = before[0]
            self.client.update_run(self.run_id, status="RUNNING")
            return
        name = self.experiment or run.graph.name
        found = self.client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self.client.create_experiment(name)
        self.run_id = self.client.create_run(experiment, run_name=Path(run.folder).name).info.run_id
        with atomic_write(known) as temporary:
            temporary.write_text(f"{self.run_id}\n{store}\n", encoding="utf-8")
        entities = self.mlflow.entities
        params = [entities.Param(key, str(value)) for key, value in flat_settings(run.config.to_dict()).items()]
        self.client.log_batch(self.run_id, params=params)

    def _store(self, before: str = "") -> str:
        if self.uri or self.mlflow.is_tracking_uri_set():
            return self.uri or str(self.mlflow.get_tracking_uri())
        for package in ("sqlalchemy", "alembic"):
            require(package, extra="mlflow")
        return before or f"sqlite:///{Path(DATABASE).absolute().as_posix()}"

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


def _command(store: str) -> str:
    """Return the command that shows a store, or the address of a server.

    >>> _command("https://mlflow.example.org"), _command("sqlite:////data/mlflow.db")
    ('https://mlflow.example.org', 'mlflow ui --backend-store-uri sqlite:////data/mlflow.db')
    """
    return store if store.startswith("http") else f"mlflow ui --backend-store-uri {shlex.quote(store)}"
