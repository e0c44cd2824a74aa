"""Distillation: the student learns the teacher's answers, and both see only what training may see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gssc.config import SparsifierConfig
from gssc.graph import Graph
from gssc.models.base import Recipe
from gssc.train import supervised
from gssc.train.distill import fit_model, settings_of
from gssc.train.outcome import Outcome

QUICK = Recipe(model={"hidden": 16, "dropout": 0.0}, epochs=60, patience=60, weight_decay=0.0, normalize="none")


def ring(setting: str = "transductive") -> Graph:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    features = rng.standard_normal((40, 4)) + 4 * labels[:, None]
    edges = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    order = rng.permutation(40)
    return Graph(features, edges, labels, order[:8], order[8:20], order[20:], setting=setting, name="ring")


def answering(logits: Any, seen: list[Graph]) -> Any:
    """A stand-in for the teacher's training."""

    def teach(name: str, graph: Graph, sparsifier: SparsifierConfig | None, seed: int, max_epochs: int) -> Outcome:
        seen.append(graph)
        return Outcome(logits(graph), 0.5, 0.5, 100.0, 7, edges_kept=3, edges_total=5)

    return teach


def test_the_student_says_what_the_teacher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ring()

    def wrong(view: Graph) -> np.ndarray:
        return 8 * np.eye(2, dtype=np.float32)[1 - view.labels]

    monkeypatch.setattr(supervised, "fit_model", answering(wrong, []))
    outcome = fit_model("glnn", graph.with_(val=None), recipe=QUICK)
    assert outcome.test_accuracy < 0.2  # the teacher is wrong everywhere, and labels have no say
    assert outcome.seconds > 100
    assert (outcome.edges_kept, outcome.edges_total) == (3, 5)


def test_labels_have_a_say_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(view: Graph) -> np.ndarray:
        return np.zeros((view.num_nodes, 2), dtype=np.float32)

    monkeypatch.setattr(supervised, "fit_model", answering(nothing, []))
    recipe = Recipe(**{**vars(QUICK), "model": {**QUICK.model, "label_weight": 0.9}})
    assert fit_model("glnn", ring(), recipe=recipe).test_accuracy > 0.8


def test_the_teacher_never_meets_a_test_node_when_inductive(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[Graph] = []
    graph = ring("inductive")

    def right(view: Graph) -> np.ndarray:
        return 8 * np.eye(2, dtype=np.float32)[view.labels]

    monkeypatch.setattr(supervised, "fit_model", answering(right, met))
    outcome = fit_model("glnn", graph, recipe=QUICK)
    assert met[0].num_nodes == graph.num_nodes - len(graph.test)
    assert outcome.scores.shape == (40, 2)
    assert outcome.test_accuracy > 0.8


@pytest.mark.parametrize("setting", ["transductive", "cold-start"])
def test_with_a_real_teacher(setting: str) -> None:
    outcome = fit_model("glnn", ring(setting), recipe=QUICK)
    assert outcome.test_accuracy > 0.8
    again = fit_model("glnn", ring(setting), recipe=QUICK)
    np.testing.assert_array_equal(outcome.scores, again.scores)


def test_settings_hold_those_of_the_teacher() -> None:
    settings = settings_of("glnn", "cora", "public", SparsifierConfig(name="none"), 0)
    teacher = supervised.settings_of("sage", "cora", "public", SparsifierConfig(name="none"), 0)
    assert settings["teacher"] == teacher["recipe"]
    assert settings["recipe"] != teacher["recipe"]
