from __future__ import annotations

import numpy as np
import pytest

from gssc.data.labels import encode_labels
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
