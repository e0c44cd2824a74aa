"""Classes as normal distributions, computed by hand and beside scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from gssc.learner.normal import discriminant_analysis, normal_teachers


def clouds(seed: int = 0, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(120) % classes
    means = 2 * rng.normal(size=(classes, 4))
    return (means[labels] + rng.normal(size=(120, 4))).astype(np.float32), labels


def test_four_points_per_class_by_hand() -> None:
    """Columns have variance 1 around the means (-2, 0) and (2, 0), and none in common: the odds are exp(4 x)."""
    rows = np.array(
        [[-3, 1], [-1, -1], [3, 1], [1, -1], [-3, -1], [-1, 1], [3, -1], [1, 1], [0.5, 7]], dtype=np.float32
    )
    opinion = discriminant_analysis(2)(rows, np.arange(8), np.array([0, 0, 1, 1, 0, 0, 1, 1]), None)
    assert np.allclose(opinion[8, 1] / opinion[8, 0], np.exp(4 * 0.5), rtol=1e-4)


def test_discriminant_analysis_is_that_of_scikit_learn() -> None:
    rows, labels = clouds()
    opinion = discriminant_analysis(3)(rows, np.arange(90), labels[:90], None)
    known = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(rows[:90], labels[:90])
    # It shrinks the covariance of each class, we the one that they share, so that they differ a little.
    assert (opinion.argmax(axis=1) == known.predict(rows)).mean() > 0.95
    assert np.abs(opinion - known.predict_proba(rows)).mean() < 0.03


@pytest.mark.parametrize("name", list(normal_teachers(4)))
def test_weights_count_and_classes_without_labels_get_nothing(name: str) -> None:
    rows, labels = clouds()
    fit = normal_teachers(4)[name]
    even = fit(rows, np.arange(90), labels[:90], None)
    assert (even.argmax(axis=1) == labels)[90:].mean() > 0.8
    assert (even[:, 3] == 0).all()
    assert np.allclose(even.sum(axis=1), 1, atol=1e-5)
    heavy = fit(rows, np.arange(90), labels[:90], np.where(labels[:90] == 2, 50.0, 1.0))
    assert heavy[:, 2].mean() > even[:, 2].mean()
    assert np.allclose(fit(rows, np.arange(90), labels[:90], np.full(90, 7.0)), even, atol=1e-5)


@pytest.mark.parametrize("name", list(normal_teachers(2)))
def test_constant_columns_and_single_labels(name: str) -> None:
    rows = np.zeros((6, 3), dtype=np.float32)
    rows[:, 1] = [0, 1, 0, 1, 0, 1]
    opinion = normal_teachers(2)[name](rows, np.array([0, 1]), np.array([0, 1]), None)
    assert np.isfinite(opinion).all()
    assert (opinion.argmax(axis=1) == [0, 1, 0, 1, 0, 1]).all()
    nothing = normal_teachers(2)[name](np.ones((4, 2), dtype=np.float32), np.arange(3), np.array([0, 1, 1]), None)
    assert np.allclose(nothing, [1 / 3, 2 / 3], atol=1e-4)


@pytest.mark.parametrize("name", list(normal_teachers(2)))
def test_large_values(name: str) -> None:
    rows, labels = clouds(classes=2)
    rows[:, 0] += 1e30 * labels
    opinion = normal_teachers(2)[name](rows, np.arange(60), labels[:60], None)
    assert np.isfinite(opinion).all()
    assert (opinion.argmax(axis=1) == labels).mean() > 0.8
