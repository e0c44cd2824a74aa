from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from gssc.cli import predict as predict_module
from gssc.cli.main import main
from gssc.deploy import DeployedModel
from gssc.deploy import rows as rows_module
from gssc.progress_bar import ProgressBar

X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [3.0, 1.0, 0.0]], dtype=np.float32)


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, Path]:
    """The same three rows in every form."""
    np.savez(tmp_path / "dense.npz", x=X)
    matrix = sparse.csr_matrix(X)
    parts = {"x_data": matrix.data, "x_indices": matrix.indices, "x_indptr": matrix.indptr, "x_shape": matrix.shape}
    np.savez(tmp_path / "sparse.npz", **parts)
    np.save(tmp_path / "rows.npy", X)
    lines = ["id,a,b,c", *(f"n{index},{','.join(map(str, row))}" for index, row in enumerate(X.tolist()))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "id": ["n0", "n1", "n2"]}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    return {path.name: path for path in tmp_path.iterdir() if path.is_file()}


@pytest.mark.parametrize("source", ["dense.npz", "sparse.npz", "rows.npy", "rows.csv", "rows.parquet"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz"])
def test_every_form_gives_the_same(model, model_folder, rows, tmp_path, capsys, source: str, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    assert main(["predict", str(model_folder), str(rows[source]), "--out", str(out)]) == 0
    assert "3 rows" in capsys.readouterr().out
    if suffix == ".npz":
        with np.load(out) as file:
            found = file["probability"]
    elif suffix == ".csv":
        found = np.genfromtxt(out, delimiter=",", skip_header=1, usecols=(2, 3))
    else:
        table = pq.read_table(out)
        found = np.stack([table.column(f"probability_{name}").to_numpy() for name in ("cat", "dog")], axis=1)
        if source in ("rows.csv", "rows.parquet"):
            assert table.column("id").to_pylist() == ["n0", "n1", "n2"]
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-5)


def test_ids_and_decimal_commas_by_option(model_folder: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    table.write_text("a;b;c;who\n1,0;0;2,0;x\n0;0,0;0;y\n")
    command = ["predict", str(model_folder), str(table), "--out", str(out), "--id", "who", "--decimal", ","]
    assert main(command) == 0
    assert [line.split(",")[0] for line in out.read_text().split()] == ["id", "x", "y"]


def test_the_real_command(gssc, model_folder: Path, rows: dict[str, Path], tmp_path: Path) -> None:
    run = gssc("predict", model_folder, rows["rows.csv"], "--out", "predictions.parquet")
    assert (run.returncode, run.stderr) == (0, "")
    assert "cat" in run.stdout
    assert "3 rows" in run.stdout
    assert pq.read_table(tmp_path / "predictions.parquet").num_rows == 3


def test_many_rows_show_progress(model, model_folder, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows_module, "ARRAY_ROWS", 3)
    monkeypatch.setattr(ProgressBar, "update", lambda bar, done, note="": updates.append((done, bar.total, bar.unit)))
    updates: list[tuple[int, int, str]] = []
    x = np.random.default_rng(0).random((10, 3), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    assert main(["predict", str(model_folder), str(tmp_path / "x.npy"), "--out", str(tmp_path / "p.npz")]) == 0
    assert updates == [(done, 10, "rows") for done in (3, 6, 9, 10)]
    assert capsys.readouterr().err == ""  # it took less than ten seconds
    with np.load(tmp_path / "p.npz") as file:
        np.testing.assert_allclose(file["probability"], model.predict_proba(x), rtol=1e-5)


def test_more_classes_than_fit_a_summary(tmp_path: Path, capsys) -> None:
    classes = predict_module.SHOWN_CLASSES + 3
    DeployedModel([(np.eye(classes), np.zeros(classes))], [f"c{i}" for i in range(classes)]).save(tmp_path / "run")
    np.save(tmp_path / "x.npy", np.eye(classes))
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "x.npy"), "--out", str(tmp_path / "p.csv")]) == 0
    assert "3 more" in capsys.readouterr().out


def damage_weights(run: Path, rows: dict[str, Path]) -> None:
    content = bytearray((run / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "model.safetensors").write_bytes(bytes(content))


def damage_names(run: Path, rows: dict[str, Path]) -> None:
    description = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps({**description, "class_names": ["dog", "cat"]}))


def cut(name: str):
    def damage(run: Path, rows: dict[str, Path]) -> None:
        content = rows[name].read_bytes()
        rows[name].write_bytes(content[: len(content) // 2])

    return damage


def rewrite(text: str):
    return lambda run, rows: rows["rows.csv"].write_text(text)


@pytest.mark.parametrize(
    ("damage", "source", "message"),
    [
        (rewrite("id,a,b\n1,2,3\n"), "rows.csv", "rows.csv: rows have 2 features, but the model was trained on 3"),
        (rewrite("a,b,c\n"), "rows.csv", "rows.csv has no rows"),
        (rewrite(""), "rows.csv", "rows.csv is empty"),
        (rewrite("a,b,c\n1,two,3\n"), "rows.csv", "rows.csv:2: column 'b' is 'two' where a number belongs"),
        (rewrite("a,b,c\n1,2,3\n1,2"), "rows.csv", "rows.csv:3: 2 columns where the first line has 3"),
        (cut("dense.npz"), "dense.npz", "cannot read"),
        (cut("rows.npy"), "rows.npy", "cannot read"),
        (cut("rows.parquet"), "rows.parquet", "cannot read"),
        (lambda run, rows: None, "nothing.csv", "there is no such file"),
        (lambda run, rows: None, "rows.xlsx", "must end in one of"),
        (damage_weights, "rows.csv", "digest differs"),
        (damage_names, "rows.csv", "was changed after it was written"),
        (lambda run, rows: (run / "model.json").unlink(), "rows.csv", "is not a model folder"),
    ],
)
def test_bad_input(gssc, model_folder, rows, tmp_path, damage, source: str, message: str) -> None:
    damage(model_folder, rows)
    before = sorted(tmp_path.rglob("*"))
    run = gssc("predict", model_folder, source, "--out", "out.csv")
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
    assert message in run.stderr
    assert sorted(tmp_path.rglob("*")) == before, "something was left behind"


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("out.xlsx", "must end in one of .parquet, .csv, .npz"),
        ("nowhere/out.csv", "there is no folder nowhere"),
        ("taken.csv", "exists already"),
        ("run", "must end in"),
        ("/proc/out.csv", "cannot write /proc/out.csv"),
    ],
)
def test_outputs_that_cannot_be(gssc, model_folder, rows, tmp_path, out: str, message: str) -> None:
    (tmp_path / "taken.csv").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    run = gssc("predict", model_folder, "rows.csv", "--out", out)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert (tmp_path / "taken.csv").read_text() == "mine"
    assert sorted(tmp_path.rglob("*")) == before


def test_overwrite_replaces(gssc, model_folder, rows, tmp_path) -> None:
    (tmp_path / "taken.csv").write_text("mine")
    assert gssc("predict", model_folder, "rows.csv", "--out", "taken.csv", "--overwrite").returncode == 0
    assert (tmp_path / "taken.csv").read_text().startswith("id,prediction")


def test_a_stream_in_and_a_stream_out(model: DeployedModel, model_folder: Path, tmp_path: Path) -> None:
    """The predictions of a row come before the next row does, so that a pipe can run for days."""
    command = [sys.executable, "-m", "gssc", "predict", str(model_folder), "-", "-o", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("id,a,b,c\nx,1,0,2\n")
        process.stdin.flush()
        assert process.stdout.readline() == "id,prediction,probability_cat,probability_dog\n"
        key, name, *numbers = process.stdout.readline().strip().split(",")
        expected = model.predict_proba(X[:1])
        assert (key, name) == ("x", model.class_names[int(expected.argmax())])
        np.testing.assert_allclose(np.array(numbers, dtype=float), expected[0], rtol=1e-5)
        process.stdin.write("y,0,0,0\nz,3,1,0\n")
        process.stdin.close()
        assert [line.partition(",")[0] for line in process.stdout] == ["y", "z"]
        assert "3 rows" in process.stderr.read()
        assert process.wait() == 0


def test_a_stream_with_a_wrong_row(model_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gssc", "predict", str(model_folder), "-", "-o", "out.csv"]
    run = subprocess.run(command, input="a,b,c\n1,2,3\n1,two,3\n", capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 2
    assert "standard input:3: column 'b' is 'two' where a number belongs" in " ".join(run.stderr.split())
    assert not (tmp_path / "out.csv").exists()
    run = subprocess.run(command, input="a,b,c\n", capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 2
    assert "standard input has no rows" in run.stderr


def test_control_characters_in_class_names_do_not_reach_the_terminal(tmp_path: Path, capsys) -> None:
    DeployedModel([(np.eye(2), np.zeros(2))], ["\x1b[2Jcat", "dog"]).save(tmp_path / "run")
    np.save(tmp_path / "x.npy", np.eye(2))
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "x.npy"), "--out", str(tmp_path / "p.csv")]) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[2Jcat" in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("kind", ["pipe", "nested"])
def test_an_odd_description_is_one_line(model_folder: Path, rows: dict[str, Path], capsys, kind: str) -> None:
    description = model_folder / "model.json"
    description.unlink()
    if kind == "pipe":
        os.mkfifo(description)
    else:
        description.write_text("[" * 100_000)
    assert main(["predict", str(model_folder), str(rows["rows.csv"])]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@contextmanager
def waiting_for_rows(model_folder: Path, out: Path, on_hangup: Any = signal.SIG_DFL) -> Iterator[Any]:
    """A real process that has begun its output and waits for rows on standard input."""

    def usual_signals() -> None:  # a shell that runs the tests in the background makes them ignore SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, on_hangup)

    command = [sys.executable, "-m", "gssc", "predict", str(model_folder), "-", "--out", str(out)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, preexec_fn=usual_signals
    ) as process:
        assert process.stdin is not None
        process.stdin.write("a,b,c\n")
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not any(out.parent.iterdir()) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [path.name[:5] for path in out.parent.iterdir()] == [".out."]
        yield process


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=lambda value: str(value),
)
def test_a_signal_leaves_no_part_of_the_output(model_folder: Path, tmp_path: Path, number: int, code: int) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with waiting_for_rows(model_folder, folder / "out.csv") as process:
        process.send_signal(number)
        _, complaint = process.communicate(timeout=60)
    assert (process.returncode, list(folder.iterdir())) == (code, [])
    assert complaint in ("error: interrupted\n", f"error: stopped by {signal.Signals(number).name}\n")


def test_a_closed_terminal_does_not_end_what_nohup_started(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with waiting_for_rows(model_folder, folder / "out.csv", on_hangup=signal.SIG_IGN) as process:
        process.send_signal(signal.SIGHUP)
        _, complaint = process.communicate("1,0,2\n", timeout=60)
    assert (process.returncode, [path.name for path in folder.iterdir()]) == (0, ["out.csv"]), complaint
