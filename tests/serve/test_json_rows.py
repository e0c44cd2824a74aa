from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssc.serve.json_rows import LARGEST, SparseRequest, join, parse
from gssc.serve.limits import Limits, Refused

LIMITS = Limits(max_rows=4)


def read(text: str | bytes, names: list[str] | None = None):
    return parse(text if isinstance(text, bytes) else text.encode(), 3, names, LIMITS)


def refusal(text: str | bytes, names: list[str] | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        read(text, names)
    return caught.value


def test_dense_rows() -> None:
    rows = read('{"rows": [[1, 2.5, -3], [0, 1e3, 0.1]]}')
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.array([[1, 2.5, -3], [0, 1000, 0.1]], dtype=np.float32))


def test_sparse_rows_are_the_dense_ones() -> None:
    rows = read('{"indices": [[2, 0], [], [1.0]], "values": [[5, 1.5], [], [2]]}')
    assert isinstance(rows, SparseRequest)
    assert len(rows) == 3
    np.testing.assert_array_equal(join([rows], 3).toarray(), [[1.5, 0, 5], [0, 0, 0], [0, 2, 0]])
    np.testing.assert_array_equal(join([rows, rows], 3).toarray()[3:], join([rows], 3).toarray())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('--xx\r\nContent-Disposition: form-data; name="file"', "; send a table to /predict/file"),
        ('{"rows": [[1, 2, 3]]} x', "not JSON"),
        ("[" * 9, "not JSON"),
        ('{"rows": [[1, 2, ' + "9" * 5000 + "]]}", "not JSON: number out of range"),
        ("[[1, 2, 3]]", 'the body must be {"rows"'),
        ("3", 'the body must be {"rows"'),
        ("{}", 'the body must be {"rows"'),
        ('{"rows": [[1, 2, 3]], "path": 1}', 'the body must be {"rows"'),
        ('{"indices": [[0]]}', 'the body must be {"rows"'),
        ('{"rows": [[1, 2, 3]], "indices": [[0]], "values": [[1]]}', 'the body must be {"rows"'),
        ('{"rows": {"0": [1, 2, 3]}}', "not objects"),
        ('{"rows": null}', "rows is null; it must be a list with one list or object per row"),
        ('{"rows": "/etc/passwd"}', "rows is '/etc/passwd'; it must be a list"),
        ('{"rows": []}', "rows is empty"),
        ('{"rows": [[1, 2, 3], 4]}', "row 1 of rows is 4; it must be a list of numbers"),
        ('{"rows": [[1, 2, 3], [1, 2]]}', "row 1 has 2 columns, but the model was trained on 3"),
        ('{"rows": [[1, 2, 3, 4]]}', "row 0 has 4 columns"),
        ('{"rows": [[1, 2, 3], [1, "2", 3]]}', "row 1, column 1 is '2'; it must be a number"),
        ('{"rows": [[1, 2, null]]}', "row 0, column 2 is null; it must be a number"),
        ('{"rows": [[true, 2, 3]]}', "row 0, column 0 is true or false; it must be a number"),
        ('{"rows": [[1, [2], 3]]}', "row 0, column 1 is a list; it must be a number"),
        ('{"rows": [[1, NaN, 3]]}', "row 0, column 1 is nan; it must be finite"),
        ('{"rows": [[1, 2, 3], [1, 2, -Infinity]]}', "row 1, column 2 is -inf; it must be finite"),
        ('{"rows": [[1e999, 2, 3]]}', "row 0, column 0 is inf; it must be finite"),
        ('{"rows": [[1, 2, 3.5e38]]}', "row 0, column 2 is 3.5e+38; it must be finite and fit into float32"),
        ('{"rows": [[1, 2, ' + "9" * 400 + "]]}", "row 0, column 2 is a whole number with more than 30 digits"),
        ('{"indices": [[0]], "values": [[1], [2]]}', "indices has 1 row and values 2"),
        ('{"indices": [[0], [1, 2]], "values": [[1], [2]]}', "row 1 has 2 indices and 1 values"),
        ('{"indices": [[3]], "values": [[1]]}', "row 0, index 0 is 3; it must be a whole number from 0 to 2"),
        ('{"indices": [[0, -1]], "values": [[1, 1]]}', "row 0, index 1 is -1"),
        ('{"indices": [[0.5]], "values": [[1]]}', "row 0, index 0 is 0.5"),
        ('{"indices": [[true]], "values": [[1]]}', "row 0, index 0 is true or false"),
        ('{"indices": [[NaN]], "values": [[1]]}', "row 0, index 0 is nan"),
        ('{"indices": [[' + "9" * 40 + ']], "values": [[1]]}', "row 0, index 0 is a whole number with more than"),
        ('{"indices": [[], [1, 1]], "values": [[], [1, 2]]}', "row 1 has column 1 twice"),
        ('{"indices": [[], [2]], "values": [[], ["x"]]}', "row 1, column 2 is 'x'; it must be a number"),
        ('{"indices": [[2]], "values": [[NaN]]}', "row 0, column 2 is nan; it must be finite"),
    ],
)
def test_errors_are_explained(body: str, message: str) -> None:
    refused = refusal(body)
    assert refused.status == 422
    assert message in refused.message
    assert len(refused.message) < 200


def test_columns_are_named_if_the_model_has_names() -> None:
    assert refusal('{"rows": [[1, 2, null]]}', ["a", "b", "age"]).message.startswith("row 0, column 2 ('age') is null")


NAMES = ["mean radius", "a:b", "age"]


def test_rows_by_name_are_the_rows_in_order() -> None:
    body = '{"rows": [{"age": 3, "mean radius": 1.5, "a:b": -2}, {"id": "x:y", "a:b": 0, "mean radius": 7, "age": 9}]}'
    np.testing.assert_array_equal(read(body, NAMES), np.array([[1.5, -2, 3], [7, 0, 9]], dtype=np.float32))


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ('{"rows": [{"age": 3, "a:b": 1}]}', 422, "row 0 lacks 'mean radius'; an object must have all 3 features"),
        ('{"rows": [{"age": 3, "a:b": 1, "mean radius": 1}, {}]}', 422, "row 1 lacks 'mean radius' and 2 more"),
        (
            '{"rows": [{"age": 3, "a:b": 1, "mean radius": 1}, [1, 2, 3]]}',
            422,
            "row 1 of rows is a list; it must be",
        ),
        ('{"rows": [[1, 2, 3], {"age": 3}]}', 422, "row 1 of rows is an object; it must be a list of numbers"),
        ('{"rows": [{"age": "3", "a:b": 1, "mean radius": 1}]}', 422, "row 0, column 2 ('age') is '3'; it must be a"),
        ('{"rows": [{"age": {}, "a:b": 1, "mean radius": 1}]}', 422, "row 0, column 2 ('age') is an object; it must"),
        ('{"rows": {"age": 3}}', 422, "rows is an object; it must be a list"),
        ('{"rows": [{}, {}, {}, {}, {}]}', 413, "more than 4 rows"),
        ('{"rows": [{' + ", ".join(f'"{n}": 1' for n in range(500)) + "}]}", 422, "have too many fields"),
    ],
)
def test_errors_in_named_rows_are_explained(body: str, status: int, message: str) -> None:
    refused = refusal(body, NAMES)
    assert refused.status == status
    assert message in refused.message


def test_too_many_rows_are_refused_before_they_are_parsed() -> None:
    assert len(read(json.dumps({"rows": [[1, 2, 3]] * 4}))) == 4
    assert refusal(json.dumps({"rows": [[1, 2, 3]] * 5})).status == 413
    # Not even JSON, which nobody found out.
    assert refusal(b'{"rows": [' + b"[]," * 1000).status == 413


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=12)
bodies = st.one_of(
    st.fixed_dictionaries({"rows": st.lists(st.dictionaries(st.sampled_from([*NAMES, "x"]), scalars), max_size=5)}),
    st.fixed_dictionaries({"rows": st.lists(st.lists(scalars, max_size=4) | anything, max_size=5)}),
    st.fixed_dictionaries({"indices": st.lists(st.lists(st.integers(-1, 3) | scalars)), "values": anything}),
    st.fixed_dictionaries({"indices": anything, "values": st.lists(st.lists(st.floats()))}),
    anything,
).map(lambda value: json.dumps(value).encode())


@given(bodies | st.binary(max_size=40), st.booleans())
def test_any_body_is_rows_or_a_refusal(body: bytes, names: bool) -> None:
    try:
        rows = read(body, NAMES if names else None)
    except Refused:
        return
    matrix = join([rows], 3)
    dense = matrix.toarray() if isinstance(rows, SparseRequest) else matrix
    assert dense.shape == (len(rows), 3)
    assert np.isfinite(dense).all()


numbers = st.floats(-LARGEST, LARGEST) | st.integers(-(10**20), 10**20)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=4))
def test_every_finite_number_arrives_rounded_to_float32(rows: list[list[float]]) -> None:
    found = read(json.dumps({"rows": rows}))
    expected = [[np.float32(float(value)) for value in row] for row in rows]
    assert found.tolist() == [[float(value) for value in row] for row in expected]
    assert all(math.isfinite(value) for row in found.tolist() for value in row)
