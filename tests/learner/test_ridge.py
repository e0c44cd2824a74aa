"""Ridge regression of soft labels: the closed forms against fits that leave a row out, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gssc.learner.ridge import MOST_NUMBERS, left_out_predictions, mean_squared_length, ridge_map


def fitted_by_normal_equations(rows: np.ndarray, soft: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    mean, middle = soft.mean(axis=0), rows.mean(axis=0)
    centred = rows - middle
    weights = np.linalg.solve(centred.T @ centred + penalty * np.eye(rows.shape[1]), centred.T @ (soft - mean))
    return weights, mean - middle @ weights


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 12), st.integers(1, 20), st.sampled_from([0.1, 1.0, 10.0]))
def test_predictions_equal_those_of_regressions_without_the_row(
    seed: int, count: int, width: int, penalty: float
) -> None:
    rng = np.random.default_rng(seed)
    rows, soft = rng.normal(size=(count, width)), rng.dirichlet(np.ones(3), count)
    found = left_out_predictions(rows, soft, [penalty])[penalty]
    # The intercept of the formula is the mean of all rows, so it is compared to a regression of the centred rows.
    for row in range(count):
        others = np.arange(count) != row
        design = np.column_stack([np.ones(count), rows - rows.mean(axis=0)])
        products = design[others].T @ design[others] + penalty * np.diag([0.0] + [1.0] * width)
        expected = design[row] @ np.linalg.solve(products, design[others].T @ soft[others])
        np.testing.assert_allclose(found[row], expected, atol=1e-6)


def test_logits_rank_classes_as_the_normal_equations_do() -> None:
    rng = np.random.default_rng(0)
    rows, soft = rng.normal(size=(60, 5)), rng.dirichlet(np.ones(3), 60)
    soft[:, 0] += (rows[:, 0] > 0) * 3
    soft /= soft.sum(axis=1, keepdims=True)
    found = ridge_map(rows, soft)
    assert found is not None
    length = mean_squared_length(rows)
    fits = [fitted_by_normal_equations(rows, soft, penalty * length) for penalty in (0.01, 0.1, 1.0)]
    scores = rows @ found.weights + found.bias
    errors = []
    for weights, bias in fits:  # one of them, divided by a temperature
        expected = rows @ weights + bias
        temperature = (expected * scores).sum() / (scores * scores).sum()
        errors.append(np.abs(temperature * scores - expected).max())
    assert min(errors) < 1e-3


def test_sparse_and_dense_rows_give_the_same_map() -> None:
    rng = np.random.default_rng(1)
    rows = rng.poisson(0.3, size=(80, 40)).astype(np.float32)
    soft = np.eye(4, dtype=np.float32)[rng.integers(4, size=80)]
    dense, sparse = ridge_map(rows, soft), ridge_map(sp.csr_matrix(rows), soft)
    assert dense is not None
    assert sparse is not None
    np.testing.assert_allclose(dense.weights, sparse.weights, rtol=1e-2, atol=1e-3)


def test_it_learns_more_columns_than_rows() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=120)
    rows = (rng.normal(size=(120, 1000)) + 0.3 * np.where(labels, 1, -1)[:, None]).astype(np.float32)
    found = ridge_map(rows[:40], np.eye(2, dtype=np.float32)[labels[:40]])
    assert found is not None
    assert ((rows[40:] @ found.weights + found.bias).argmax(axis=1) == labels[40:]).mean() > 0.95


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_equal_rows_have_no_map(value: float) -> None:
    assert ridge_map(np.full((5, 2), value, np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 0]]) is None


def test_too_few_rows_and_too_large_ones_have_no_map() -> None:
    assert ridge_map(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)) is None
    rows = np.broadcast_to(np.float32(1), (3, MOST_NUMBERS // 2))
    assert ridge_map(rows, np.eye(3, dtype=np.float32)) is None
