"""How the students of a run are ranked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gssc.data.synthetic import csbm
from gssc.learner.best import BestStudent
from gssc.learner.jury import Jury
from gssc.learner.students import Students
from gssc.models.settings import GsscSettings


def students_without_validation_labels(features: int = 8) -> Students:
    graph = csbm(nodes=60, degree=4, features=features, seed=0)
    graph = graph.with_(val=np.empty(0, dtype=np.int64))
    jury = Jury(graph.labels, graph.train, graph.val, graph.num_classes)
    return Students(graph, jury, GsscSettings(), seed=0, unseen=True, normalize="auto")


def test_without_validation_labels_students_are_ranked_by_fidelity_at_their_best_temperature() -> None:
    students = students_without_validation_labels()
    classes = students.graph.num_classes
    logs = np.random.default_rng(0).normal(size=(60, classes))
    teacher = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    sure = np.exp(3 * logs) / np.exp(3 * logs).sum(axis=1, keepdims=True)  # right, but three times too sure
    unsure = np.full((60, classes), 1 / classes)
    held_out = teacher[students.held_out]
    entropy = float(-(held_out * np.log(held_out)).sum(axis=1).mean())
    assert len(held_out) == 6
    for opinion, fidelity in ((teacher, -entropy), (sure, -entropy), (unsure, -math.log(classes))):
        merit, error = students.judge("unregularised", opinion, teacher)
        assert merit == (pytest.approx(fidelity, abs=1e-4), 0)
        assert error == 0


def test_rows_that_students_were_trained_on_do_not_rank_them() -> None:
    students = students_without_validation_labels()
    classes = students.graph.num_classes
    teacher = np.eye(classes)[np.arange(60) % classes] * 0.8 + 0.2 / classes
    opinion = teacher.copy()
    opinion[students.taught] = 1 / classes
    assert students.judge("unregularised", opinion, teacher) == students.judge("unregularised", teacher, teacher)


def test_on_wide_unseen_rows_the_more_regularised_of_equal_students_is_kept() -> None:
    students = students_without_validation_labels(features=200)
    assert list(students.settings) == ["unregularised", "few inputs dropped", "inputs dropped and ridge", "ridge"]
    classes = students.graph.num_classes
    teacher = np.full((60, classes), 1 / classes)
    opinion = np.tile(np.eye(classes)[0] * 0.5 + 0.5 / classes, (60, 1))
    opinion[students.held_out[:3]] = 1 / classes  # right on three of six held-out rows
    (fidelity, place), error = students.judge("few inputs dropped", opinion, teacher)
    divergences = np.array([0, 0, 0, 1, 1, 1]) * (-math.log(classes) - fidelity) * 2
    assert place == 1
    assert error == pytest.approx(divergences.std() / math.sqrt(6), abs=1e-4)
    best = BestStudent()
    best.merit, best.top = (fidelity + 0.9 * error, 0), fidelity + 0.9 * error
    assert best.prefers((fidelity, place), error)
    best.merit, best.top = (fidelity + 1.1 * error, 0), fidelity + 1.1 * error
    assert not best.prefers((fidelity, place), error)
