"""Linear models of the ring: against scikit-learn, deployed, resumed, on unseen nodes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from gssc.config import parse_config
from gssc.data import load_dataset
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner import linear
from gssc.learner.closed_form import ClosedFormTraining
from gssc.learner.linear import (
    SHARPNESS,
    ShortRows,
    logistic_map,
    logistic_regression,
    neighbour_rows,
    ridge_map,
    span_of,
    spread_rows,
)
from gssc.recipes import config_for
from gssc.result import fit
from gssc.train.training import NeedsGraph

NAMES = ("linear_rows", "linear_spread", "linear_both", "ridge_student")


def trained(name: str, graph: Graph) -> ClosedFormTraining:
    training = ClosedFormTraining(graph, config_for(name, graph.name, graph.split, {}))
    for _ in training.epochs():
        pass
    return training


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load_dataset("csbm", nodes=300, seed=0, homophily=0.8, signal=1.0)


def test_the_map_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((60, 5)).astype(np.float32), rng.integers(0, 3, 60)
    weights, bias = logistic_map(rows, labels, 4, penalty=1.0)
    model = LogisticRegression(C=1.0, tol=1e-3).fit(rows, labels)
    assert np.allclose(weights[:, :3], model.coef_.T, atol=1e-4)
    assert np.isneginf(bias[3])  # a class without labels


def test_more_columns_than_rows_give_the_same_map():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((20, 50)).astype(np.float32), np.arange(20) % 2
    weights, bias = logistic_map(rows, labels, 2, penalty=1.0)
    model = LogisticRegression(C=1.0, tol=1e-3).fit(rows, labels)
    found, wanted = rows @ (weights[:, 1] - weights[:, 0]) + bias[1] - bias[0], model.decision_function(rows)
    assert np.allclose(found, wanted, atol=0.05)


def test_sparse_rows_give_the_same_map():
    rng = np.random.default_rng(0)
    rows = sp.random(60, 20, 0.2, format="csr", dtype=np.float32, random_state=0)
    labels = rng.integers(0, 3, 60)
    weights, bias = logistic_map(rows, labels, 4, penalty=1.0)
    wanted = logistic_map(rows.toarray(), labels, 4, penalty=1.0)
    np.testing.assert_allclose(rows @ weights + bias, rows @ wanted[0] + wanted[1], atol=1e-3)


def test_rare_words_are_left_to_regressions_on_all_columns(monkeypatch: pytest.MonkeyPatch):
    """Each text has five of the 600 words of its class, which are rare, and 18 of 300 common words on average."""
    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 2
    common = sp.csr_matrix(rng.random((1200, 300)) < 0.06, dtype=np.float32)
    rare = 2 * rng.integers(0, 600, 5 * 1200) + np.repeat(labels, 5)
    words = sp.csr_matrix((np.ones(6000, np.float32), (np.repeat(np.arange(1200), 5), rare)), shape=(1200, 1200))
    rows = sp.hstack([common, words]).tocsr()
    short = ShortRows(rows, labels=600)
    train, test = np.arange(600), np.arange(600, 1200)
    right = {}
    for name, inputs in {"short": short.unit(), "all": short.unit_of_all_columns(2)}.items():
        likely = logistic_regression(inputs, train, labels[train], 2, penalty=10.0)
        right[name] = (likely.argmax(axis=1)[test] == labels[test]).mean()
    assert right["all"] > right["short"] + 0.1
    assert ShortRows(rows, labels=100).unit_of_all_columns(2) is None  # all columns are in the short rows
    assert ShortRows(rows.toarray(), labels=600).unit_of_all_columns(2) is None
    monkeypatch.setattr(linear, "MOST_WEIGHTS", 2 * 1500 - 1)
    assert short.unit_of_all_columns(2) is None


def test_spread_and_neighbour_rows_by_hand():
    """Two nodes and an edge: the average over neighbours of one is the other."""
    rows, edges = np.eye(2, dtype=np.float32), np.array([[0], [1]])
    beside = neighbour_rows(rows, edges, np.ones(1, dtype=np.float32))
    assert np.allclose(beside[0], [1, 0, 0, 1, 1, 0])
    spread = spread_rows(rows, edges, np.ones(1, dtype=np.float32))
    assert np.allclose(np.linalg.norm(spread, axis=1), 1)
    assert spread[0, 0] > spread[0, 1] > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_they_learn(graph: Graph, name: str):
    assert trained(name, graph).outcome().test_score > 0.3  # chance is 0.2


def test_few_long_bags_of_words_are_more_than_the_largest_class():
    """Divided by their sums, rows of 600 words are short, and the penalty used to outweigh 40 labels."""
    rng = np.random.default_rng(0)
    labels = (np.arange(120) % 4 == 0).astype(np.int64)
    chances = np.full((2, 2000), 0.25)
    chances[0, :1000] += 0.18
    chances[1, 1000:] += 0.18
    words = sp.csr_matrix((rng.random((120, 2000)) < chances[labels]).astype(np.float32))
    nodes = np.arange(120)
    bags = Graph(words, np.stack([nodes[:-1], nodes[1:]]), labels, train=nodes[:40], val=nodes[40:70], test=nodes[70:])
    training = ClosedFormTraining(bags, config_for("linear_rows", "bags", "", {"train": {"normalize": "row"}}))
    for _ in training.epochs():
        pass
    assert training.outcome().test_score > 0.95


def test_edges_help_where_they_should(graph: Graph):
    rows, spread = (trained(name, graph).outcome().test_score for name in ("linear_rows", "linear_spread"))
    assert spread > rows + 0.1


@pytest.mark.parametrize("name", ["linear_rows", "ridge_student"])
def test_graph_free_ones_are_deployed(graph: Graph, name: str):
    training = trained(name, graph)
    predicted = training.deployed().predict(graph.features)
    assert (predicted == training.outcome().scores.argmax(axis=1)).mean() > 0.99


def test_those_that_average_over_neighbours_are_not(graph: Graph):
    with pytest.raises(NeedsGraph, match="neighbours"):
        trained("linear_spread", graph).deployed()


@pytest.mark.parametrize("setting", ["inductive", "cold-start"])
@pytest.mark.parametrize("name", NAMES)
def test_unseen_nodes(name: str, setting: str):
    graph = load_dataset("csbm", nodes=300, seed=0, homophily=0.8, signal=2.0, setting=setting)
    result = trained(name, graph).outcome()
    assert result.scores.shape == (300, graph.num_classes)
    assert result.test_score > 0.4


@pytest.mark.parametrize("name", NAMES)
def test_test_labels_have_no_influence(graph: Graph, name: str):
    labels = graph.labels.copy()
    labels[graph.test] = (labels[graph.test] + 1) % graph.num_classes
    first, second = (trained(name, found).fitted for found in (graph, graph.with_(labels=labels)))
    assert np.array_equal(first["weights"], second["weights"])


def test_a_run_that_was_stopped_ends_with_the_same_map(graph: Graph):
    whole = trained("ridge_student", graph).fitted["weights"]
    config = config_for("ridge_student", graph.name, graph.split, {})
    first, second = (ClosedFormTraining(graph, config) for _ in range(2))
    next(iter(first.epochs()))
    second.load_state_dict(first.state_dict())
    for _ in second.epochs():
        pass
    assert np.array_equal(second.fitted["weights"], whole)


def test_a_sparsifier_that_learns_is_refused(graph: Graph):
    config = config_for("linear_spread", graph.name, graph.split, {"sparsifier": {"name": "str_sparse"}})
    with pytest.raises(GsscError, match="nothing to learn from"):
        ClosedFormTraining(graph, config)


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e15])
def test_the_span_of_wide_rows_by_their_products(size: float):
    rng = np.random.default_rng(0)
    rows = (size * rng.standard_normal((8, 300))).astype(np.float32)
    rows[-1] = rows[0] + rows[1]  # one of them adds nothing
    basis = span_of(rows)
    assert basis.shape == (300, 7)
    np.testing.assert_allclose(basis.T @ basis, np.eye(7), atol=1e-5)
    np.testing.assert_allclose(rows @ basis @ basis.T, rows, atol=1e-5 * size)
    assert span_of(np.zeros((3, 5), dtype=np.float32)).shape == (5, 0)


def test_ridge_regression_by_hand():
    """Squares sum to four, the penalty adds four, and the rows of a class sum to two: slopes are two eighths."""
    rows, labels = np.array([[-1.0], [-1.0], [1.0], [1.0]]), np.array([0, 0, 1, 1])
    weights, bias = ridge_map(rows, labels, 2, penalty=0.25)
    np.testing.assert_allclose(weights / SHARPNESS, [[-0.25, 0.25]])
    np.testing.assert_allclose(bias / SHARPNESS, [0.5, 0.5])
    twice = ridge_map(np.concatenate([rows, rows[:1]]), np.append(labels, 0), 2, penalty=0.25)
    weighted = ridge_map(rows, labels, 2, penalty=0.25 * 5 / 4, weight=np.array([2.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(twice[0], weighted[0], rtol=1e-5)
    np.testing.assert_allclose(twice[1], weighted[1], rtol=1e-5)


def test_too_many_classes_for_a_logistic_regression(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 40 + 3  # classes 0 to 2 and 43 have no label
    rows = (rng.standard_normal((44, 20))[labels] + 0.1 * rng.standard_normal((400, 20))).astype(np.float32)
    monkeypatch.setattr(linear, "MOST_WORK", 200 * 20 * 40 - 1)
    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", None)  # not called
    weights, bias = logistic_map(rows[:200], labels[:200], 44, 1.0)
    assert ((rows @ weights + bias)[200:].argmax(axis=1) == labels[200:]).mean() > 0.95
    wide = np.hstack([rows, np.zeros((400, 300), dtype=np.float32)])
    again = logistic_map(wide[:200], labels[:200], 44, 1.0)  # by the span of the rows
    np.testing.assert_allclose(wide @ again[0] + again[1], rows @ weights + bias, atol=1e-2)


def test_without_validation_labels_the_usual_penalty_is_taken() -> None:
    graph = load_dataset("csbm", nodes=300, seed=0, homophily=0.8, signal=1.0).with_(val=None)
    result = fit(graph, parse_config({"model": {"name": "linear_rows"}}))
    again = fit(graph, parse_config({"model": {"name": "linear_rows", "penalty": 1.0}}))
    np.testing.assert_array_equal(result.scores, again.scores)
