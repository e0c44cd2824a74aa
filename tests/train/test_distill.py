"""Distillation: the student learns what the teacher predicts, and the teacher sees only what training may see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gssc.config import parse_config
from gssc.graph import Graph
from gssc.recipes import config_for
from gssc.result import Result, fit, make_training
from gssc.train.supervised import SupervisedTraining
from gssc.train.training import Epoch, Outcome, Training

QUICK = {
    "model": {"name": "glnn", "hidden": 16, "dropout": 0.0},
    "train": {"epochs": 60, "patience": 60, "weight_decay": 0.0, "normalize": "none"},
    "teacher": {"max_epochs": 60},
}


def ring(setting: str = "transductive") -> Graph:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    features = rng.standard_normal((40, 4)) + 4 * labels[:, None]
    edges = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    order = rng.permutation(40)
    return Graph(features, edges, labels, order[:8], order[8:20], order[20:], setting=setting, name="ring")


def fitted(graph: Graph, **model: Any) -> Result:
    return fit(graph, parse_config(QUICK, {"model": model}))


def pretend(monkeypatch: pytest.MonkeyPatch, logits: Any) -> list[Graph]:
    """Let the teacher predict these logits without training; returns the graphs it is given."""
    met: list[Graph] = []
    plain_epochs, plain_outcome = Training.epochs, SupervisedTraining.outcome

    def epochs(self: SupervisedTraining) -> Any:
        return iter(()) if self.name == "sage" else plain_epochs(self)

    def outcome(self: SupervisedTraining) -> Outcome:
        if self.name != "sage":
            return plain_outcome(self)
        met.append(self.graph)
        return Outcome(Epoch(0, "teacher"), logits(self.graph), 100.0, 7, edges_kept=3, edges_total=5)

    monkeypatch.setattr(SupervisedTraining, "epochs", epochs)
    monkeypatch.setattr(SupervisedTraining, "outcome", outcome)
    return met


def test_the_student_learns_what_the_teacher_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ring()
    pretend(monkeypatch, lambda view: 8 * np.eye(2, dtype=np.float32)[1 - view.labels])
    outcome = fitted(graph.with_(val=None)).outcome
    assert outcome.test_score < 0.2  # the teacher is wrong everywhere, and labels do not count
    assert outcome.seconds > 100
    assert (outcome.edges_kept, outcome.edges_total) == (3, 5)


def test_labels_count_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, lambda view: np.zeros((view.num_nodes, 2), dtype=np.float32))
    assert fitted(ring(), label_weight=0.9).test_score > 0.8


def test_the_teacher_never_meets_a_test_node_when_inductive(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ring("inductive")
    met = pretend(monkeypatch, lambda view: 8 * np.eye(2, dtype=np.float32)[view.labels])
    result = fitted(graph)
    assert met[0].num_nodes == graph.num_nodes - len(graph.test)
    assert result.scores.shape == (40, 2)
    assert result.test_score > 0.8


@pytest.mark.parametrize("setting", ["transductive", "cold-start"])
def test_with_a_real_teacher(setting: str) -> None:
    result = fitted(ring(setting))
    assert result.test_score > 0.8
    np.testing.assert_array_equal(result.scores, fitted(ring(setting)).scores)
    phases = [record.phase for record in result.history]
    assert phases == ["teacher"] * phases.count("teacher") + ["student"] * phases.count("student")
    assert [record.epoch for record in result.history] == list(range(len(phases)))
    assert result.history[result.best.epoch].val_score == result.best.val_score


def test_epochs_of_teacher_and_student_are_counted_together() -> None:
    """Progress bars, trackers and messages of a resumed run depend on the count."""
    config = parse_config(QUICK).shortened(3)
    training = make_training(ring(), config)
    ahead, states = [], []
    for number, _ in enumerate(training.epochs(), start=1):
        assert training.epoch == number
        ahead.append(tuple(training.epochs_ahead().values()))
        states.append(training.state_dict())
    assert ahead == [(2, 3), (1, 3), (0, 3), (0, 2), (0, 1), (0, 0)]
    for number, state in enumerate(states, start=1):
        resumed = make_training(ring(), config)
        resumed.load_state_dict(state)
        assert resumed.epoch == number
        assert len(list(resumed.epochs())) == 6 - number


def test_the_student_is_deployed_alone() -> None:
    graph = ring()
    result = fit(graph, parse_config(QUICK, {"model": {"layers": 2, "norm": "batch"}}))
    np.testing.assert_allclose(result.deployed().logits(graph.features), result.scores, atol=1e-4)


def test_the_teacher_has_the_settings_of_its_own_paper() -> None:
    from gssc.train.distill import teacher_config

    graph = replace(ring(), name="citeseer")
    config = config_for("glnn", "citeseer", "public", {"train": {"seed": 4}, "sparsifier": {"name": "drop_edge"}})
    teacher = teacher_config(graph, config)
    assert teacher.train == replace(config_for("sage", "citeseer", "public").train, seed=4)
    assert teacher.model.name == "sage"
    assert teacher.sparsifier.name == "drop_edge"
