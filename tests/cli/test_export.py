from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gssc.cli.main import main
from gssc.deploy import DeployedModel


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("onnx", ["MODEL_CARD.md", "model.onnx", "model_sparse.onnx"]),
        ("numpy", ["MODEL_CARD.md", "model.json", "model.safetensors", "predict.py"]),
        ("torch", ["MODEL_CARD.md", "model.json", "model.py", "model.safetensors"]),
        ("card", ["MODEL_CARD.md"]),
    ],
)
def test_each_format(model_folder: Path, tmp_path: Path, capsys, format: str, files: list[str]) -> None:
    assert main(["export", str(model_folder), "--format", format, "--out", str(tmp_path / "a" / "b")]) == 0
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == files
    shown = capsys.readouterr().out
    assert all(name in shown for name in files)
    assert ("(tolerance " in shown) == (format != "card")
    assert sorted(path.name for path in model_folder.iterdir()) == ["model.json", "model.safetensors"]


def test_the_real_command(gssc, model_folder: Path, tmp_path: Path) -> None:
    done = gssc("export", "run", "--format", "numpy")
    assert (done.returncode, done.stderr) == (0, "")
    assert (model_folder / "export-numpy" / "MODEL_CARD.md").exists()
    again = gssc("export", "run", "--format", "numpy")
    assert again.returncode == 2
    assert again.stderr.startswith("error: run/export-numpy exists already")
    assert gssc("export", "run", "--format", "numpy", "--overwrite").returncode == 0


def test_help_teaches(gssc) -> None:
    shown = gssc("export", "--help").stdout
    assert "\n  gssc export runs/cora --format onnx " in shown
    assert "default RUN/export-FORMAT" in shown


def unfinished(run: Path) -> None:
    (run / "config.yaml").write_text("train: {}")


@pytest.mark.parametrize(
    ("arguments", "damage", "message"),
    [
        (["run", "--format", "onxx"], None, "unknown format 'onxx': did you mean 'onnx'?"),
        (["run", "--format", "keras"], None, "unknown format 'keras': choose from onnx, numpy, torch, card"),
        (["run"], None, "missing --format"),
        (["nowhere", "--format", "numpy"], None, "nowhere is not a run: there is no such folder"),
        (["run", "--format", "numpy"], unfinished, "run is not finished: resume it with gssc train --out run --resume"),
        (
            ["run", "--format", "numpy"],
            lambda run: (run / "model.json").unlink(),
            "run has no model that works alone",
        ),
        (["run", "--format", "numpy"], lambda run: (run / "model.json").write_text("{"), "is not JSON"),
        (["run", "--format", "numpy", "--out", "run"], None, "run exists already"),
        (["run", "--format", "numpy", "--out", "run", "--overwrite"], unfinished, "run is not finished"),
        (["run", "--format", "numpy", "--out", "run", "--overwrite"], None, "cannot replace run"),
        (["run", "--format", "numpy", "--out", "/proc/x"], None, "cannot write /proc/x"),
    ],
)
def test_what_cannot_be_exported(
    model_folder: Path, tmp_path: Path, monkeypatch, capsys, arguments, damage, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if damage:
        damage(model_folder)
    before = sorted(tmp_path.rglob("*"))
    assert main(["export", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(tmp_path.rglob("*")) == before


X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [3.0, 1.0, 0.0]], dtype=np.float32)


def predict(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """The exported script on a table, from the folder above it."""
    (folder.parent / "rows.csv").write_text(text)
    command = [sys.executable, f"{folder.name}/predict.py", "rows.csv", "out.csv"]
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=60)


@pytest.fixture
def exported(model: DeployedModel, tmp_path: Path) -> Path:
    model.feature_names = ["a", "b", "c"]
    model.save(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--format", "numpy", "--out", str(tmp_path / "served")]) == 0
    return tmp_path / "served"


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_the_exported_script_agrees_with_gssc_predict(gssc, model, exported: Path, tmp_path: Path) -> None:
    lines = ["c;label;node_id;a;b", *(f"{c};?;n{n};{a};{b}" for n, (a, b, c) in enumerate(X.tolist()))]
    done = predict(exported, "\n".join(lines))
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 rows, written to out.csv\n", "")
    assert gssc("predict", "run", "rows.csv", "--out", "ours.csv").returncode == 0
    theirs, ours = table(tmp_path / "out.csv"), table(tmp_path / "ours.csv")
    assert [row[:2] for row in theirs] == [row[:2] for row in ours]
    np.testing.assert_allclose(
        np.array([row[2:] for row in theirs[1:]], dtype=float), model.predict_proba(X), rtol=0, atol=1e-5
    )


def test_the_exported_script_reads_tables_without_names(exported: Path, tmp_path: Path, model) -> None:
    assert predict(exported, "\n".join(",".join(map(str, row)) for row in X.tolist())).returncode == 0
    header, *rows = table(tmp_path / "out.csv")
    assert header == ["row", "prediction", "probability_cat", "probability_dog"]
    np.testing.assert_allclose(
        np.array([row[2:] for row in rows], dtype=float), model.predict_proba(X), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows.csv is empty"),
        ("a,b\n1,2\n", "rows.csv lacks the column 'c'"),
        ("1,2\n", "the model takes (rows, 3)"),
        ("a,b,c\n1,2\n", "rows.csv:2: 2 columns where the first line has 3"),
        ("a,b,c\n1,two,3\n", "rows.csv:2: could not convert string to float: 'two'"),
        ("a,b,c\n1,nan,3\n", "row 0 has a NaN"),
    ],
)
def test_tables_the_exported_script_refuses(
    exported: Path, tmp_path: Path, monkeypatch, capsys, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    Path("rows.csv").write_text(text)
    spec = importlib.util.spec_from_file_location("predict", exported / "predict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(["rows.csv", "out.csv"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not Path("out.csv").exists()


def test_the_exported_script_keeps_files_that_exist(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("mine")
    done = predict(exported, "a,b,c\n1,2,3\n")
    assert (done.returncode, done.stderr) == (2, "error: out.csv: File exists\n")
    assert (tmp_path / "out.csv").read_text() == "mine"
    usage = subprocess.run([sys.executable, exported / "predict.py"], capture_output=True, text=True)
    assert (usage.returncode, usage.stderr) == (2, "usage: python predict.py ROWS.csv PREDICTIONS.csv\n")
