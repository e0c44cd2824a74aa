"""Naive Bayes on soft labels, by hand and against refits, and students that are averaged with it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import log_softmax, softmax

from gssc.deploy import DeployedModel
from gssc.graph import Graph
from gssc.learner.learner import LearnerTraining
from gssc.learner.multinomial import MOST_NUMBERS, SMOOTHING, are_counts, held_out_logits, naive_bayes
from gssc.learner.settings import Config
from gssc.learner.student import StudentTraining, student_variants
from gssc.models.settings import GsscSettings
from gssc.models.student import LinearMap, Student, StudentSettings, all_logits, sum_with_linear

LINEAR = "network_share", "linear_weight", "linear_bias"  # what a student without linear models does not have
COUNTS = sp.csr_matrix(np.array([[2, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 3]], dtype=np.float32))
SOFT = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.0, 1.0]])


def texts(nodes: int = 300, words: int = 150, classes: int = 3, length: int = 8, seed: int = 0) -> Graph:
    """A graph whose rows are bags of words: each class draws half of its words from its own third of them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, nodes)
    own = labels[:, None] * (words // classes) + rng.integers(0, words // classes, (nodes, length))
    drawn = np.where(rng.random((nodes, length)) < 0.5, own, rng.integers(0, words, (nodes, length)))
    rows = sp.csr_matrix((np.ones(drawn.size), (np.repeat(np.arange(nodes), length), drawn.ravel())), (nodes, words))
    edges = rng.integers(0, nodes, (2, 4 * nodes))
    edges = edges[:, (labels[edges[0]] == labels[edges[1]]) & (edges[0] != edges[1])]
    parts = np.split(rng.permutation(nodes), [30, 130])
    return Graph(rows.astype(np.float32), edges, labels, train=parts[0], val=parts[1], test=parts[2])


def test_weights_are_logs_of_smoothed_shares_of_words() -> None:
    fitted = naive_bayes(COUNTS, SOFT)
    assert fitted is not None
    scale = 6 / 9  # values of all rows / their sum, so that a row sums to its number of values on average
    by_class = scale * np.array(
        [[2 * 0.9 + 0.5, 2 * 0.1 + 0.5], [0.2 + 0.5, 0.8 + 0.5], [0.9 + 3 * 0.0, 0.1 + 3 * 1.0]]
    ) + np.float64(SMOOTHING)
    logs = scale * np.log(by_class / by_class.sum(axis=0))
    expected = logs - logs.mean(axis=1, keepdims=True)
    ratio = fitted.weights / expected  # one over the temperature
    assert ratio.min() > 0
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-5)


def test_held_out_probabilities_are_those_of_models_fitted_without_the_row() -> None:
    counts = sp.random(30, 12, 0.4, format="csr", random_state=0)
    soft = softmax(np.random.default_rng(1).normal(size=(30, 3)), axis=1)
    found = held_out_logits(counts, soft, counts.T @ soft + SMOOTHING)
    for row in range(30):
        others = np.arange(30) != row
        by_class = counts[others].T @ soft[others] + SMOOTHING
        logits = counts[[row]] @ (np.log(by_class) - np.log(by_class.sum(axis=0)))
        np.testing.assert_allclose(found[row], log_softmax(logits, axis=1)[0], rtol=1e-9)


def test_the_rows_of_a_block_do_not_change_the_result(monkeypatch) -> None:
    by_class = COUNTS.T @ SOFT + SMOOTHING
    whole = held_out_logits(COUNTS, SOFT, by_class)
    monkeypatch.setattr("gssc.learner.multinomial.NUMBERS", 1)
    np.testing.assert_array_equal(held_out_logits(COUNTS, SOFT, by_class), whole)


def test_words_that_always_occur_together_do_not_make_it_surer() -> None:
    graph = texts()
    soft = np.eye(3)[graph.labels] * 0.8 + 0.2 / 3
    once = naive_bayes(graph.features, soft)
    thrice = naive_bayes(sp.hstack([graph.features] * 3).tocsr(), soft)
    assert once is not None
    assert thrice is not None
    agree = once.held_out.argmax(axis=1) == thrice.held_out.argmax(axis=1)
    assert agree.mean() > 0.97
    assert np.abs(once.held_out - thrice.held_out).mean() < 0.02
    assert (once.held_out.argmax(axis=1) == graph.labels).mean() > 0.7  # chance: a third


def test_rows_that_are_no_counts_have_no_model(monkeypatch) -> None:
    assert naive_bayes(sp.csr_matrix([[1.0, -1.0]]), np.ones((1, 2))) is None
    assert naive_bayes(np.zeros((3, 2)), np.ones((3, 2))) is None
    monkeypatch.setattr("gssc.learner.multinomial.MOST_NUMBERS", 2 * COUNTS.nnz - 1)
    assert naive_bayes(COUNTS, SOFT) is None
    assert 2 * COUNTS.nnz < MOST_NUMBERS


def test_bags_of_words_are_counts_and_measurements_are_not() -> None:
    assert are_counts(texts().features)
    assert are_counts(texts().features.toarray())
    assert not are_counts(texts(words=90).features)  # few columns
    assert not are_counts(np.random.default_rng(0).random((50, 200), dtype=np.float32))  # no zeros
    assert not are_counts(-texts().features)


@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("beside", [1, 2])
def test_the_deployed_layers_are_the_mean_of_network_and_linear_maps(layers: int, beside: int) -> None:
    torch.manual_seed(layers)
    settings = StudentSettings(hidden=5, layers=layers, batch_norm=layers == 1, beside=("naive Bayes", "ridge"))
    student = Student(7, 3, settings, input_scale=2.0)
    rng = np.random.default_rng(0)
    maps = [LinearMap(*(rng.normal(size=size).astype(np.float32) for size in ((7, 3), 3))) for _ in range(beside)]
    student.average_with(maps)
    rows = torch.randn(9, 7)
    student.train()(rows)  # moves the statistics of batch norm
    plain = Student(7, 3, StudentSettings(**{**vars(settings), "beside": ()}), input_scale=2.0)
    plain.load_state_dict({name: value for name, value in student.state_dict().items() if name not in LINEAR})
    linear = sum(rows @ torch.from_numpy(one.weights) + torch.from_numpy(one.bias) for one in maps)
    expected = (plain.eval()(rows) + linear) / (1 + beside)
    torch.testing.assert_close(student.eval()(rows), expected)
    deployed = DeployedModel(student.folded_layers(), ["a", "b", "c"], activation="leaky_relu")
    np.testing.assert_allclose(deployed.logits(rows.numpy()), expected.detach().numpy(), atol=1e-5)
    assert len(sum_with_linear(plain.folded_layers(), np.zeros((3, 7), np.float32))) == layers + 1


def test_a_student_without_a_network_is_the_mean_of_linear_maps() -> None:
    student = Student(2, 2, StudentSettings(layers=0, batch_norm=False, steps=0, beside=("ridge",)))
    student.average_with([LinearMap(np.eye(2, dtype=np.float32), np.array([1.0, 0.0], np.float32))])
    rows = torch.tensor([[3.0, 5.0]])
    torch.testing.assert_close(student.eval()(rows), torch.tensor([[4.0, 5.0]]))
    ((weight, bias),) = student.folded_layers()
    np.testing.assert_allclose(rows.numpy() @ weight.T + bias, [[4.0, 5.0]])


def test_a_linear_model_that_cannot_be_fitted_does_not_halve_the_logits() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)  # no counts
    soft = np.eye(3, dtype=np.float32)[np.arange(30) % 3]
    settings = StudentSettings(hidden=4, steps=5)
    alone = StudentTraining(rows, soft, np.arange(30), settings, 0)
    beside = StudentTraining(rows, soft, np.arange(30), StudentSettings(hidden=4, steps=5, beside=("naive Bayes",)), 0)
    for training in (alone, beside):
        list(training.run())
    np.testing.assert_array_equal(all_logits(alone.model, rows), all_logits(beside.model, rows))


def test_training_leaves_the_linear_map_as_naive_bayes_fitted_it() -> None:
    graph = texts()
    soft = np.eye(3, dtype=np.float32)[graph.labels]
    nodes = np.arange(200)
    training = StudentTraining(graph.features, soft, nodes, StudentSettings(steps=20, beside=("naive Bayes",)), 0)
    list(training.run())
    fitted = naive_bayes(graph.features[nodes], soft[nodes])
    assert fitted is not None
    np.testing.assert_array_equal(2 * training.model.linear_weight.numpy(), fitted.weights)
    unseen = all_logits(training.model, graph.features[200:]).argmax(axis=1)
    assert (unseen == graph.labels[200:]).mean() > 0.7


def test_students_of_counts_that_are_judged_on_unseen_rows_are_averaged_with_naive_bayes() -> None:
    kinds = student_variants(GsscSettings(), 1000, 500, judged=True, counts=True)
    assert list(kinds) == ["few inputs dropped", "inputs dropped"]
    assert all(settings.beside == ("naive Bayes", "ridge") for settings in kinds.values())
    for judged, counts in ((True, False), (False, True)):
        others = student_variants(GsscSettings(), 1000, 500, judged=judged, counts=counts)
        assert not any("naive Bayes" in settings.beside for settings in others.values())


def test_without_validation_labels_seen_rows_keep_the_unregularised_student_and_unseen_ones_do_not() -> None:
    for setting, close in (("transductive", True), ("cold-start", False)):
        graph = texts().with_(val=np.empty(0, dtype=np.int64), setting=setting)
        kinds = LearnerTraining(graph, Config()).students.settings
        assert ("unregularised" in kinds) == close
        assert any("naive Bayes" in settings.beside for settings in kinds.values()) == (not close)


@pytest.mark.parametrize("setting", ["transductive", "cold-start"])
def test_the_learner_asks_naive_bayes_about_texts(setting: str) -> None:
    config = Config()
    config.teachers.trees, config.teachers.pairs = False, "never"
    config.model.hidden, config.model.steps = 32, 100
    graph = texts().with_(setting=setting)
    training = LearnerTraining(graph, config)
    list(training.epochs())
    assert "naive Bayes 1" in training.pool.scores
    scores = training.outcome().scores
    deployed = training.deployed()
    np.testing.assert_allclose(deployed.logits(graph.features), scores, atol=1e-4)
    assert (scores.argmax(axis=1) == graph.labels)[graph.test].mean() > 0.8


@pytest.mark.parametrize("shuffled", [False, True])
def test_without_validation_labels_it_is_judged_by_labels_that_its_teacher_did_not_see(shuffled: bool) -> None:
    graph = texts().with_(val=np.empty(0, dtype=np.int64))
    if shuffled:
        labels = graph.labels.copy()
        labels[graph.train] = np.random.default_rng(0).permutation(labels[graph.train])
        graph = graph.with_(labels=labels)
    config = Config()
    config.teachers.trees = False
    training = LearnerTraining(graph, config)
    list(training.ask_teachers())
    score = training.pool.scores["naive Bayes 1"]
    assert score < 0.6 if shuffled else score > 0.75, score  # a third of the labels is right by chance
