from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from gssc.trust.logistic import fit_logistic, log_odds


def test_the_slope_of_the_penalised_likelihood_is_zero() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((400, 2))
    targets = (rng.random(400) < expit(0.5 + 2 * inputs[:, 0] - inputs[:, 1])).astype(float)
    weights = fit_logistic(inputs, targets)
    rest = expit(log_odds(inputs, weights)) - targets
    np.testing.assert_allclose(inputs.T @ rest + weights[1:], 0, atol=1e-3)
    assert rest.sum() == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(weights, [0.5, 2, -1], atol=0.5)


def test_what_a_line_divides_gives_finite_weights() -> None:
    inputs = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    weights = fit_logistic(inputs, np.array([0.0, 0, 1, 1]))
    assert np.isfinite(weights).all()
    assert weights[1] > 0
    assert weights[0] == pytest.approx(0, abs=1e-6)


def test_uninformative_inputs_give_the_share() -> None:
    weights = fit_logistic(np.zeros((4, 1)), np.array([0.0, 1, 1, 1]))
    np.testing.assert_allclose(weights, [np.log(3), 0], atol=1e-3)


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_one_kind_of_target_only(target: float) -> None:
    assert np.isfinite(fit_logistic(np.ones((5, 2)), np.full(5, target))).all()
