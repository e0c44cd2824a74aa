from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from gssc.errors import GsscError
from gssc.evaluate.store import COLUMNS, RENAMED, Store


def a_row(key: str, **changes):
    values = {"TEXT": "x", "INTEGER": 0, "REAL": 0.5}
    row = {name: values[kind.split()[0]] for name, kind in COLUMNS.items()}
    return (
        row | {"key": key, "status": "done", "config": {"a": 1}, "noise": {}, "versions": {}, "error": None} | changes
    )


def test_what_is_put_comes_back(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    store.put(a_row("one", test_score=0.8125))
    (row,) = Store(tmp_path / "r.sqlite").runs()
    assert row["key"] == "one"
    assert row["test_score"] == 0.8125
    assert row["config"] == '{"a": 1}'
    assert store.status("one") == ("done", "x")
    assert store.status("two") is None


def test_a_failure_never_replaces_a_result_and_a_result_replaces_a_failure(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    store.put(a_row("one", status="failed", error="first"))
    store.put(a_row("one", status="failed", error="second"))
    assert [row["error"] for row in store.runs()] == ["second"]
    store.put(a_row("one"))
    store.put(a_row("one", status="failed", error="late"))
    assert store.statuses() == {"one": ("done", "x")}


def test_rows_of_some_keys(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    for key in "abc":
        store.put(a_row(key))
    assert [row["key"] for row in store.runs(["c", "a"])] == ["a", "c"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("test_score", "'high'", "test_score 'high' where a number belongs"),
        ("test_score", "9e999", "test_score 'inf' where a number belongs"),
        ("model", "x'ff'", "where text belongs"),
        ("seed", "'first'", "seed 'first' where a number belongs"),
        ("config", "'{\"a\": '", "where JSON belongs"),
        ("versions", "'[1]'", "where JSON belongs"),
        ("status", "'perhaps'", "status 'perhaps'"),
        ("test_score", "0.9", "a digest that is not that of its values"),
        ("finished_at", "cast(x'ff' as text)", "cannot use the results store"),
    ],
)
def test_an_edited_row_is_one_line(tmp_path, column, value, message):
    path = tmp_path / "r.sqlite"
    Store(path).put(a_row("one"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE runs SET {column} = {value}")
    with pytest.raises(GsscError, match=message) as caught:
        Store(path).runs()
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "r.sqlite").write_bytes(b"plainly not a database" * 100)
    with pytest.raises(GsscError, match="cannot use the results store"):
        Store(tmp_path / "r.sqlite").runs()


def test_a_store_of_another_version(tmp_path):
    with sqlite3.connect(tmp_path / "r.sqlite") as connection:
        connection.execute("CREATE TABLE runs (key TEXT PRIMARY KEY)")
    connection.close()
    with pytest.raises(GsscError, match="another version"):
        Store(tmp_path / "r.sqlite").runs()


def test_a_store_of_the_version_before_is_brought_up_to_date(tmp_path):
    path = tmp_path / "r.sqlite"
    Store(path).put(a_row("one", test_score=0.75))
    with closing(sqlite3.connect(path)) as connection, connection:
        for old, new in RENAMED.items():
            connection.execute(f"ALTER TABLE runs RENAME COLUMN {new} TO {old}")
        connection.execute("ALTER TABLE runs DROP COLUMN metric")
        connection.execute("ALTER TABLE runs DROP COLUMN digest")
    store = Store(path)
    store.put(a_row("two"))
    assert [(row["key"], row["metric"], row["test_score"]) for row in store.runs()] == [
        ("one", "accuracy", 0.75),
        ("two", "x", 0.5),
    ]


def test_no_folder(tmp_path):
    with pytest.raises(GsscError, match="cannot open"):
        Store(tmp_path / "nowhere" / "r.sqlite").runs()


WRITER = """
import sys
from pathlib import Path
from gssc.evaluate.store import COLUMNS, Store
store = Store(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    key = f"{sys.argv[2]}-{number}"
    row = {name: "x" if "TEXT" in kind else 0 for name, kind in COLUMNS.items()}
    store.put(row | {"key": key, "status": "done", "config": {}, "noise": {}, "versions": {}})
    print(number, flush=True)
"""


def writer(path, name: str, count: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_writing_at_once_lose_nothing(tmp_path):
    path = tmp_path / "r.sqlite"
    both = [writer(path, name, 60) for name in ("left", "right")]
    assert [process.wait(60) for process in both] == [0, 0]
    for process in both:
        process.stdout.close()
    assert len(Store(path).runs()) == 120


def test_a_killed_writer_leaves_every_row_it_said_it_wrote(tmp_path):
    path = tmp_path / "r.sqlite"
    process = writer(path, "killed", 100_000)
    written = 0
    for line in process.stdout:
        written = int(line) + 1
        if written >= 20:
            break
    process.kill()
    rest = process.stdout.read().split()
    process.wait(10)
    process.stdout.close()
    written = max([written, *(int(number) + 1 for number in rest if number.isdigit())])
    time.sleep(0.1)
    assert written <= len(Store(path).runs()) <= written + 1
