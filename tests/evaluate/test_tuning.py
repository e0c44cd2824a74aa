from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from gssc.config import parse_config
from gssc.data import load_dataset
from gssc.errors import GsscError
from gssc.evaluate import tuning as module
from gssc.evaluate.search_space import parse_dimension
from gssc.evaluate.tuning import RECIPE, Tuning, open_study, progress_of, run_trial, tune, write_recipe

pytest.importorskip("optuna", reason="needs the extra tune")
SHORT = {
    "model": {"name": "str_contrast"},
    "train": {"epochs": 2, "warmup_epochs": 2, "max_batches": 2},
    "consolidate": {"epochs": 2},
}
SEARCH = ("model.hidden=8,16", "train.lr=1e-3..1e-1:log")


@pytest.fixture
def graph():
    return load_dataset("csbm", nodes=60, degree=4, classes=3, per_class=5)


def tuning_of(folder: Path, graph, **changes) -> Tuning:
    folder.mkdir(exist_ok=True)
    graph.save(folder / "graph.npz")
    base = parse_config(SHORT, {"data": {"graph": str(folder / "graph.npz")}})
    space = tuple(parse_dimension(text, base) for text in SEARCH)
    return Tuning(**{"folder": str(folder / "tune"), "settings": base.to_dict(), "space": space} | changes)


def with_other_test_labels(graph):
    labels = graph.labels.copy()
    labels[graph.test] = (labels[graph.test] + 1) % graph.num_classes
    return graph.with_(labels=labels)


def test_no_test_label_is_there_when_a_trial_trains(tmp_path, graph, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "reported_fit", lambda graph, config, *rest: seen.append(graph) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_trial(tuning_of(tmp_path, graph))
    (given,) = seen
    assert (given.labels[given.test] == -1).all()
    assert len(given.test) == len(graph.test) > 0
    assert given.labels[given.train].tolist() == graph.labels[graph.train].tolist()


def test_the_search_is_the_same_whatever_the_test_labels_are(tmp_path, graph):
    found = []
    for name, each in (("a", graph), ("b", with_other_test_labels(graph))):
        tuning = tuning_of(tmp_path / name, each)
        for _ in range(2):
            run_trial(tuning)
        found.append([(trial.params, trial.value) for trial in open_study(tuning).trials])
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_a_graph_that_kept_its_test_labels_would_be_noticed(graph):
    with pytest.raises(AssertionError, match="a test label reached the search"):
        module.val_score(graph, parse_config(SHORT), lambda record: None)


class FakeResult:
    test_score = float("nan")

    def __init__(self, val_score: float):
        self.val_score = val_score


def fake_fit(graph, config, on_epoch, part, parts):
    """Best at a learning rate of 0.01; seeds differ; one epoch is reported."""
    score = 1 - abs(np.log10(config.train.lr) + 2) / 10 + (config.train.seed - 100) / 1000

    class Record:
        epoch, val_score = 0, score

    on_epoch(Record)
    return FakeResult(score)


def test_the_value_is_the_mean_over_seeds_and_the_winner_becomes_a_recipe(tmp_path, graph, monkeypatch):
    monkeypatch.setattr(module, "reported_fit", fake_fit)
    tuning = tuning_of(tmp_path, graph, seeds=2)
    for _ in range(4):
        run_trial(tuning)
    study = open_study(tuning)
    write_recipe(study, tuning)
    best = study.best_trial
    by_hand = 1 - abs(np.log10(best.params["train.lr"]) + 2) / 10 + 0.0005
    assert best.value == pytest.approx(by_hand)
    text = (Path(tuning.folder) / RECIPE).read_text()
    assert "mean of seeds 100 to 101. No test label took part" in text
    written = yaml.safe_load(text)
    assert written["train"]["lr"] == best.params["train.lr"]
    assert written["train"]["epochs"] == 2
    assert "data" not in written
    assert "seed" not in written["train"]
    parse_config(written)


def test_a_trial_that_falls_behind_is_pruned_and_one_that_diverges_too(tmp_path, graph, monkeypatch):
    tuning = tuning_of(tmp_path, graph)
    monkeypatch.setattr(module, "reported_fit", fake_fit)
    for _ in range(module.STARTUP_TRIALS):
        assert run_trial(tuning)["state"] == "COMPLETE"

    def hopeless(graph, config, on_epoch, part, parts):
        for epoch in range(3):
            on_epoch(type("Record", (), {"epoch": epoch, "val_score": 0.01}))
        raise AssertionError("it should have been stopped")

    def diverges(graph, config, on_epoch, part, parts):
        raise GsscError("the loss is NaN")

    monkeypatch.setattr(module, "reported_fit", hopeless)
    assert run_trial(tuning)["state"] == "PRUNED"
    monkeypatch.setattr(module, "reported_fit", diverges)
    assert run_trial(tuning)["state"] == "PRUNED"
    study = open_study(tuning)
    assert study.trials[-1].user_attrs["error"] == "the loss is NaN"
    progress = progress_of(study, tuning.token)
    assert (progress.finished, progress.pruned) == (module.STARTUP_TRIALS + 2, 2)


def test_another_search_in_the_folder_is_refused(tmp_path, graph):
    tuning = tuning_of(tmp_path, graph)
    open_study(tuning)
    with pytest.raises(GsscError, match="another number of --seeds; choose another"):
        open_study(tuning_of(tmp_path, graph, seeds=3))
    (Path(tuning.folder) / module.STUDY).write_bytes(b"not a database" * 100)
    with pytest.raises(GsscError, match="cannot use the study"):
        open_study(tuning)


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_a_trial_that_ends_while_others_look_counts_once(tmp_path, graph, monkeypatch):
    tuning = tuning_of(tmp_path, graph)
    study = open_study(tuning)
    trial = study.ask()
    trial.set_user_attr("process", "a process that is gone")
    listed = study.get_trials(deepcopy=True)
    study.tell(trial, 0.5)
    monkeypatch.setattr(module, "is_gone", lambda process: True)
    found, ask = iter([listed]), study.get_trials
    monkeypatch.setattr(study, "get_trials", lambda **which: next(found, None) or ask(**which))
    assert progress_of(study, tuning.token) == module.Progress(1, 0, 0, 0.5)
    assert len(study.trials) == 1


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_a_trial_whose_process_was_killed_before_it_was_noted_is_run_again(tmp_path, graph, monkeypatch):
    tuning = tuning_of(tmp_path, graph)
    study = open_study(tuning)
    study.ask()
    assert progress_of(study, tuning.token).running_elsewhere == 1
    monkeypatch.setattr(module, "SILENCE_SECONDS", -1)  # as if that time had passed
    assert progress_of(study, tuning.token).running_elsewhere == 0
    assert [trial.state.name for trial in study.trials] == ["FAIL", "WAITING"]


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_a_trial_of_a_machine_that_died_is_run_again_with_the_same_settings(tmp_path, graph):
    tuning = tuning_of(tmp_path, graph)
    study = open_study(tuning)
    trial = study.ask()
    width = trial.suggest_categorical("model.hidden", [8, 16])
    trial.set_user_attr("process", "another-machine 1 2 3")
    study._storage.record_heartbeat(trial._trial_id)
    assert progress_of(study, tuning.token).running_elsewhere == 1
    with sqlite3.connect(Path(tuning.folder) / module.STUDY) as database:
        database.execute("UPDATE trial_heartbeats SET heartbeat = datetime('now', '-2 minutes')")
    assert progress_of(study, tuning.token).running_elsewhere == 0
    assert [trial.state.name for trial in study.trials] == ["FAIL", "WAITING"]
    assert study.trials[1].system_attrs["fixed_params"] == {"model.hidden": width}


def test_nothing_to_choose_by(tmp_path, graph):
    module._blind_graph.cache_clear()
    with pytest.raises(GsscError, match="no validation nodes"):
        tune(tuning_of(tmp_path, graph.with_(val=None)), trials=1)


@pytest.mark.slow
def test_two_processes_share_a_study_and_a_killed_one_loses_nothing(tmp_path, graph):
    graph.save(tmp_path / "graph.npz")
    command = [sys.executable, "-m", "gssc", "tune", "--graph", "graph.npz", "--trials", "5", "--out", "tune"]
    command += ["--model", "str_contrast"]
    command += ["--search", SEARCH[0], "--search", SEARCH[1], "--train.epochs", "2", "--train.warmup_epochs", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": tmp_path}
    # The first is killed with all its workers as soon as a trial of its runs.
    killed = subprocess.Popen(command, **pipes, start_new_session=True)
    assert any("1 of 5 trials" in line for line in iter(killed.stdout.readline, ""))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    outputs = [process.communicate(timeout=280)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    study = module._quiet
    with study() as optuna:
        trials = optuna.load_study(
            study_name=module.STUDY_NAME, storage=f"sqlite:///{tmp_path}/tune/study.sqlite"
        ).trials
    states = [trial.state.name for trial in trials]
    finished = states.count("COMPLETE") + states.count("PRUNED")
    assert 5 <= finished <= 6, "two processes that count at the same moment may begin one too many"
    assert "RUNNING" not in states
    assert all("recipe written to" in output for output in outputs)
