"""The same table means the same to importing, to predicting, to the server and to the predictor that travels alone."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssc.data.readers import read_table
from gssc.deploy import read_rows
from gssc.deploy.export.numpy_predictor import read_table as read_alone
from gssc.deploy.serve.reader import Settings
from gssc.deploy.serve.reader import read_table as read_served
from gssc.errors import GsscError

NAMES = st.lists(
    st.text("ab;, \t'x1.é", min_size=1, max_size=8).map(lambda text: f"n{text}".strip()),
    min_size=2,
    max_size=5,
    unique=True,
)


def every_reading(path: Path, width: int) -> list[tuple[list[str] | None, list[list[float]]]]:
    """Names of columns (the predictor that travels alone gives none) and numbers, by each of the readers."""
    table = read_table(path)
    rows = read_rows(path)
    served = read_served("csv", "t", path.read_bytes(), Settings(width, None, 1000, 10_000))
    return [
        (table.names, table.numbers(table.names).tolist()),
        (rows.feature_names, rows.features.tolist()),
        (served.feature_names, served.features.tolist()),
        (None, read_alone(path, None)[1].tolist()),
    ]


@given(names=NAMES, seed=st.integers(0, 99), mark=st.sampled_from(",;\t"))
def test_every_reader_finds_the_same(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], seed: int, mark: str
) -> None:
    values = np.random.default_rng(seed).normal(size=(3, len(names))).astype(np.float32)
    marked = any(other in name for name in names for other in ",;\t")
    quoting = csv.QUOTE_NONNUMERIC if marked else csv.QUOTE_MINIMAL  # marks in names without quotes could mean either
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=mark, quoting=quoting)
        writer.writerow(names)
        writer.writerows(values.tolist())
    for found_names, numbers in every_reading(path, len(names)):
        assert found_names in (names, None)
        assert numbers == values.tolist()


@pytest.mark.parametrize(
    ("text", "names", "numbers"),
    [
        ("0,1,2\n5,6,7\n", ["0", "1", "2"], [[5, 6, 7]]),  # what pandas calls columns without names
        ("0,1\n5,6\n", ["column 1", "column 2"], [[0, 1], [5, 6]]),
        ("5,6,7\n\n \n0,1,2\n", ["column 1", "column 2", "column 3"], [[5, 6, 7], [0, 1, 2]]),
        ('"a;b;c",d\n1,2\n', ["a;b;c", "d"], [[1, 2]]),
        ("\n \na;b\n1;2\n", ["a", "b"], [[1, 2]]),
    ],
)
def test_first_lines(tmp_path: Path, text: str, names: list[str], numbers: list[list[float]]) -> None:
    (tmp_path / "t.csv").write_text(text)
    for found_names, found in every_reading(tmp_path / "t.csv", len(names)):
        assert found_names in (names, None)
        assert found == numbers


@pytest.mark.parametrize(("header", "expected"), [("0,1", [[5, 6]]), ("1,0", [[6, 5]])])
def test_a_model_finds_its_own_names_even_if_they_are_numbers(
    tmp_path: Path, header: str, expected: list[list[float]]
) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n5,6\n")
    assert read_rows(tmp_path / "t.csv", ["0", "1"]).features.tolist() == expected
    assert read_alone(tmp_path / "t.csv", ["0", "1"])[1].tolist() == expected


def test_columns_without_names_are_found_by_number(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("7,1,2\n8,3,4\n")
    assert read_rows(tmp_path / "t.csv", ["column 2", "column 3"]).features.tolist() == [[1, 2], [3, 4]]
    assert read_alone(tmp_path / "t.csv", ["column 2", "column 3"])[1].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_what_is_no_text_is_found_by_line(tmp_path: Path, name: str) -> None:
    content = b"a,b\n" + 9000 * b"1,2\n" + b"1,\xff\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    for read in (read_table, read_rows):
        with pytest.raises(GsscError, match="line 9002, byte 0xff"):
            read(tmp_path / name)


def test_three_numbers_may_be_an_edge_and_its_weight(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1,2\n1,2,2\n")
    assert read_table(tmp_path / "edges.csv", of_edges=True).texts("column 1") == ["0", "1"]


@pytest.mark.parametrize("name", ["t.csv", "t.CSV.GZ", "t.tsv", "t.tab", "t.txt", "t.txt.gz", "t.parquet", "t.pq"])
def test_what_can_be_imported_can_be_predicted(tmp_path: Path, name: str) -> None:
    path, mark = tmp_path / name, "\t" if name.startswith(("t.tsv", "t.tab")) else ";"
    text = f"a{mark}b\n1{mark}2.5\n"
    if name.startswith("t.p"):
        pq.write_table(pa.table({"a": [1], "b": [2.5]}), path)
    elif name.lower().endswith("gz"):
        path.write_bytes(gzip.compress(text.encode("utf-8-sig")))
    else:
        path.write_text(text)
    assert read_table(path).numbers(["a", "b"]).tolist() == [[1, 2.5]]
    assert read_rows(path).features.tolist() == [[1, 2.5]]
