"""Which students a round has: all kinds first, then the best; more steps where they cannot follow their teacher."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn.ensemble
import torch

from gssc.data import load_dataset
from gssc.learner import trees
from gssc.learner.faculty import Faculty
from gssc.learner.jury import Jury, known_labels
from gssc.learner.learner import LearnerTraining
from gssc.learner.pool import Pool
from gssc.learner.rounds import Rounds
from gssc.learner.settings import Config
from gssc.learner.student import UNREGULARISED, labels_only_mlp
from gssc.learner.trees import FEWEST_TREES, TREES, kernel_teachers, tree_teachers


def learner(steps: int, signal: float, setting: str = "transductive") -> LearnerTraining:
    """A learner of linear teachers and short students on a graph whose edges tell the classes."""
    config = Config()
    config.teachers.trees, config.teachers.pairs = False, "never"
    config.model.hidden, config.model.steps = 64, steps
    return LearnerTraining(load_dataset("csbm", nodes=600, signal=signal, setting=setting), config)


def phases(training: LearnerTraining) -> list[str]:
    found = [record.phase for record in training.epochs()]
    return list(dict.fromkeys(phase for phase in found if phase.startswith("student")))


def test_students_that_cannot_follow_their_teacher_take_more_steps() -> None:
    training = learner(steps=10, signal=0.3)
    students = phases(training)
    assert students[:2] == ["student 1, unregularised", "student 2, unregularised"]
    assert training.rounds.schedules == len(students) >= 3
    kept = training.best.record
    assert kept is not None
    assert "student 1" not in kept.phase
    assert kept.val_score > 0.8  # rows alone: about 0.3


def test_a_student_that_continues_begins_at_the_weights_of_the_kept_one() -> None:
    training = learner(steps=20, signal=0.3)
    records = training.epochs()
    next(record for record in records if record.phase.startswith("student 1") and record.best)
    kept = {name: value.clone() for name, value in training.best.weights["model"].items()}
    assert training.rounds.continues
    settings = replace(training.students.settings[UNREGULARISED], lr=0.0)
    training.students.settings[UNREGULARISED] = settings  # nothing is learned, so that the weights stay what they were
    next(record for record in records if record.phase.startswith("student 2"))
    assert training.student is not None
    found = dict(training.student.model.named_parameters())
    assert all(torch.equal(value, kept[name]) for name, value in found.items())


@pytest.mark.parametrize("at", ["student 1", "student 2"])
def test_a_run_resumes_in_any_round_of_a_student_that_continues(at: str) -> None:
    undisturbed, stopped, resumed = (learner(steps=20, signal=0.3) for _ in range(3))
    for _ in undisturbed.epochs():
        pass
    next(record for record in stopped.epochs() if record.phase.startswith(at))
    resumed.load_state_dict(stopped.state_dict())
    for _ in resumed.epochs():
        pass
    assert undisturbed.rounds.schedules == resumed.rounds.schedules >= 2
    assert np.array_equal(undisturbed.outcome().scores, resumed.outcome().scores)


def test_the_round_and_the_teacher_of_the_kept_student_are_remembered() -> None:
    training = learner(steps=10, signal=2.0, setting="cold-start")
    next(record for record in training.epochs() if record.phase.startswith("student 1"))
    rounds, teacher = training.rounds, training.rounds.choose_teacher()
    rounds.number, rounds.position = 1, 0
    rounds.student_ended(teacher, kept=True)
    assert rounds.best_number == 1
    assert rounds.best_teacher is teacher


def test_rounds_end_when_continuing_does_not_improve_the_student() -> None:
    training = learner(steps=10, signal=0.3)
    next(record for record in training.epochs() if record.phase.startswith("student 1"))
    rounds, wrong = training.rounds, np.roll(training.rounds.choose_teacher(), 1, axis=1)
    assert rounds.continues
    assert not rounds.are_over
    rounds.student_ended(wrong, kept=False)
    assert rounds.are_over


def test_students_take_no_more_steps_than_the_limit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssc.learner.students.VISITS", 0)
    monkeypatch.setattr("gssc.learner.students.VISITS_PER_EDGE", 0)
    training = learner(steps=10, signal=0.3)
    students = phases(training)
    assert training.rounds.schedules == 1
    assert len(students) <= 1 + 2 * 2  # in the first round the close one alone: the others would be behind as well
    assert students[:2] != ["student 1, unregularised", "student 1, plain"]
    note = training.note()
    assert note is not None
    assert "rows alone tell too little" in note


@pytest.mark.parametrize("memorizes", [True, False])
def test_a_kind_that_cannot_follow_ends_its_round(memorizes: bool) -> None:
    training = learner(steps=10, signal=2.0)
    next(record for record in training.epochs() if record.phase.startswith("student"))
    kinds = [UNREGULARISED, "plain", "batch norm"]
    rounds = Rounds(training.pool, most=3, best=5, kinds=kinds, seen_rows=memorizes, most_schedules=4)
    teacher = rounds.choose_teacher()
    rounds.student_ended(teacher, kept=True)
    assert (rounds.number, rounds.position) == (0, 1)
    rounds.student_ended(np.roll(teacher, 1, axis=1), kept=False)  # always wrong
    assert (rounds.number, rounds.position) == ((0, 2) if not memorizes else (rounds.number, 0))
    assert (rounds.number > 0) is memorizes
    assert rounds.best_kind == UNREGULARISED


@pytest.mark.parametrize(
    ("setting", "validation", "refused"),
    [("transductive", False, True), ("transductive", True, False), ("cold-start", False, False)],
)
def test_without_validation_labels_a_student_must_follow_its_teacher_on_seen_rows(
    setting: str, validation: bool, refused: bool
) -> None:
    graph = load_dataset("csbm", nodes=300, signal=1.0, setting=setting)
    graph = graph if validation else graph.with_(val=np.empty(0, dtype=np.int64))
    config = Config()
    config.teachers.trees, config.teachers.pairs = False, "never"
    config.model.hidden, config.model.steps = 16, 20
    training = LearnerTraining(graph, config)
    next(record for record in training.epochs() if record.phase.startswith("student"))
    teacher = training.rounds.choose_teacher()
    other, little = np.roll(teacher, 1, axis=1), len(teacher) // 20
    assert not training.rounds.cannot_follow(UNREGULARISED, teacher)
    assert training.rounds.cannot_follow("plain", other) is refused
    assert not training.rounds.cannot_follow("plain", np.concatenate([other[:little], teacher[little:]]))


def test_students_of_informative_rows_need_no_note() -> None:
    training = learner(steps=100, signal=2.0)
    phases(training)
    assert training.note() is None


def test_unseen_rows_never_take_more_steps() -> None:
    training = learner(steps=10, signal=0.3, setting="cold-start")
    phases(training)
    assert training.rounds.schedules == 1


def test_rounds_end_where_the_next_teacher_has_hardly_more_to_teach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssc.learner.rounds.LEAST_GAIN", 1000.0)
    assert {phase[:9] for phase in phases(learner(steps=100, signal=2.0))} == {"student 1"}
    monkeypatch.setattr("gssc.learner.rounds.LEAST_GAIN", -1000.0)
    students = phases(learner(steps=100, signal=2.0))
    assert {phase[:9] for phase in students} == {"student 1", "student 2", "student 3"}
    assert len([phase for phase in students if phase.startswith("student 3")]) <= 2


@pytest.mark.parametrize(("score", "asked"), [(1.0, False), (0.3, True)])
def test_no_further_trees_are_grown_where_a_small_forest_is_far_behind(score: float, asked: bool) -> None:
    """The best opinion so far is right on a share of the validation nodes; forests have about 0.3."""
    graph = load_dataset("csbm", nodes=600, signal=0.3, per_class=30)
    jury = Jury(known_labels(graph), graph.train, graph.val, graph.num_classes)
    pool = Pool(jury, graph.edges, np.ones(graph.num_edges), graph.num_nodes)
    right = np.random.default_rng(0).random(graph.num_nodes) < score
    pool.add("known", (np.eye(graph.num_classes)[np.where(right, graph.labels, (graph.labels + 1) % 5)],))
    faculty = Faculty(graph, pool.keep, pool, "none", seed=0)
    for _ in faculty.trees(graph.features):
        pass
    for kind in ("forest", "boosted trees"):
        assert any(name.startswith(kind) for name in faculty.fitted) is asked
    assert {"small forest on rows", "small forest on rows and structure"} <= set(faculty.fitted)


def test_the_work_of_trees_is_bounded() -> None:
    few, many = tree_teachers(5, 500, 10_000, seed=0), tree_teachers(40, 20_000, 170_000, seed=0)
    assert "boosted trees" in few
    assert "boosted trees" not in many
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(60, 3)).astype(np.float32), np.arange(60) % 3
    grown = []
    with pytest.MonkeyPatch.context() as patch:
        forest = sklearn.ensemble.RandomForestClassifier
        patch.setattr(sklearn.ensemble, "RandomForestClassifier", lambda n, **kw: grown.append(n) or forest(n, **kw))
        for teachers in (tree_teachers(3, 60, 60, seed=0), tree_teachers(40, 20_000, 60, seed=0)):
            opinion = teachers["forest"](rows, np.arange(60), labels, None)
            assert np.allclose(opinion.sum(axis=1), 1)
    assert grown == [TREES, FEWEST_TREES]


def test_kernels_are_fitted_to_a_sample_of_many_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssc.learner.trees.KERNEL_LABELS", 50)
    seen = []
    whole = trees.logistic_regression
    monkeypatch.setattr(
        trees, "logistic_regression", lambda x, train, *rest: seen.append(len(train)) or whole(x, train, *rest)
    )
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 2)).astype(np.float32)
    labels = (rows[:, 0] > 0).astype(np.int64)
    fit = kernel_teachers(2, seed=0)["kernel regression, C=10, scale 1"]
    opinion = fit(rows, np.arange(150), labels[:150], np.ones(150))
    assert seen == [50]
    assert (opinion.argmax(axis=1) == labels)[150:].mean() > 0.8


def test_many_validation_labels_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssc.learner.jury.MOST_JUDGING", 100)
    graph = load_dataset("csbm", nodes=1000, seed=0)
    graph = graph.with_(train=np.arange(1, 900, 3), val=np.arange(0, 900, 3), test=None)
    first, again = (Jury.of(graph, None, None, seed=0).judges[0] for _ in range(2))
    assert len(np.unique(first)) == 100
    assert np.isin(first, graph.val).all()
    assert (first == again).all()


def test_with_many_labels_an_mlp_on_rows_is_a_teacher() -> None:
    """Classes that no linear model on rows can tell: opposite corners of a square."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (2500, 2)).astype(np.float32)
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(np.int64)
    nodes = rng.permutation(2500)
    fit = labels_only_mlp(2, seed=0)
    opinion = fit(rows, nodes[:1200], labels[nodes[:1200]], None)
    assert (opinion.argmax(axis=1) == labels)[nodes[1200:]].mean() > 0.9
    weighted = fit(rows, nodes[:1200], labels[nodes[:1200]], np.where(labels[nodes[:1200]] == 1, 100.0, 1.0))
    assert weighted[:, 1].mean() > opinion[:, 1].mean() + 0.05  # of weighty rows more are expected


def test_the_mlp_beside_the_kernels_weighs_rows_by_more_than_their_order() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    rows = (rng.standard_normal((200, 2)) + labels[:, None]).astype(np.float32)
    fit = kernel_teachers(2, seed=0)["scikit-learn MLP"]
    weight = np.where(labels == 1, 20.0, 1.0)
    weight[0] = 1e-6  # one row that hardly counts makes the others no more alike
    even, weighted = (fit(rows, np.arange(200), labels, given)[:, 1].mean() for given in (None, weight))
    assert weighted > even + 0.1
