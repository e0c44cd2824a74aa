from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from gssc.calibration import GREATEST, LEAST, expected_calibration_error, fit_temperature


def two_class(confidence: list[float]) -> np.ndarray:
    """Rows that favour class 0 with these probabilities."""
    first = np.array(confidence)
    return np.stack([first, 1 - first], axis=1)


def test_error_by_hand() -> None:
    # Bins of a fifth: 0.7 and 0.75 share one (accuracy 1/2, confidence 0.725), 0.95 is alone and right.
    probabilities = two_class([0.7, 0.75, 0.95])
    labels = np.array([0, 1, 0])
    assert expected_calibration_error(probabilities, labels, bins=5) == pytest.approx((2 * 0.225 + 0.05) / 3)
    # One bin for all: accuracy 2/3, confidence 0.8.
    assert expected_calibration_error(probabilities, labels, bins=1) == pytest.approx(0.8 - 2 / 3)


def test_a_bin_includes_its_upper_end() -> None:
    # 0.6 belongs to (0.4, 0.6], 0.65 to (0.6, 0.8]: the gaps do not cancel.
    probabilities = two_class([0.6, 0.65])
    assert expected_calibration_error(probabilities, np.array([0, 1]), bins=5) == pytest.approx((0.4 + 0.65) / 2)
    # In one bin they do, but for the small rest.
    assert expected_calibration_error(probabilities, np.array([0, 1]), bins=1) == pytest.approx(0.125)


def test_certain_and_right_has_no_error_and_unknown_rows_do_not_count() -> None:
    probabilities = two_class([1.0, 1.0, 0.5])
    assert expected_calibration_error(probabilities, np.array([0, 0, -1])) == 0
    assert np.isnan(expected_calibration_error(probabilities, np.array([-1, -1, -1])))


@pytest.mark.parametrize(("right", "wrong"), [(3, 1), (9, 1), (2, 1)])
def test_temperature_by_hand(right: int, wrong: int) -> None:
    # All rows have logits (4, 0); the likelihood is greatest where the probability is the accuracy: 4 / T = log odds.
    logits = np.tile([4.0, 0.0], (right + wrong, 1))
    labels = np.array([0] * right + [1] * wrong)
    assert fit_temperature(logits, labels) == pytest.approx(4 / np.log(right / wrong), rel=1e-3)


def test_rows_as_prior_by_hand() -> None:
    # Four rows, all right, logits (log 3, 0): four prior rows have 3/4, so the best probability is (4 + 3) / 8.
    logits = np.tile([np.log(3), 0.0], (4, 1))
    labels = np.zeros(4, dtype=int)
    assert fit_temperature(logits, labels, prior_rows=4) == pytest.approx(np.log(3) / np.log(7), rel=1e-3)
    # Without a prior there is no end to certainty, and none to doubt where all are wrong.
    assert LEAST <= fit_temperature(logits, labels) < 0.1
    assert fit_temperature(logits, 1 - labels) == pytest.approx(GREATEST, rel=0.01)


def test_one_class_has_nothing_to_calibrate() -> None:
    assert fit_temperature(np.array([[2.0], [3.0]]), np.array([0, 0]), prior_rows=10) == 1.0


def test_without_labels_probabilities_stay() -> None:
    assert fit_temperature(np.ones((3, 2)), np.full(3, -1)) == 1
    assert fit_temperature(np.ones((0, 2)), np.empty(0, dtype=int)) == 1


@settings(max_examples=20, deadline=None)
@given(factor=st.floats(0.2, 8.0), seed=st.integers(0, 100))
def test_a_known_temperature_is_found_again(factor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.standard_normal((4000, 4)) * 1.5
    labels = (softmax(true, axis=1).cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    found = fit_temperature(true * factor, labels)
    assert found == pytest.approx(factor, rel=0.15)
    # Unknown rows, whatever their logits, change nothing.
    more = np.concatenate([true * factor, np.full((5, 4), 99.0)])
    assert fit_temperature(more, np.concatenate([labels, np.full(5, -1)])) == pytest.approx(found, rel=1e-4)
    before = expected_calibration_error(softmax(true * factor, axis=1), labels)
    after = expected_calibration_error(softmax(true * factor / found, axis=1), labels)
    assert after < 0.03
    assert after <= before + 0.02
