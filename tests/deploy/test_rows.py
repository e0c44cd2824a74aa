from __future__ import annotations

import csv
import gzip
import warnings
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from gssc.deploy import DeployedModel, read_rows, row_blocks, table_rows, write_predictions
from gssc.deploy import rows as rows_module
from gssc.deploy.export.numpy_predictor import read_table
from gssc.errors import GsscError

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
tables = arrays.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=floats)
ids = st.one_of(
    st.integers(-(2**62), 2**62), st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1)
)


def write_csv(path: Path, header: list[str] | None, rows: list[list[object]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([*([header] if header else []), *rows])
    return path


@given(x=tables)
@settings(deadline=None)
def test_npz_and_npy_round_trip(tmp_path_factory: pytest.TempPathFactory, x: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("rows")
    np.savez(folder / "dense.npz", x=x)
    np.save(folder / "dense.npy", x)
    matrix = sparse.csr_matrix(x)
    parts = {"x_data": matrix.data, "x_indices": matrix.indices, "x_indptr": matrix.indptr, "x_shape": matrix.shape}
    np.savez(folder / "graph.npz", **parts)
    sparse.save_npz(folder / "scipy.npz", matrix)
    for name in ("dense.npz", "dense.npy", "graph.npz", "scipy.npz"):
        features = read_rows(folder / name).features
        np.testing.assert_array_equal(features.toarray() if sparse.issparse(features) else features, x)


@given(x=tables, data=st.data(), delimiter=st.sampled_from([",", "\t"]))
@settings(deadline=None)
def test_text_round_trip(
    tmp_path_factory: pytest.TempPathFactory, x: np.ndarray, data: st.DataObject, delimiter: str
) -> None:
    path = tmp_path_factory.mktemp("rows") / ("rows.csv" if delimiter == "," else "rows.tsv")
    row_ids = data.draw(st.lists(ids, min_size=len(x), max_size=len(x)))
    header = [f"f{index}" for index in range(x.shape[1])]
    cells = [[row_id, *map(repr, row.tolist())] for row_id, row in zip(row_ids, x, strict=True)]
    rows = read_rows(write_csv(path, ["id", *header], cells, delimiter))
    np.testing.assert_array_equal(rows.features, x)
    assert rows.feature_names == header
    assert rows.ids is not None
    assert [str(value) for value in rows.ids.tolist()] == [str(row_id).strip() for row_id in row_ids]


@given(x=tables, data=st.data())
@settings(deadline=None)
def test_parquet_round_trip(tmp_path_factory: pytest.TempPathFactory, x: np.ndarray, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    row_ids = data.draw(st.lists(st.integers(0, 2**62), min_size=len(x), max_size=len(x)))
    columns = {"node_id": row_ids, **{f"f{index}": x[:, index] for index in range(x.shape[1])}}
    pq.write_table(pa.table(columns), path)
    rows = read_rows(path)
    np.testing.assert_array_equal(rows.features, x)
    assert rows.ids is not None
    assert rows.ids.tolist() == row_ids


def test_columns_are_taken_by_name(tmp_path: Path) -> None:
    header, row = ["label", "b", "note", "id", "a"], ["spam", 2, "text", "n7", 1]
    pq.write_table(pa.table({name: [value] for name, value in zip(header, row, strict=True)}), tmp_path / "x.parquet")
    write_csv(tmp_path / "x.csv", header, [row])
    for name in ("x.csv", "x.parquet"):
        rows = read_rows(tmp_path / name, feature_names=["a", "b"])
        assert rows.features.tolist() == [[1.0, 2.0]]
        assert rows.ids is not None
        assert rows.ids.tolist() == ["n7"]
        with pytest.raises(GsscError, match=r"needs 3 feature columns; the table lacks 'c'"):
            read_rows(tmp_path / name, feature_names=["a", "b", "c"])


def test_named_columns_of_an_npz_are_taken_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([[1.0, 2.0]]), feature_names=np.array(["b", "a"]))
    assert read_rows(tmp_path / "x.npz", ["a", "b"]).features.tolist() == [[2, 1]]
    with pytest.raises(GsscError, match="the table lacks 'c'"):
        read_rows(tmp_path / "x.npz", ["a", "c"])


def test_blanks_around_names_make_no_difference(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "x.csv", ["a", " b", "c "], [[1, 2, 3]])
    assert read_rows(path, ["c ", " b", "a"]).features.tolist() == [[3, 2, 1]]


def test_columns_without_a_header_go_by_number_or_by_place(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "x.csv", None, [[7, 1, 2]])
    assert read_rows(path).feature_names == ["column 1", "column 2", "column 3"]
    # what a model knows that was trained on a table without a header, whose first column was taken for the id
    assert read_rows(path, ["column 2", "column 3"]).features.tolist() == [[1.0, 2.0]]
    assert read_rows(path, ["a", "b", "c"]).features.tolist() == [[7.0, 1.0, 2.0]]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_come_from_the_column_that_import_takes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    columns = {"machine": ["m1", "m2"], "site": ["s1", "s2"], "heat": [1.0, 2.0], "label": ["pump", ""]}

    def ids(order: list[str], **options: Any) -> list[Any] | None:
        table = {name: columns[name] for name in order}
        if suffix == ".csv":
            write_csv(path, order, list(zip(*table.values(), strict=True)))
        else:
            pq.write_table(pa.table(table), path)
        found = read_rows(path, ["heat"], **options).ids
        return None if found is None else found.tolist()

    assert ids(["machine", "site", "heat"]) == ["m1", "m2"]  # the first column, which is no feature
    assert ids(["heat", "machine"]) is None
    assert ids(["label", "machine", "heat"]) is None
    assert ids(["machine", "site", "heat"], id_name="site") == ["s1", "s2"]
    with pytest.raises(GsscError, match="no id column 'sites': did you mean 'site'?"):
        ids(["machine", "site", "heat"], id_name="sites")


def test_an_id_column_of_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.eye(2))
    with pytest.raises(GsscError, match="holds arrays, not columns, so there is no 'who'"):
        read_rows(tmp_path / "x.npz", id_name="who")


def test_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id;a;b\n1,5;0,5;-,25\n2;3;1,e2\n")
    rows = read_rows(path, ["a", "b"], decimal=",")
    assert rows.features.tolist() == [[0.5, -0.25], [3, 100]]
    with pytest.raises(GsscError, match=r"x\.csv:2: column 'a' is '0,5' .*--decimal ,"):
        read_rows(path, ["a", "b"])


def test_without_names_ids_labels_and_splits_are_left_out(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "x.csv", ["ID", "w", "Label", "split"], [["007", 1.5, "spam", "train"]])
    rows = read_rows(path)
    assert rows.feature_names == ["w"]
    assert rows.features.tolist() == [[1.5]]
    assert rows.ids is not None
    assert rows.ids.tolist() == ["007"]  # not the number 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),  # no header
        ("0,1\n3,4\n", [[0, 1], [3, 4]]),  # nor here: two numbers do not count columns
        ("0,1,2\n5,6,7\n", [[5, 6, 7]]),  # the header pandas gives unnamed columns
        ("\ufeffa,b\r\n1,2\r\n\r\n", [[1, 2]]),  # as a spreadsheet saves it
        ('a,"b, c"\n1,"2"\n', [[1, 2]]),
        ("a,b\n 1 , 2e0\n", [[1, 2]]),
        ("a;b\n1;2\n", [[1, 2]]),
        ("a\tb\n1\t2\n", [[1, 2]]),
        (",a,b\n7,1,2\n", [[1, 2]]),  # pandas with its index
    ],
)
def test_the_ways_people_write_csv(tmp_path: Path, text: str, expected: list) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode())
    assert read_rows(tmp_path / "x.csv").features.tolist() == expected
    assert read_table(tmp_path / "x.csv", None)[1].tolist() == expected  # the reader of an export


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.csv is empty"),
        ("a,b\n", "x.csv has no rows"),
        ("id\n1\n", "has no feature columns"),
        ("a,b\n1,2\n3,four\n", "x.csv:3: column 'b' is 'four' where a number belongs; fix or drop the row"),
        ("a;b\n1;14,5\n", "x.csv:2: column 'b' is '14,5' where a number belongs; write decimals with a point"),
        ("1,2\n3,\n", "x.csv:2: column 'column 2' is empty; fill it in or drop the row"),
        ("a,b\n1,2\n3\n", "x.csv:3: 1 column where the first line has 2; complete the row"),
        ("a,b\n1,2\n3,4,5\n", "x.csv:3: 3 columns where the first line has 2; remove the extra cells"),
        ("a,b\n1,nan\n", "x.csv:2: column 'b' is nan"),
        ("a,b\n1,2\n-inf,1\n", "x.csv:3: column 'a' is -inf"),
        ("a,b\n1,1e39\n", "x.csv:2: column 'b' is 1e\\+39"),
        ("a,b\n1e308,1e308\n", "x.csv:2: column 'a' is 1e\\+308"),
        ("a,a\n1,2\n", "x.csv:1: column 'a' appears twice"),
        ('a,b\n1,"2\n', "x.csv:2: not a text table: unexpected end"),
        ("a,b\n1,\x002\n", "x.csv:2:"),
    ],
)
def test_wrong_text(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(GsscError, match=message):
        read_rows(tmp_path / "x.csv")


def test_a_binary_file_called_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(bytes(range(128, 256)))
    with pytest.raises(GsscError, match="x.csv: not a text table"):
        read_rows(tmp_path / "x.csv")


def make_npz(path: Path, **values: object) -> None:
    np.savez(path, **values)  # type: ignore[arg-type]


ONE = np.ones(1, dtype=np.int64)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"features": np.ones((2, 2))}, "has no key 'x'.*it has features"),
        ({"x": np.ones(3)}, r"shape \(3,\)"),
        ({"x": np.ones((0, 3))}, "has no rows"),
        ({"x": np.array([[1, np.nan]])}, "row 0, column 1 is NaN"),
        ({"x": np.array([["a"]])}, "must be numbers"),
        ({"x": np.array([[object()]], dtype=object)}, "Python objects"),
        ({"x": np.ones((2, 1)), "node_id": np.arange(3)}, "ids have shape"),
        ({"x": np.ones((1, 1)), "node_id": np.array([b"\xff"])}, r"cannot read .*x.npz: the id b'\\xff' is not UTF-8"),
        ({"x": np.ones((1, 1)), "feature_names": np.array("a")}, r"x.npz: feature_names have shape \(\)"),
        (
            {"x_data": ONE, "x_indices": ONE * 9, "x_indptr": np.array([0, 1]), "x_shape": np.array([1, 3])},
            "cannot read",
        ),
        (
            {"x_data": ONE * np.inf, "x_indices": ONE, "x_indptr": np.array([0, 1]), "x_shape": np.array([1, 3])},
            "column 1",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_wrong_npz(tmp_path: Path, values: dict, message: str) -> None:
    make_npz(tmp_path / "x.npz", **values)
    with pytest.raises(GsscError, match=message):
        read_rows(tmp_path / "x.npz")


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_files(tmp_path: Path, suffix: str, share: float) -> None:
    path = tmp_path / f"x{suffix}"
    x = np.random.default_rng(0).random((200, 4))
    if suffix == ".parquet":
        pq.write_table(pa.table({f"f{index}": x[:, index] for index in range(4)}), path)
    elif suffix == ".npy":
        np.save(path, x)
    else:
        np.savez(path, x=x)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(GsscError, match="cannot read") as caught:
        read_rows(path)
    assert "\n" not in str(caught.value)


def test_wrong_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": ["text"]}), path)
    with pytest.raises(GsscError, match="column 'a' holds text"):
        read_rows(path)
    pq.write_table(pa.table({"a": ["1.5", "2"]}), path)  # as importing takes it
    assert read_rows(path).features.tolist() == [[1.5], [2]]
    pq.write_table(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]), path)
    with pytest.raises(GsscError, match="column 'a' appears twice"):
        read_rows(path)
    pq.write_table(pa.table({"a": [1.0, None]}), path)
    with pytest.raises(GsscError, match="row 2, column 'a' is empty"):
        read_rows(path)
    pq.write_table(pa.table({"a": [1.0, 2.0, float("nan")]}), path)
    with pytest.raises(GsscError, match="row 3, column 'a' is nan: not finite"):
        read_rows(path)


def test_a_parquet_value_that_is_too_large_is_reported_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 1e300]}), tmp_path / "x.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(GsscError, match=r"x.parquet: row 2, column 'a' is 1e\+300: too large"):
            read_rows(tmp_path / "x.parquet")


def test_parquet_decimals_are_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [Decimal("0.5"), Decimal("-2.0")]}), tmp_path / "x.parquet")
    assert read_rows(tmp_path / "x.parquet").features.tolist() == [[0.5], [-2.0]]


@pytest.mark.parametrize(("name", "text"), [("x.csv.gz", "id,a\nn,2\n"), ("X.TSV.GZ", "id\ta\nn\t2\n")])
def test_compressed_text(tmp_path: Path, name: str, text: str) -> None:
    packed = gzip.compress(text.encode())
    (tmp_path / name).write_bytes(packed)
    assert read_rows(tmp_path / name).features.tolist() == [[2]]
    (tmp_path / name).write_bytes(packed[:-9])
    with pytest.raises(GsscError, match="cannot read"):
        read_rows(tmp_path / name)


def test_a_named_id_goes_before_row_numbers_without_a_name(tmp_path: Path) -> None:
    header, row = ["", "node", "Id", "load"], [0, 7, "n1", 2.5]
    write_csv(tmp_path / "x.csv", header, [row])
    pq.write_table(pa.table({name: [value] for name, value in zip(header, row, strict=True)}), tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        rows = read_rows(tmp_path / name)
        assert rows.ids is not None
        assert rows.ids.tolist() == ["n1"]
        assert rows.feature_names == ["load"]
    assert read_table(tmp_path / "x.csv", None)[0] == ["n1"]  # the reader of an export


@pytest.mark.parametrize(
    ("text", "expected"),
    [("who,load,label\nn1,2,x\n", ["n1"]), ("label,load\nx,2\n", None), ("load,who\n2,n1\n", None)],
)
def test_an_export_takes_the_ids_that_prediction_takes(tmp_path: Path, text: str, expected: list[str] | None) -> None:
    (tmp_path / "x.csv").write_text(text)
    rows = read_rows(tmp_path / "x.csv", ["load"])
    assert (None if rows.ids is None else rows.ids.tolist()) == expected
    assert read_table(tmp_path / "x.csv", ["load"])[0] == expected


def test_bytes_are_read_as_text(tmp_path: Path) -> None:
    names = ["a", "\u00e4"]
    pq.write_table(pa.table({"id": [name.encode() for name in names], "f": [1.0, 2.0]}), tmp_path / "x.parquet")
    encoded = np.array([name.encode() for name in names])
    np.savez(tmp_path / "x.npz", x=np.eye(2), node_id=encoded, feature_names=encoded)
    for name in ("x.parquet", "x.npz"):
        rows = read_rows(tmp_path / name)
        assert rows.ids is not None
        assert rows.ids.tolist() == names
    assert read_rows(tmp_path / "x.npz").feature_names == names
    pq.write_table(pa.table({"id": [b"\xff"], "f": [1.0]}), tmp_path / "x.parquet")
    with pytest.raises(GsscError, match=r"cannot read .*x.parquet: the id b'\\xff' is not UTF-8"):
        read_rows(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (b"}", b" "),
        (b"(2, 2), }" + b" " * 19, b"(20000000000000000000, 2), }"),
        (b"(2, 2), }" + b" " * 13, b"(20000000000000, 2), }"),
        (b"<f8", b"<08"),
    ],
)
def test_an_array_whose_header_is_damaged(tmp_path: Path, right: bytes, wrong: bytes) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    content = (tmp_path / "x.npy").read_bytes()
    assert right in content
    (tmp_path / "x.npy").write_bytes(content.replace(right, wrong))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    for name in ("x.npy", "x.npz"):
        with pytest.raises(GsscError, match=f"cannot read .*{name}"):
            read_rows(tmp_path / name)


@pytest.mark.parametrize(("at", "value"), [(10, 99), (8, 1)])  # compression method and encryption of a zip entry
def test_an_npz_with_a_damaged_entry(tmp_path: Path, at: int, value: int) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((2, 2)))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[content.rindex(b"PK\x01\x02") + at] = value
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(GsscError, match="cannot read .*x.npz"):
        read_rows(tmp_path / "x.npz")


def test_a_sparse_shape_that_is_none(tmp_path: Path) -> None:
    parts = {"x_data": np.ones(1), "x_indices": np.zeros(1, int), "x_indptr": np.array([0, 1]), "x_shape": np.array(2)}
    np.savez(tmp_path / "x.npz", **parts)
    with pytest.raises(GsscError, match="cannot read .*x.npz"):
        read_rows(tmp_path / "x.npz")


def test_ids_of_any_size_are_carried_over(tmp_path: Path) -> None:
    model = DeployedModel([(np.ones((2, 1)), np.zeros(2))], ["a", "b"])
    ids = np.array([2**64 - 1, 7], dtype=np.uint64)
    write_predictions(tmp_path / "p.parquet", model, np.full((2, 2), 0.5), ids)
    assert pq.read_table(tmp_path / "p.parquet").to_pydict()["id"] == ids.tolist()


def test_a_wrong_width_names_the_file_and_what_to_give(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 3)))
    with pytest.raises(GsscError, match=r"x.npy: rows have 3 features, .* trained on 2: give .* \(load, heat\)"):
        read_rows(tmp_path / "x.npy", ["load", "heat"])


def test_unusable_paths(tmp_path: Path) -> None:
    for name, message in (("x.xlsx", "must end in"), ("x.csv", "no such file")):
        with pytest.raises(GsscError, match=message):
            read_rows(tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GsscError, match="it is a folder"):
        read_rows(tmp_path / "folder.csv")


@pytest.mark.parametrize("row_ids", [None, np.array([5, 3]), np.array(["x,1", 'y"2'])])
@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_predictions_read_back(model: DeployedModel, tmp_path: Path, row_ids: np.ndarray | None, task: str) -> None:
    model.task = task  # type: ignore[assignment]
    probabilities = np.array([[0.75, 0.25], [0.1, 0.9]], dtype=np.float32)
    if task == "multilabel":
        probabilities[0, 1] = 0.5
    for suffix in (".csv", ".parquet", ".npz"):
        write_predictions(tmp_path / f"p{suffix}", model, probabilities, row_ids)
    key = "row" if row_ids is None else "id"
    expected_ids = [0, 1] if row_ids is None else row_ids.tolist()
    expected = ["cat" if task == "multiclass" else "cat;dog", "dog"]

    table = pq.read_table(tmp_path / "p.parquet").to_pydict()
    assert list(table) == [key, "prediction", "probability_cat", "probability_dog"]
    assert (table[key], table["prediction"]) == (expected_ids, expected)
    np.testing.assert_array_equal(np.array(table["probability_dog"], dtype=np.float32), probabilities[:, 1])

    with (tmp_path / "p.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == list(table)
    assert [line[0] for line in lines] == [str(value) for value in expected_ids]
    np.testing.assert_array_equal(np.array([line[2:] for line in lines], dtype=np.float32), probabilities)

    with np.load(tmp_path / "p.npz") as file:
        assert file[key].tolist() == expected_ids
        assert file["prediction"].tolist() == expected
        np.testing.assert_array_equal(file["probability"], probabilities)
        assert file["class_names"].tolist() == ["cat", "dog"]


def test_an_existing_output_is_kept(model: DeployedModel, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("mine")
    probabilities = np.array([[0.5, 0.5]], dtype=np.float32)
    with pytest.raises(GsscError, match="exists already.*--overwrite"):
        write_predictions(path, model, probabilities)
    assert path.read_text() == "mine"
    write_predictions(path, model, probabilities, overwrite=True)
    assert path.read_text().startswith("row,prediction")


def test_formulas_are_defused_in_csv_alone(tmp_path: Path) -> None:
    model = DeployedModel([(np.ones((2, 1)), np.zeros(2))], ["=1+1", "b"])
    ids = np.array(["=cmd|' /c calc'!A1", "-5", "@x", "a=b"], dtype=object)
    probabilities = np.array([[1, 0], [0, 1], [0, 1], [0, 1]], dtype=np.float32)
    for suffix in (".csv", ".parquet"):
        write_predictions(tmp_path / f"p{suffix}", model, probabilities, ids)
    with (tmp_path / "p.csv").open(newline="") as file:
        _, *lines = csv.reader(file)
    assert [line[0] for line in lines] == ["'=cmd|' /c calc'!A1", "-5", "'@x", "a=b"]
    assert [line[1] for line in lines] == ["'=1+1", "b", "b", "b"]
    assert pq.read_table(tmp_path / "p.parquet").to_pydict()["id"] == ids.tolist()


def test_ids_too_long_for_npz_are_refused(model: DeployedModel, tmp_path: Path) -> None:
    ids = np.array(["x" * 1_000_000, *map(str, range(99))], dtype=object)
    probabilities = np.full((100, 2), 0.5, dtype=np.float32)
    with pytest.raises(GsscError, match="text of 1,000,000 characters is too long for .npz; write .csv or .parquet"):
        write_predictions(tmp_path / "p.npz", model, probabilities, ids)
    write_predictions(tmp_path / "p.csv", model, probabilities, ids)


def test_blocks_are_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "BLOCK_ROWS", 4)
    monkeypatch.setattr(rows_module, "ARRAY_ROWS", 4)
    x = np.random.default_rng(0).random((10, 3), dtype=np.float32)
    ids = [*map(str, range(9)), "x"]
    (tmp_path / "t.csv").write_text(
        "id,a,b,c\n" + "".join(f"{i},{','.join(map(str, r))}\n" for i, r in zip(ids, x, strict=True))
    )
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "id": ids}), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", x=x, node_id=np.array(ids))
    for name in ("t.csv", "t.parquet", "t.npz"):
        blocks = list(row_blocks(tmp_path / name))
        assert [len(block) for block in blocks] == [4, 4, 2]
        np.testing.assert_array_equal(np.concatenate([block.features for block in blocks]), x)
        whole = read_rows(tmp_path / name)
        assert whole.ids is not None
        assert [value for block in blocks for value in block.ids.tolist()] == whole.ids.tolist() == ids
