from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import softmax

from gssc.deploy import DeployedModel
from gssc.deploy.forward import LinearMap, forward, in_double, one_row
from gssc.errors import GsscError


def identity(**options) -> DeployedModel:
    """A model whose logits are its features."""
    return DeployedModel([(np.eye(3), np.zeros(3))], ["a", "b", "c"], **options)


@settings(max_examples=200)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=3, max_size=3),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_probabilities_of_any_finite_scores(scores: list[float], temperature: float) -> None:
    model = identity(temperature=temperature)
    x = np.array([scores], dtype=np.float32)
    if not np.isfinite(expected := x.astype(np.float64) / temperature).all() or np.abs(expected).max() > 3.4e38:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "overflow encountered in subtract")  # of the softmax, to the right answer
        found = model.predict_proba(x)
        logits = model.logits(sparse.csr_matrix(x))
    np.testing.assert_allclose(found, softmax(expected, axis=1), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(logits, x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("ask", ["logits", "predict", "predict_proba", "embed"])
def test_what_is_not_finite_is_refused_without_a_warning(value: float, form, ask: str) -> None:
    x = form(np.array([[1, value, 0]], dtype=np.float32))
    twice = DeployedModel([(np.eye(3), np.zeros(3))] * 2, ["a", "b", "c"])
    with warnings.catch_warnings(), pytest.raises(GsscError, match="row 0 has a NaN, infinite or far too large"):
        warnings.simplefilter("error")
        getattr(twice, ask)(x)


@pytest.mark.parametrize("rows", [1, 2, 20])
def test_a_row_that_is_next_to_nothing_is_normalised_all_the_same(rows: int) -> None:
    x = np.tile(np.array([[1e-42, 0, 0]], dtype=np.float32), (rows, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(identity(normalize="row").logits(x)).all()


def test_layers_that_share_their_arrays_are_layers_all_the_same() -> None:
    layer = np.array([[1, 0], [0, -1]], dtype=np.float32), np.zeros(2, dtype=np.float32)
    model = DeployedModel([layer, layer], ["a", "b"])
    assert model.logits(np.array([[1.0, 1.0]])).tolist() == [[1, 0]]  # relu(1, -1) = (1, 0)
    assert model.logits(np.array([[1.0, 1.0]] * 20)).tolist() == [[1, 0]] * 20


def test_the_answer_is_an_array_of_its_own() -> None:
    model, x = identity(), np.array([[1, 2, 3]], dtype=np.float32)
    first = model.logits(x)
    first[:] = 0
    assert model.logits(x).tolist() == [[1, 2, 3]]
    assert x.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("activate_last", [False, True])
def test_the_fast_case_gives_what_the_pass_gives(form, activation: str, normalize: bool, activate_last: bool) -> None:
    rng = np.random.default_rng(0)
    layers = [
        LinearMap.of(rng.standard_normal(shape, dtype=np.float32), rng.standard_normal(shape[0], dtype=np.float32))
        for shape in ((13, 9), (7, 13), (3, 7))
    ]
    table = (rng.random((6, 9)) < 0.4) * rng.standard_normal((6, 9))
    table[2] = 0
    whole = forward(form(table), layers, activation, normalize, activate_last)
    for row in range(len(table)):
        alone = one_row(form(table[row : row + 1]), layers, activation, normalize, activate_last)
        np.testing.assert_allclose(alone[0], whole[row], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_in_double_precision_a_row_is_the_same_alone_and_among_others(form) -> None:
    """By hand: (1, -3) over 4 is (0.25, -0.75); times the weight 2 (0.5, -1.5); leaky: (0.5, -0.015)."""
    eye = np.eye(2, dtype=np.float32)
    model = DeployedModel([(2 * eye, np.zeros(2)), (eye, np.zeros(2))], ["a", "b"], "leaky_relu", "row")
    x = np.random.default_rng(0).standard_normal((5000, 2))
    x[7] = [1, -3]
    whole = in_double(model, form(x), 2)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(whole[7], [0.5, -0.015], rtol=1e-12)
    np.testing.assert_allclose(in_double(model, form(x[7:8]), 2)[0], whole[7], rtol=1e-15)
    np.testing.assert_allclose(in_double(model, form(x[7:8]), 1)[0], [0.5, -0.015], rtol=1e-12)
