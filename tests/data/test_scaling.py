from __future__ import annotations

import numpy as np
from scipy import sparse

from gssc.data.scaling import Scaling


def test_columns_on_one_scale_by_hand() -> None:
    table = np.array([[1.0, 100.0, 5.0], [3.0, 300.0, 5.0]])
    scaling = Scaling.of(table, "auto")
    np.testing.assert_allclose(scaling.applied(table), [[-1, -1, 0], [1, 1, 0]])
    weight, bias = scaling.folded((np.array([[1.0, 2.0, 3.0]]), np.array([0.5])))
    # 1 (x - 2) / 1 + 2 (y - 200) / 100 + 3 (z - 5) + 0.5
    np.testing.assert_allclose(weight, [[1.0, 0.02, 3.0]])
    np.testing.assert_allclose(bias, [0.5 - 2 - 4 - 15])
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


def test_a_column_far_from_zero_is_named() -> None:
    near = np.random.default_rng(0).standard_normal((50, 2))
    assert Scaling.of(near, "standard").far_column() is None
    assert Scaling.of(near + np.array([0, 1e7]), "standard").far_column() == 1
    constant = np.array([[1e9, 0.0], [1e9, 1.0]])
    assert Scaling.of(constant, "standard").far_column() is None
