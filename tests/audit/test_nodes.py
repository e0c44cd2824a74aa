from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.audit import nodes as nodes_module
from gssc.audit.nodes import duplicate_groups, featureless_nodes, isolated_nodes
from gssc.graph import Graph
from gssc.trust.sketch import feature_sketch


def features_with_duplicates() -> np.ndarray:
    rows = np.random.default_rng(0).random((200, 20)).astype(np.float32)
    rows[50] = rows[10]  # equal
    rows[60] = rows[20] * 3 + 1e-4  # nearly the same direction
    rows[70] = rows[71] = rows[72] = rows[30]
    rows[80] = rows[81] = 0
    return rows


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("block", [8192, 17])
def test_equal_and_nearly_equal_rows(kind, block: int, monkeypatch) -> None:
    monkeypatch.setattr(nodes_module, "ROWS_AT_A_TIME", block)
    graph = Graph(kind(features_with_duplicates()), [[0], [1]])
    groups = duplicate_groups(graph, feature_sketch(graph.features))
    found = {tuple(group.nodes.tolist()): group.identical for group in groups}
    assert found == {(30, 70, 71, 72): True, (10, 50): True, (20, 60): False}
    assert featureless_nodes(graph.features).tolist() == [80, 81]


def test_what_makes_a_group_worth_a_look() -> None:
    rows = np.eye(6, dtype=np.float32)[[0, 0, 1, 1, 2, 2]]
    graph = Graph(rows, [[0], [1]], labels=[0, 1, 0, 0, 1, 1], train=[0, 1, 2, 4], val=[5])
    groups = duplicate_groups(graph, feature_sketch(rows))
    assert [(group.nodes.tolist(), group.conflicting, group.crosses_split) for group in groups] == [
        ([0, 1], True, False),
        ([2, 3], False, False),
        ([4, 5], False, True),
    ]


def test_labels_outside_training_are_not_read() -> None:
    graph = Graph(np.ones((3, 2), dtype=np.float32), [[0], [1]], labels=[0, 1, 1], train=[0], val=[1], test=[2])
    assert [group.conflicting for group in duplicate_groups(graph, feature_sketch(graph.features))] == [False]


def test_multilabel_targets_conflict_too() -> None:
    graph = Graph(np.ones((2, 2), dtype=np.float32), [[0], [1]], labels=[[0.0, 1], [1, 1]], train=[0, 1])
    assert [group.conflicting for group in duplicate_groups(graph, feature_sketch(graph.features))] == [True]


def test_a_row_of_minus_zeros_is_a_row_of_zeros() -> None:
    assert featureless_nodes(np.array([[-0.0, 0.0], [1, -0.0]], dtype=np.float32)).tolist() == [0]


def test_isolated_nodes() -> None:
    assert isolated_nodes(Graph(np.eye(4, dtype=np.float32), [[0], [2]])).tolist() == [1, 3]
