from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssc.deploy import DeployedModel, read_rows
from gssc.errors import GsscError
from gssc.serve.limits import Limits, Refused
from gssc.serve.table_process import TableShape, answer, read_table
from gssc.serve.table_reader import TableReader

SETTINGS = TableShape(width=3, feature_names=None, max_rows=5, max_values=30)
X = np.array([[1, 2, 3], [4, 5.5, -6]], dtype=np.float32)
CSV = b"id,a,b,c\nn0,1,2,3\nn1,4,5.5,-6\n"


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


GOOD = {
    "named": ("csv", CSV),
    "bare": ("csv", b"1,2,3\r\n4,5.5,-6"),
    "mark": ("csv", b"\xef\xbb\xbf" + CSV),
    "semicolons": ("csv", CSV.replace(b",", b";")),
    "tabs": ("tsv", CSV.replace(b",", b"\t")),
    "tabs in csv": ("csv", CSV.replace(b",", b"\t")),
    "index and id": ("csv", b",a,id,b,c\n0,1,p,2,3\n1,4,q,5.5,-6\n"),
    "label": ("csv", b"a,label,b,c\n1,x,2,3\n4,y,5.5,-6\n"),
    "parquet": (
        "parquet",
        parquet({"a": [1, 4], "b": [2.0, 5.5], "c": pa.array([3, -6], pa.int8()), "id": ["p", "q"]}),
    ),
    "decimals": (
        "parquet",
        parquet({"": [0, 1], "a": [1, 4], "b": [Decimal("2.0"), Decimal("5.5")], "c": [3, -6], "id": ["p", "q"]}),
    ),
    "gzip": ("parquet", parquet({"a": [1.0, 4], "b": [2, 5.5], "c": [3.0, -6]}, compression="gzip")),
}


@pytest.mark.parametrize("name", GOOD)
def test_tables_are_read_as_predict_reads_them(name: str, tmp_path: Path) -> None:
    kind, body = GOOD[name]
    rows = read_table(kind, "t", body, SETTINGS)
    np.testing.assert_array_equal(rows.features, X)
    (tmp_path / f"t.{kind}").write_bytes(body)
    expected = read_rows(tmp_path / f"t.{kind}")
    assert (None if rows.ids is None else rows.ids.tolist()) == (
        None if expected.ids is None else expected.ids.tolist()
    )
    if name in ("index and id", "decimals"):
        assert rows.ids is not None
        assert rows.ids.tolist() == ["p", "q"]


def test_columns_are_found_by_name() -> None:
    shape = TableShape(3, ["c", "b", "a"], 5, 30)
    for kind, body in (GOOD["named"], GOOD["parquet"]):
        np.testing.assert_array_equal(read_table(kind, "t", body, shape).features, X[:, ::-1])
    with pytest.raises(GsscError, match="the table lacks 'age'"):
        read_table("csv", "t", CSV, TableShape(3, ["a", "b", "age"], 5, 30))
    with pytest.raises(GsscError, match="the table lacks 'age'"):
        read_table(*GOOD["parquet"][:1], "t", GOOD["parquet"][1], TableShape(3, ["a", "b", "age"], 5, 30))


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("csv", b"\n\n", "t is empty"),
        ("csv", b"a,b,c\n", "t has no rows"),
        ("csv", b"a,b,c\n1,2\n", "t:2: 2 columns where the first line has 3"),
        ("csv", b"a,b,c\n1,2,x\n", "t:2: column 'c' is 'x' where a number belongs"),
        ("csv", b"a,b,c\n1,2,\n", "t:2: column 'c' is empty"),
        ("csv", b"a,b,c\n1,nan,3\n", "t:2: column 'b' is nan"),
        ("csv", b"a,b,c\n1,2,3\n1,1e39,3\n", "t:3: column 'b' is 1e+39"),
        ("csv", b"a,b,b\n1,2,3\n", "column 'b' appears twice"),
        ("csv", b"1,2\n", "rows have 2 features, but the model was trained on 3: give the columns"),
        ("csv", b"1,2,3\n" * 6, "more than 5 rows"),
        ("csv", b"1,2,3\n" * 60, "more than 5 rows"),
        ("csv", b",".join(b"%d" % n for n in range(2001)), "2,001 columns; at most 1,003 can be read"),
        ("csv", b"\n" * 5000, "more than 1,002 blank lines"),
        ("csv", b"a,b,c\n" + b",,\n" * 5000, "more than 1,002 blank lines"),
        ("csv", b"\xff\xfe\x00", "text in UTF-16: save it as UTF-8"),
        ("csv", b"a,b\n\xff", "line 2, byte 0xff is not UTF-8"),
        ("csv", b'a,b,c\n"1', "t:2: not a text table"),
        ("csv", b"id,a,b,c\n" + b"n" * 90 + b",1,2,3\n", "the ids are too long"),
        ("parquet", b"PAR1" * 5, "cannot read t: "),
        ("parquet", GOOD["parquet"][1][:-30], "cannot read t: "),
        ("parquet", parquet({"a": [1.0] * 6}), "more than 5 rows"),
        (
            "parquet",
            parquet({str(n): [1.0] for n in range(31)}),
            "rows have 31 features, but the model was trained on 3",
        ),
        ("parquet", parquet({str(n): [1.0] for n in range(1010)}), "1,010 columns"),
        ("parquet", parquet({"a": [1.0], "b": [[1.0]], "c": [1.0]}), "column 'b' holds list"),
        ("parquet", parquet({"a": [1.0], "b": [{"x": 1}], "c": [1.0]}), "column 'b' holds struct"),
        ("parquet", parquet({"a": [1.0], "b": ["x"], "c": [1.0]}), "column 'b' holds text"),
        ("parquet", parquet({"a": [1.0], "b": [1], "c": [1.0], "id": [[1]]}), "column 'id' holds list"),
        ("parquet", parquet({"a": [1.0, 2], "b": [1, None], "c": [1.0, 2]}), "row 2, column 'b' is empty"),
        (
            "parquet",
            parquet({"a": [1.0, 2], "b": [1.0, 2], "c": [1.0, np.inf]}),
            "row 2, column 'c' is inf: not finite",
        ),
        ("parquet", parquet({"a": [1.0, 2], "b": [1e39, 2], "c": [1.0, 2]}), "row 1, column 'b' is 1e+39: too large"),
        ("parquet", parquet({"a": [1.0], "b": [1.0]}), "rows have 2 features"),
        ("parquet", parquet({"id": [1]}), "rows have 0 features"),
    ],
)
def test_errors_are_explained(kind: str, body: bytes, message: str) -> None:
    with pytest.raises(GsscError) as caught:
        read_table(kind, "t", body, SETTINGS)
    assert message in str(caught.value)


def damaged(body: bytes) -> st.SearchStrategy[bytes]:
    """A file with a few bytes changed, or cut off."""
    edits = st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), max_size=4)

    def apply(choice: tuple[list[tuple[int, int]], int]) -> bytes:
        content = bytearray(body)
        for place, value in choice[0]:
            content[place] = value
        return bytes(content[: choice[1]])

    return st.tuples(edits, st.sampled_from([len(body), len(body), len(body) // 2])).map(apply)


@given(st.sampled_from(["csv", "tsv"]), damaged(CSV) | st.binary(max_size=60))
def test_any_text_is_rows_or_one_sentence(kind: str, body: bytes) -> None:
    try:
        rows = read_table(kind, "t", body, SETTINGS)
    except GsscError:
        return
    assert rows.features.shape == (len(rows), 3)
    assert np.isfinite(rows.features).all()


def test_one_table_after_another_until_there_are_none() -> None:
    request = b'{"kind": "csv", "name": "%s", "decimal": ".", "size": %d}\n%s'
    requests = request % (b"t", len(CSV), CSV) + request % (b"u", 1, b"?")
    stdin, stdout = io.BytesIO(requests), io.BytesIO()
    assert [answer(stdin, stdout, SETTINGS) for _ in range(3)] == [True, True, False]
    head, rest = stdout.getvalue().split(b"\n", 1)
    assert head == b'{"rows": 2, "columns": 3, "ids": ["n0", "n1"]}'
    np.testing.assert_array_equal(np.frombuffer(rest[:24], np.float32).reshape(2, 3), X)
    assert rest[24:].startswith(b'{"error": "u')


def with_reader(model: DeployedModel, work: Callable[[TableReader], Any], **limits: Any) -> None:
    reader = TableReader(model, Limits(**limits))
    try:
        asyncio.run(work(reader))
    finally:
        reader.close()
    assert reader.process is None


async def reads_well(reader: TableReader) -> None:
    rows = await reader.read("csv", "t.csv", CSV)
    np.testing.assert_array_equal(rows.features, X)
    assert rows.ids is not None
    assert rows.ids.tolist() == ["n0", "n1"]


def test_a_file_that_kills_the_reader_is_refused_and_the_next_is_read(model: DeployedModel) -> None:
    # A text of a megabyte, repeated by reference, is a few KB on disk and 2 GB once it is spelled out.
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.int32)), pa.array(["x" * 2**20]))
    columns = {"a": np.ones(2000), "b": np.ones(2000), "c": np.ones(2000), "id": ids}
    bomb = parquet(columns, compression="zstd", store_schema=False)
    assert len(bomb) < 2**16

    async def work(reader: TableReader) -> None:
        await reads_well(reader)
        with pytest.raises(Refused, match="bomb.parquet takes too much memory"):
            await reader.read("parquet", "bomb.parquet", bomb)
        await reads_well(reader)
        assert reader.process is not None
        reader.process.kill()
        reader.process.wait()
        await reads_well(reader)

    with_reader(model, work)


def test_a_reader_that_takes_too_long_is_replaced(model: DeployedModel) -> None:
    async def work(reader: TableReader) -> None:
        slow = b"1,2,3\n" * 400_000
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read("csv", "slow.csv", slow), timeout=0.2)
        await reads_well(reader)

    with_reader(model, work, max_rows=10**6)


@given(body=damaged(GOOD["parquet"][1]) | damaged(GOOD["gzip"][1]))
def test_any_parquet_is_rows_or_one_sentence(parquet_reader, body: bytes) -> None:
    """In the reader's own process: a crash in there would be one sentence, too, but a slow one."""
    try:
        rows = asyncio.run(parquet_reader.read("parquet", "t.parquet", body))
    except Refused:
        return
    assert rows.features.shape == (len(rows.features), 3)
    assert np.isfinite(rows.features).all()


@pytest.fixture(scope="module")
def parquet_reader():
    model = DeployedModel([(np.ones((2, 3)), np.zeros(2))], ["a", "b"])
    reader = TableReader(model, Limits())
    yield reader
    reader.close()
