"""Label spreading as a training loop: alpha by validation, settings, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gssc.config import SparsifierConfig
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.models.base import Recipe
from gssc.models.label_spreading import LabelSpreading
from gssc.train.spread import adjacency, fit_model, settings_of, training_labels


def two_paths(setting: str = "transductive") -> Graph:
    """0 - 1 - 2 - 3 of class 0 and 4 - 5 - 6 - 7 of class 1; two labels of class 0, one of class 1."""
    edges = [[0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7]]
    labels = [0] * 4 + [1] * 4
    return Graph(
        np.ones((8, 1)), edges, labels, train=[0, 1, 4], val=[2, 5], test=[3, 6, 7], setting=setting, name="paths"
    )


def test_labels_reach_everything_along_edges() -> None:
    outcome = fit_model("label_spreading", two_paths())
    assert outcome.scores.shape == (8, 2)
    assert (outcome.val_accuracy, outcome.test_accuracy) == (1.0, 1.0)
    assert (outcome.epochs, outcome.edges_kept, outcome.edges_total) == (0, 6, 6)


def test_unseen_nodes_join_with_their_edges_when_inductive() -> None:
    assert fit_model("label_spreading", two_paths("inductive")).test_accuracy == 1.0


def test_in_cold_start_a_test_node_gets_the_class_shares() -> None:
    scores = fit_model("label_spreading", two_paths("cold-start")).scores
    np.testing.assert_allclose(scores[[3, 6, 7]], [[2 / 3, 1 / 3]] * 3)


def test_test_labels_do_not_matter() -> None:
    graph = two_paths()
    labels = graph.labels.copy()
    labels[graph.test] = 1 - labels[graph.test]
    changed = fit_model("label_spreading", graph.with_(labels=labels))
    np.testing.assert_array_equal(changed.scores, fit_model("label_spreading", graph).scores)


def test_the_alpha_with_the_best_validation_accuracy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def scores(self: LabelSpreading, matrix: object, labels: np.ndarray, classes: int) -> np.ndarray:
        return np.eye(classes)[two_paths().labels if self.alpha == 0.8 else 1 - two_paths().labels]

    monkeypatch.setattr(LabelSpreading, "scores", scores)
    assert fit_model("label_spreading", two_paths()).test_accuracy == 1.0
    assert fit_model("label_spreading", two_paths(), recipe=Recipe(model={"alpha": 0.5})).test_accuracy == 0.0


def test_a_sparsifier_that_learns_is_refused_with_the_reason() -> None:
    with pytest.raises(GsscError, match="no gradient and no epochs"):
        fit_model("label_spreading", two_paths(), SparsifierConfig(name="str_sparse"))


def test_multilabel_targets_are_refused() -> None:
    graph = Graph(np.ones((3, 1)), [[0, 1], [1, 2]], np.eye(3), train=[0], val=[1], test=[2])
    with pytest.raises(GsscError, match="multi-label"):
        fit_model("label_spreading", graph)


def test_an_edge_of_weight_zero_leaves_no_entry() -> None:
    found = adjacency(torch.tensor([[0, 1], [1, 2]]), torch.tensor([0.5, 0.0]), 3)
    assert found.nnz == 2
    assert found.toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]]


def test_only_training_labels_are_known() -> None:
    assert training_labels(two_paths()).tolist() == [0, 0, -1, -1, 1, -1, -1, -1]


def test_settings_name_the_alphas() -> None:
    settings = settings_of("label_spreading", "cora", "public", SparsifierConfig(name="none"), 3)
    assert settings["alphas"] == LabelSpreading.alphas
    assert settings["seed"] == 3
