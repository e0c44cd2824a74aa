"""Label spreading as a training loop: alpha by validation, settings, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gssc.config import parse_config
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.models.label_spreading import LabelSpreading
from gssc.result import Result, fit
from gssc.train.spread import SpreadTraining, adjacency
from gssc.train.training import training_labels


def spread(graph: Graph, sparsifier: str = "none", **model: float) -> Result:
    settings = {"model": {"name": "label_spreading", **model}, "sparsifier": {"name": sparsifier}}
    return fit(graph, parse_config(settings))


def two_paths(setting: str = "transductive") -> Graph:
    """0 - 1 - 2 - 3 of class 0 and 4 - 5 - 6 - 7 of class 1; two labels of class 0, one of class 1."""
    edges = [[0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7]]
    labels = [0] * 4 + [1] * 4
    return Graph(
        np.ones((8, 1)), edges, labels, train=[0, 1, 4], val=[2, 5], test=[3, 6, 7], setting=setting, name="paths"
    )


def test_labels_reach_everything_along_edges() -> None:
    outcome = spread(two_paths()).outcome
    assert outcome.scores.shape == (8, 2)
    assert (outcome.val_score, outcome.test_score) == (1.0, 1.0)
    assert (outcome.epochs, outcome.edges_kept, outcome.edges_total) == (0, 6, 6)


def test_unseen_nodes_join_with_their_edges_when_inductive() -> None:
    assert spread(two_paths("inductive")).test_score == 1.0


def test_in_cold_start_a_test_node_gets_the_class_shares() -> None:
    scores = spread(two_paths("cold-start")).scores
    np.testing.assert_allclose(scores[[3, 6, 7]], [[2 / 3, 1 / 3]] * 3)


def test_test_labels_do_not_matter() -> None:
    graph = two_paths()
    labels = graph.labels.copy()
    labels[graph.test] = 1 - labels[graph.test]
    changed = spread(graph.with_(labels=labels))
    np.testing.assert_array_equal(changed.scores, spread(graph).scores)


def test_the_alpha_with_the_best_validation_accuracy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def scores(self: LabelSpreading, matrix: object, labels: np.ndarray, classes: int) -> np.ndarray:
        return np.eye(classes)[two_paths().labels if self.alpha == 0.8 else 1 - two_paths().labels]

    monkeypatch.setattr(LabelSpreading, "scores", scores)
    assert spread(two_paths()).test_score == 1.0
    assert spread(two_paths(), alpha=0.5).test_score == 0.0


def test_a_sparsifier_that_learns_is_refused_with_the_reason() -> None:
    with pytest.raises(GsscError, match="no gradient and no epochs"):
        spread(two_paths(), "str_sparse")


def test_multilabel_targets_are_refused() -> None:
    graph = Graph(np.ones((3, 1)), [[0, 1], [1, 2]], np.eye(3), train=[0], val=[1], test=[2])
    with pytest.raises(GsscError, match="multi-label"):
        spread(graph)


def test_an_edge_of_weight_zero_leaves_no_entry() -> None:
    found = adjacency(torch.tensor([[0, 1], [1, 2]]), torch.tensor([0.5, 0.0]), 3)
    assert found.nnz == 2
    assert found.toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]]


def test_only_training_labels_are_known() -> None:
    assert training_labels(two_paths()).tolist() == [0, 0, -1, -1, 1, -1, -1, -1]


def test_without_validation_nodes_the_usual_alpha_is_used() -> None:
    result = spread(two_paths().with_(val=[]))
    assert result.training.alpha == LabelSpreading().alpha


def test_a_run_can_stop_at_any_alpha_and_go_on() -> None:
    config = parse_config({"model": {"name": "label_spreading"}})
    whole, stopped = (SpreadTraining(two_paths(), config) for _ in range(2))
    expected = [record.val_score for record in whole.epochs()]
    steps = stopped.epochs()
    first = [next(steps).val_score for _ in range(2)]
    resumed = SpreadTraining(two_paths(), config)
    resumed.load_state_dict(stopped.state_dict())
    assert first + [record.val_score for record in resumed.epochs()] == expected
    np.testing.assert_array_equal(resumed.outcome().scores, whole.outcome().scores)


def test_there_is_nothing_to_deploy() -> None:
    with pytest.raises(GsscError, match="cannot be deployed without the graph"):
        spread(two_paths()).deployed()
