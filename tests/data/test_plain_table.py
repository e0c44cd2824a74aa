from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gssc.data.plain_table import Scaling, encode_labels, held_out
from gssc.errors import GsscError


@pytest.mark.parametrize(
    ("labels", "codes", "classes"),
    [
        (np.array([3, -1, 7, 3]), [0, -1, 1, 0], [3, 7]),
        (np.array([-5, -1, 2]), [0, -1, 1], [-5, 2]),
        (np.array([1.0, np.nan, -1.0, 0.0]), [1, -1, -1, 0], [0.0, 1.0]),
        (np.array([True, False, True]), [1, 0, 1], [False, True]),
        (np.array(["b", "", "a", " "]), [1, -1, 0, -1], ["a", "b"]),
        (np.array(["b", None, "a", float("nan")], dtype=object), [1, -1, 0, -1], ["a", "b"]),
        (np.array([2, None, -1, 1], dtype=object), [1, -1, -1, 0], [1, 2]),
        (np.array([True, None, False], dtype=object), [1, -1, 0], [False, True]),
        (np.array([1, -1, 1]), [1, 0, 1], [-1, 1]),
        (np.array([0, -1, 0]), [0, -1, 0], [0]),
        (np.array(["y", "-1", "x"]), [1, -1, 0], ["x", "y"]),
        (np.array(["y", -1, "x", None, -1.0], dtype=object), [1, -1, 0, -1, -1], ["x", "y"]),
        (np.array(["-1", "1", ""]), [0, 1, -1], ["-1", "1"]),
        (np.array(["-1", "1", "2"]), [-1, 0, 1], ["1", "2"]),
    ],
)
def test_labels(labels: np.ndarray, codes: list[int], classes: list) -> None:
    found, names = encode_labels(labels)
    assert found.tolist() == codes
    assert names.tolist() == classes
    assert names.dtype != object


def test_labels_of_nullable_pandas_columns() -> None:
    pandas = pytest.importorskip("pandas")
    codes, classes = encode_labels(np.asarray(pandas.Series([4, None, 2], dtype="Int64")))
    assert codes.tolist() == [1, -1, 0]
    assert classes.tolist() == [2, 4]
    codes, classes = encode_labels(np.asarray(pandas.Series(["u", None, "v"], dtype="string")))
    assert codes.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([1, "a"], dtype=object), "name and number labels"),
        (np.array([True, 2], dtype=object), "number and truth value"),
        (np.array(["2024-01-01"], dtype="M8[D]"), "dtype"),
        (np.array([{}, {}], dtype=object), "dict"),
        (np.array([0.0, np.inf]), "infinite"),
    ],
)
def test_labels_that_are_refused(labels: np.ndarray, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        encode_labels(labels)


def test_held_out_rows_are_spread_over_classes_and_leave_one_each() -> None:
    codes = np.array([0] * 10 + [1] * 5 + [2] + [-1] * 4)
    rows = held_out(codes, 0.2, np.random.RandomState(0))
    assert np.bincount(codes[rows], minlength=3).tolist() == [2, 1, 0]
    assert held_out(codes, 0.9, np.random.RandomState(0)).tolist() != []
    assert set(codes) - {-1} <= set(np.delete(codes, held_out(codes, 0.9, np.random.RandomState(0))))
    assert len(held_out(codes, 0.0, np.random.RandomState(0))) == 0


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
    rows = Scaling.of(counts, "auto")
    assert rows.normalize == "row"
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
