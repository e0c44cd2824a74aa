from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from gssc.cli.main import main
from gssc.config import parse_config
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.run import Run
from gssc.tracking import Callback, make_tracker
from gssc.tracking.callback import epoch_numbers
from gssc.train.selection import Epoch

SHORT = {
    "train": {"epochs": 2, "warmup_epochs": 2},
    "consolidate": {"epochs": 1},
    "sparsifier": {"pretrain_epochs": 2, "hidden": 8},
    "model": {"name": "str_contrast", "hidden": 8},
}


@pytest.fixture
def graph() -> Graph:
    classes = np.repeat([0, 1], 10)
    features = np.random.default_rng(0).random((20, 5)).astype(np.float32)
    edges = np.stack([np.arange(19), np.arange(1, 20)])
    return Graph(features, edges, classes, train=range(0, 20, 4), val=[1, 11], name="small")


class Recorder(Callback):
    """Writes down every call, and stops after some epochs."""

    def __init__(self, stop_after: int = 99):
        self.calls: list[object] = []
        self.stop_after = stop_after

    def start(self, run: Run) -> None:
        self.calls.append(("start", run.resumed))

    def epoch(self, record: Epoch) -> None:
        self.calls.append(record.epoch)
        if len(self.calls) > self.stop_after:
            raise KeyboardInterrupt

    def end(self, metrics) -> None:
        self.calls.append(("end", metrics and metrics["epochs"]))


def test_callbacks_follow_a_run(graph: Graph, tmp_path: Path) -> None:
    first, second, seen = Recorder(), Recorder(), []
    Run(tmp_path / "run", parse_config(SHORT), graph).train(lambda record: seen.append(record.epoch), [first, second])
    assert first.calls == [("start", False), 0, 1, 2, 3, 4, ("end", 5)]
    assert second.calls == first.calls
    assert seen == [0, 1, 2, 3, 4]


def test_an_interruption_ends_callbacks_without_a_result(graph: Graph, tmp_path: Path) -> None:
    stopped, resumed = Recorder(stop_after=2), Recorder()
    with pytest.raises(KeyboardInterrupt):
        Run(tmp_path / "run", parse_config(SHORT), graph).train(callbacks=[stopped])
    assert stopped.calls == [("start", False), 0, 1, ("end", None)]
    Run(tmp_path / "run", parse_config(SHORT), graph, resume=True).train(callbacks=[resumed])
    assert resumed.calls[0] == ("start", True)
    assert resumed.calls[-1] == ("end", 5)


def test_only_finite_numbers_are_tracked() -> None:
    numbers = epoch_numbers(Epoch(3, "warm-up", val_loss=math.inf, edges_kept=4))
    assert numbers["edges_kept"] == 4.0
    assert not {"epoch", "phase", "val_loss", "best"} & set(numbers)


# TensorBoard's own generated code and NumPy use what newer versions deprecate.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_every_epoch(graph: Graph, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    metrics = Run(tmp_path / "run", parse_config(SHORT), graph).train(callbacks=[make_tracker("tensorboard")])
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    logged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    points = events.Scalars("smoothness_loss")
    assert [point.step for point in points] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose([p.value for p in points], [r["smoothness_loss"] for r in logged], rtol=1e-6)
    assert events.Scalars("result_val_score")[0].value == pytest.approx(metrics["val_score"])


# MLflow warns about its own file store and about missing optional packages.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_store_that_cannot_be_opened_is_one_line(graph: Graph, tmp_path: Path, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow")

    def refuse(uri: str | None) -> None:
        raise mlflow.exceptions.MlflowException("The store is closed. See the manual.")

    monkeypatch.setattr(mlflow, "MlflowClient", refuse)
    with pytest.raises(GsscError, match=r"^MLflow: The store is closed; check MLFLOW_TRACKING_URI"):
        Run(tmp_path / "run", parse_config(SHORT), graph).train(callbacks=[make_tracker("mlflow")])


def test_mlflow_gets_settings_epochs_and_result(graph: Graph, tmp_path: Path, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with pytest.raises(KeyboardInterrupt):
        trackers = [make_tracker("mlflow"), Recorder(stop_after=2)]
        Run(tmp_path / "run", parse_config(SHORT), graph).train(callbacks=trackers)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("small").experiment_id
    (killed,) = client.search_runs([experiment])
    assert killed.info.status == "KILLED"
    metrics = Run(tmp_path / "run", parse_config(SHORT), graph, resume=True).train(callbacks=[make_tracker("mlflow")])
    (finished,) = client.search_runs([experiment])
    assert finished.info.status == "FINISHED"
    assert finished.data.params["train.epochs"] == "2"
    assert finished.data.metrics["result_val_score"] == pytest.approx(metrics["val_score"])
    history = client.get_metric_history(finished.info.run_id, "train_score")
    assert {point.step for point in history} == {0, 1, 2, 3, 4}


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_a_store_of_its_own_that_is_found_again(graph: Graph, tmp_path: Path, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    (here / "mlruns").mkdir()  # with which MLflow itself would choose its file store, and refuse it
    monkeypatch.chdir(here)
    with pytest.raises(KeyboardInterrupt):
        trackers = [make_tracker("mlflow"), Recorder(stop_after=2)]
        Run(tmp_path / "run", parse_config(SHORT), graph).train(callbacks=trackers)
    assert trackers[0].look == f"view with: mlflow ui --backend-store-uri sqlite:///{here / 'mlflow.db'}"
    monkeypatch.chdir(elsewhere)
    Run(tmp_path / "run", parse_config(SHORT), graph, resume=True).train(callbacks=[make_tracker("mlflow")])
    assert list(elsewhere.iterdir()) == []
    client = mlflow.MlflowClient(f"sqlite:///{here / 'mlflow.db'}")
    (finished,) = client.search_runs([client.get_experiment_by_name("small").experiment_id])
    assert finished.info.status == "FINISHED"


def test_an_unknown_tracker_is_refused_before_training(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "csbm", "--track", "tensorbord"]) == 2
    assert "there is no tracker 'tensorbord': did you mean 'tensorboard'?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_that_is_not_installed_is_one_line(monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(GsscError, match=r"mlflow is not installed: pip install 'gssc\[mlflow\]'"):
        make_tracker("mlflow")
