from __future__ import annotations

import numpy as np
import pytest

from gssc.trust.class_means import sharpened
from gssc.trust.regression import held_out_by_regression
from gssc.trust.sketch import unit_rows


def refitted(rows: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """The same by as many regressions as there are rows."""
    rows, targets = unit_rows(rows).astype(np.float64), np.eye(classes)[labels] - 1 / classes
    said = np.empty_like(targets)
    for left_out in range(len(rows)):
        others = np.arange(len(rows)) != left_out
        inner = rows[others].T @ rows[others] + np.eye(rows.shape[1])
        said[left_out] = rows[left_out] @ np.linalg.solve(inner, rows[others].T @ targets[others])
    return sharpened(said, labels)


@pytest.mark.parametrize("shape", [(12, 30), (40, 5), (9, 9)])
def test_held_out_predictions_are_those_of_a_fit_without_the_row(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal(shape).astype(np.float32), rng.permutation(np.arange(shape[0]) % 3)
    found = held_out_by_regression(rows, labels, 3)
    np.testing.assert_allclose(found, refitted(rows, labels, 3), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_its_own_label_has_no_influence() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 20)
    rows = (rng.standard_normal((40, 8)) + 3 * np.eye(8)[labels]).astype(np.float32)
    labels[7] = 1
    found = held_out_by_regression(rows, labels, 2)
    assert found[7, 0] > 0.5
    assert found[7].argmax() != labels[7]
    assert (found.argmax(axis=1) == labels).mean() > 0.9


def test_the_only_row_of_its_class_is_not_judged() -> None:
    rows = np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32)
    found = held_out_by_regression(rows, np.array([0, 0, 0, 0, 1, 1, 1, 1, 2]), 3)
    np.testing.assert_allclose(found[8], 1 / 3)
    assert not np.isclose(found[:8], 1 / 3).any()
