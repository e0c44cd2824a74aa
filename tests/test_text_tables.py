"""Import, prediction, the server and the exported predictor read a table in the same way."""

from __future__ import annotations

import csv
import gzip
import io
import re
import time
import tracemalloc
from collections import deque
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssc import text_tables
from gssc.data.molecule_tables import read_smiles_table
from gssc.data.table import read_table
from gssc.deploy import read_rows
from gssc.deploy.export.numpy_predictor import read_table as read_alone
from gssc.errors import GsscError
from gssc.serve.table_process import TableShape
from gssc.serve.table_process import read_table as read_served
from gssc.text_tables import records_of

NAMES = st.lists(
    st.text("ab;, \t'x1.é", min_size=1, max_size=8).map(lambda text: f"n{text}".strip()),
    min_size=2,
    max_size=5,
    unique=True,
)


def every_reading(path: Path, width: int) -> list[tuple[list[str] | None, list[list[float]]]]:
    """Names of columns (the exported predictor gives none) and numbers, by each of the readers."""
    table = read_table(path)
    rows = read_rows(path)
    served = read_served("csv", "t", path.read_bytes(), TableShape(width, None, 1000, 10_000))
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
        ("sep=;\na, b;c\n1;2\n", ["a, b", "c"], [[1, 2]]),  # a line that tells Excel the separator
        ("\nsep=|\na|b\n1|2\n", ["a", "b"], [[1, 2]]),
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04\x14\x00\x08\x8a", "an Excel workbook or a ZIP archive: save the sheet as CSV"),
        ("a,b\n1,2\n".encode("utf-16"), "text in UTF-16: save it as UTF-8"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "compressed: its name must end in .gz"),
        (b"PAR1\x15\x04\x8a", "Parquet: its name must end in .parquet"),
        (b"a,b,,\n1,2,,\n", "t.csv:1: columns 3 and 4 have no name; name or delete them"),
        (b",a,,,,\n1,2,,,,\n", "t.csv:1: columns 1, 3, 4 and 2 more have no name; name or delete them"),
    ],
)
def test_files_of_another_kind_are_recognised(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    for read in (read_table, read_rows):
        with pytest.raises(GsscError, match=re.escape(message)):
            read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("cell", "advice"),
    [
        ("1,5", "write decimals with a point, or read decimal commas with decimal=',' (--decimal ,)"),
        ("1,500", "write thousands without a separator, or read decimal commas with decimal=',' (--decimal ,)"),
        ("-0,314", "write decimals with a point, or read decimal commas with decimal=',' (--decimal ,)"),
        ("1,500,000", "write thousands without a separator"),
        ("-12,500.75", "write thousands without a separator"),
        ("#N/A", "fill in the missing value or leave the row out"),
        ("red", "encode it"),
    ],
)
def test_advice_on_a_cell_that_is_not_a_number(cell: str, advice: str) -> None:
    assert text_tables.advice_on_cell(cell, "encode it") == advice


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


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_the_same_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch, size: int, end: str) -> None:
    """Lines end where the csv module ends them, and not at other marks that Unicode has for it."""
    monkeypatch.setattr(text_tables, "PIECE_BYTES", size)
    lines = ["\ufeffa\u2028b", "", "\u00e4\x0b1", "last"]
    found = list(text_tables.Lines(io.BytesIO(end.join(lines).encode()), Path("t")))
    assert found == ["a\u2028b" + end, end, "\u00e4\x0b1" + end, "last"]


@pytest.mark.parametrize("read", [read_table, read_rows])
def test_a_packed_table_does_not_unpack_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read) -> None:
    monkeypatch.setattr(text_tables, "UNPACKED_BYTES", 10_000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + 1_000_000 * b"1,2\n"))
    with pytest.raises(GsscError, match=r"t\.csv\.gz unpacks to more than [\d,]+ bytes: unpack it first"):
        read(tmp_path / "t.csv.gz")


@pytest.mark.parametrize("damage", ["cut short", "flipped", "trailing"])
@pytest.mark.parametrize("read", [read_table, read_rows, read_smiles_table, records_of])
def test_a_damaged_packed_table_is_one_line_that_names_it(tmp_path: Path, read, damage: str) -> None:
    packed = bytearray(gzip.compress(b"smiles,a,b\n" + b"".join(b"1,%d,2\n" % row for row in range(1000)), mtime=0))
    if damage == "flipped":
        packed[-8] ^= 255  # of the checksum
    changed = {"cut short": packed[:-40], "trailing": packed + b"garbage"}.get(damage, packed)
    (tmp_path / "t.csv.gz").write_bytes(changed)
    with pytest.raises(GsscError, match=r"cannot read \S*t\.csv\.gz: .*; copy it again$"):
        found = read(tmp_path / "t.csv.gz")
        deque(found, maxlen=0)  # records are read as they are asked for


@pytest.mark.parametrize("read", [read_table, read_rows])
def test_a_flipped_bit_in_parquet_is_found_where_its_pages_have_checksums(tmp_path: Path, read) -> None:
    """A flip in a page that is not compressed would only change a number."""
    table = pa.table({"id": np.arange(100), "a": np.arange(100) + 0.5})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, tmp_path / "t.parquet", **options)
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    content[content.index(np.float64(50.5).tobytes())] ^= 1
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(GsscError, match=r"(?s)t\.parquet.*(CRC|checksum)"):
        read(tmp_path / "t.parquet")


@pytest.mark.parametrize("read", [read_table, read_rows])
def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read) -> None:
    monkeypatch.setattr(text_tables, "LONGEST_LINE", 10_000)
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n" + b"1" * 1_000_000)
    with pytest.raises(GsscError, match=r"t\.csv:3: not a text table: the line has over 10,000 characters"):
        read(tmp_path / "t.csv")


def test_many_columns_are_compared_by_name_in_time(tmp_path: Path) -> None:
    """80,000 columns took 92 seconds when every name was counted in all of them."""
    names = [f"c{number}" for number in range(80_000)]
    (tmp_path / "t.csv").write_text(",".join([*names, "c7"]) + "\n")
    start = time.process_time()
    with pytest.raises(GsscError, match="column 'c7' appears twice"):
        read_rows(tmp_path / "t.csv")
    assert time.process_time() - start < 10


def test_one_long_id_does_not_widen_all_others(tmp_path: Path) -> None:
    """An array of fixed width gave every row the room of the longest id: 7.7 GB for a file of 1.5 MB."""
    lines = ["id,a", "x" * 100_000 + ",1", *(f"n{number},{number}" for number in range(2000))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    tracemalloc.start()
    rows = read_rows(tmp_path / "t.csv")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6  # 2,000 times 400,000 bytes in an array of fixed width
    assert rows.ids is not None
    assert [rows.ids[0][:3], *rows.ids[1:3]] == ["xxx", "n0", "n1"]


@pytest.mark.parametrize(
    "text",
    ["a;b\n1,5;2\n", "a\tb\n1,5\t2\n", 'a,b\n"1,5",2\n', '"1,5","2"\n', "1,5;2\n"],
)
def test_decimal_commas_with_every_separator(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert read_rows(path, decimal=",").features.tolist() == [[1.5, 2]]
    assert read_table(path, decimal=",").numbers(read_table(path, decimal=",").names).tolist() == [[1.5, 2]]


def test_decimal_commas_in_a_single_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,5\n2,5\n")
    assert read_rows(path, decimal=",").features.tolist() == [[1.5], [2.5]]
