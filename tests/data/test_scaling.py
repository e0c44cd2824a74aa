from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gssc.data.scaling import MOST_SQUASHED, Scaling, usual_normalization
from gssc.errors import GsscError


def test_columns_on_one_scale_by_hand() -> None:
    table = np.array([[1.0, 100.0, 5.0], [3.0, 300.0, 5.0]])
    scaling = Scaling.of(table, "auto")
    np.testing.assert_allclose(scaling.applied(table), [[-1, -1, 0], [1, 1, 0]])
    weight, bias = scaling.folded((np.array([[1.0, 2.0, 3.0]]), np.array([0.5])))
    # 1 (x - 2) / 1 + 2 (y - 200) / 100 + 0.5; a column that never varied has no weight
    np.testing.assert_allclose(weight, [[1.0, 0.02, 0.0]])
    np.testing.assert_allclose(bias, [0.5 - 2 - 4])
    assert Scaling.of(table, "none").applied(table) is table


def test_sparse_tables_keep_their_zeros() -> None:
    counts = sparse.csr_matrix([[3.0, 0.0], [4.0, 2.0]])
    rows = Scaling.of(counts, "row")
    assert rows.applied(counts) is counts
    lengths = np.sqrt(rows.for_neighbours(counts).power(2).sum(axis=1))
    np.testing.assert_allclose(np.asarray(lengths).ravel(), 1)
    signed = sparse.csr_matrix([[-3.0, 0.0], [4.0, 2.0]])
    columns = Scaling.of(signed, "auto")
    assert columns.normalize == "none"
    np.testing.assert_allclose(
        columns.applied(signed).toarray(), [[-3 / 12.5**0.5, 0], [4 / 12.5**0.5, 2 / 2**0.5]], rtol=1e-6
    )
    weight, bias = columns.folded((np.array([[1.0, 1.0]]), np.array([0.5])))
    np.testing.assert_allclose(weight, [[12.5**-0.5, 2**-0.5]])
    assert bias.tolist() == [0.5]


def test_sparse_columns_of_any_size_are_put_on_one_scale() -> None:
    """Squares of the first leave the range of float32; those of the second would vanish; the third has no value."""
    signed = sparse.csr_matrix(np.array([[-1e25, 0.0, 0.0], [1e25, 1e-25, 0.0]], dtype=np.float32))
    scaled = Scaling.of(signed, "auto").applied(signed)
    np.testing.assert_allclose(scaled.toarray(), [[-1, 0, 0], [1, 2**0.5, 0]], rtol=1e-6)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix])
def test_columns_too_small_for_single_precision_count_as_constant(kind) -> None:
    tiny = kind(np.array([[-1e-38, 1.0], [1e-38, -30.0]], dtype=np.float32))
    weight, _ = Scaling.of(tiny, "standard").folded((np.ones((1, 2), dtype=np.float32), np.zeros(1, dtype=np.float32)))
    assert weight[0, 0] == 0
    assert weight[0, 1] > 0


def test_a_column_that_is_constant_in_a_sample_keeps_its_weight_unless_it_is_far_from_zero(tmp_path) -> None:
    table = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=(20_000, 3))
    table[:] = [0, 5, 1e9]
    table[:10_000, 0] = 1
    weight, _ = Scaling.of(table, "standard").folded((np.ones((1, 3)), np.zeros(1)))
    np.testing.assert_allclose(weight, [[2.0, 1.0, 0.0]], rtol=1e-3)


def test_a_column_far_from_zero_is_named() -> None:
    near = np.random.default_rng(0).standard_normal((50, 2))
    assert Scaling.of(near, "standard").far_column() is None
    assert Scaling.of(near + np.array([0, 1e7]), "standard").far_column() == 1
    constant = np.array([[1e9, 0.0], [1e9, 1.0]])
    assert Scaling.of(constant, "standard").far_column() is None


def test_long_tails_are_pressed_together_by_hand() -> None:
    table = np.array([*([[0.0, 100.0], [1.0, 300.0], [2.0, 100.0], [1.0, 300.0]] * 3), [1001.0, 200.0]])
    spread = (120_000 / 13) ** 0.5
    scaling = Scaling.of(table, "auto")
    scaled = scaling.applied(table)
    # The first column has median 1 and is 1 away from it, where it is away at all; only the last value is far out.
    np.testing.assert_allclose(scaled[:, 0], np.arcsinh([*([-1, 0, 1, 0] * 3), 1000]))
    # The second has no long tail: mean 200, standard deviation 96, hardly bent.
    np.testing.assert_allclose(scaled[:, 1], (table[:, 1] - 200) / spread, rtol=0.01)
    weight, bias = scaling.squashing_layer()
    np.testing.assert_allclose(weight, [[1, 0], [0, 0.1 / spread]])
    first = np.array([[2.0, 3.0]]), np.array([0.5])
    after, shift = scaling.folded(first)
    np.testing.assert_allclose(np.arcsinh(table @ weight.T + bias) @ after.T + shift, scaled @ first[0].T + 0.5)


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda rng: rng.normal(50, 20, (5000, 4)), "standard"),
        (lambda rng: rng.exponential(20, (5000, 4)), "standard"),
        (lambda rng: rng.uniform(0, 100, (5000, 4)), "standard"),
        (lambda rng: rng.integers(0, 2, (5000, 4)) * 100.0, "standard"),
        (lambda rng: rng.choice([0.0, 15, 16], (5000, 4), p=[0.3, 0.3, 0.4]), "standard"),  # saturates
        (lambda rng: np.exp(rng.normal(3, 1, (5000, 4))), "asinh"),
        (lambda rng: 20 * rng.standard_cauchy((5000, 4)), "asinh"),
        (lambda rng: 20.0 * rng.standard_normal((5000, MOST_SQUASHED + 1)) ** 9, "standard"),
    ],
)
def test_only_columns_with_long_tails_are_squashed_by_default(draw, expected: str) -> None:
    assert usual_normalization(draw(np.random.default_rng(0))) == expected


def test_squashing_refuses_what_it_is_not_for() -> None:
    for features in (sparse.csr_matrix([[1.0, 0.0]]), np.ones((2, MOST_SQUASHED + 1))):
        with pytest.raises(GsscError, match="use standard or row"):
            Scaling.of(features, "asinh")
