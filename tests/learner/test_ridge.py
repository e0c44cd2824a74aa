"""Ridge regression of soft labels: the closed forms against fits that leave a row out, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gssc.learner.ridge import left_out_predictions, soft_ridge, spread_of


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
    found = soft_ridge(rows, soft)
    assert found is not None
    spread = spread_of(rows)
    fits = [fitted_by_normal_equations(rows, soft, penalty * spread**2) for penalty in (0.01, 0.1, 1.0)]
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
    dense, sparse = soft_ridge(rows, soft), soft_ridge(sp.csr_matrix(rows), soft)
    assert dense is not None
    assert sparse is not None
    np.testing.assert_allclose(dense.weights, sparse.weights, rtol=1e-2, atol=1e-3)


def test_it_learns_more_columns_than_rows() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=120)
    rows = (rng.normal(size=(120, 1000)) + 0.3 * np.where(labels, 1, -1)[:, None]).astype(np.float32)
    found = soft_ridge(rows[:40], np.eye(2, dtype=np.float32)[labels[:40]])
    assert found is not None
    assert ((rows[40:] @ found.weights + found.bias).argmax(axis=1) == labels[40:]).mean() > 0.95


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_equal_rows_have_no_map(value: float) -> None:
    assert soft_ridge(np.full((5, 2), value, np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 0]]) is None


def test_too_few_rows_have_no_map() -> None:
    assert soft_ridge(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)) is None


@pytest.mark.parametrize("kind", [np.array, sp.csr_matrix])
def test_rows_that_differ_by_rounding_have_no_spread(kind: type) -> None:
    assert spread_of(kind(np.full((30_000, 3), 0.3, np.float32))) == 0
    rows = 255 + np.random.default_rng(0).normal(size=(2000, 4)).astype(np.float32)
    assert spread_of(kind(rows)) == pytest.approx(2, rel=0.05)


def test_too_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(400, 6)).astype(np.float32)
    soft = np.eye(2, dtype=np.float32)[(rows[:, 0] > 0).astype(int)]
    monkeypatch.setattr("gssc.learner.ridge.MOST_NUMBERS", 100 * 6 * 2)
    found = soft_ridge(rows, soft)
    assert found is not None
    assert ((rows @ found.weights + found.bias).argmax(axis=1) == soft.argmax(axis=1)).mean() > 0.9
