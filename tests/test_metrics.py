"""Metrics against hand-computed values and their definitions."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssc.metrics import accuracy, binary_log_loss, edge_homophily, log_loss, rmse, roc_auc

LABELS = np.array([0, 1, -1, 1])
SCORES = np.array([[2.0, 0.0], [1.0, 3.0], [9.0, 0.0], [4.0, 0.0]])


def test_accuracy_counts_known_labels_only():
    assert accuracy(SCORES, LABELS) == 2 / 3  # nodes 0 and 1 right, 3 wrong, 2 unknown


@pytest.mark.parametrize("nodes", [[], [2]])
def test_nothing_to_judge_is_not_a_number(nodes: list[int]):
    assert np.isnan(accuracy(SCORES[nodes], LABELS[nodes]))
    assert np.isnan(log_loss(SCORES[nodes], LABELS[nodes]))


def test_log_loss_by_hand():
    # node 0: log(1 + e^-2); node 1: log(1 + e^-2); node 3: log(1 + e^4)
    expected = (2 * log(1 + exp(-2)) + log(1 + exp(4))) / 3
    assert log_loss(SCORES, LABELS) == pytest.approx(expected)


def test_log_loss_of_huge_logits_is_finite():
    assert log_loss(np.array([[1e4, -1e4]], dtype=np.float32), np.array([1])) == pytest.approx(2e4)
    assert binary_log_loss(np.array([[-1e4]], dtype=np.float32), np.array([[1.0]])) == pytest.approx(1e4)


def test_multilabel_log_loss_by_hand():
    nan = float("nan")
    targets = np.array([[1.0, nan], [nan, 0.0]])
    logits = np.array([[2.0, 5.0], [-7.0, 1.0]])
    assert binary_log_loss(logits, targets) == pytest.approx((log(1 + exp(-2)) + log(1 + exp(1))) / 2)
    assert np.isnan(binary_log_loss(logits, np.full((2, 2), nan)))


def test_roc_auc_by_hand():
    # Positives 0.35 and 0.8, negatives 0.1 and 0.4: of four comparisons one, 0.35 < 0.4, is lost.
    assert roc_auc(np.array([[0.1], [0.4], [0.35], [0.8]]), np.array([[0.0], [0.0], [1.0], [1.0]])) == 0.75


def test_roc_auc_averages_tasks_with_both_classes_and_skips_missing_entries():
    nan = float("nan")
    scores = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    targets = np.array([[0.0, 1.0, 1.0], [nan, 0.0, 1.0], [1.0, nan, nan]])
    assert roc_auc(scores, targets) == 0.5  # task 0: 1; task 1: 0; task 2: only positives
    assert np.isnan(roc_auc(scores, np.ones((3, 3))))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=20))
def test_roc_auc_is_the_chance_that_a_positive_outranks_a_negative(rows: list[tuple[int, bool]]):
    positive = [score for score, target in rows if target]
    negative = [score for score, target in rows if not target]
    area = roc_auc(np.array([[score] for score, _ in rows], dtype=float), np.array([[float(t)] for _, t in rows]))
    if not positive or not negative:
        assert np.isnan(area)
        return
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    assert area == pytest.approx(wins / (len(positive) * len(negative)))


def test_rmse_by_hand_over_known_targets():
    assert rmse(np.array([[1.0, 5.0], [4.0, 2.0]]), np.array([[1.0, 2.0], [np.nan, 2.0]])) == pytest.approx(3**0.5)
    assert np.isnan(rmse(np.ones((1, 1)), np.full((1, 1), np.nan)))


def test_edge_homophily_by_hand():
    pairs = np.array([[0, 1, 1, 0], [1, 3, 2, 2]])
    # 0-1 differ, 1-3 agree, 1-2 and 0-2 have an unknown end.
    assert edge_homophily(LABELS, pairs) == 0.5
    assert np.isnan(edge_homophily(LABELS, pairs[:, 2:]))
    assert np.isnan(edge_homophily(LABELS, pairs[:, :0]))
