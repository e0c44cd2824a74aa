from __future__ import annotations

import pytest

from gssc.cli.main import main

SHORT = ["--model", "str_contrast", "--train.epochs", "1", "--train.warmup_epochs", "1", "--train.max_batches", "1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["csbm", "--search", "model.hiden=1,2"], "did you mean 'model.hidden'"),
        (["csbm", "--search", "model.hidden=8,16", "--search", "model.hidden=32"], "names model.hidden twice"),
        (["csbm", "--trials", "0"], "must be at least 1"),
        (["csbn"], "did you mean 'csbm'"),
        ([], "name a dataset"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["tune", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_search_ends_with_a_recipe_that_trains(gssc, tmp_path):
    pytest.importorskip("optuna", reason="needs the extra tune")
    common = ["tune", "csbm", "--search", "model.hidden=8,16", *SHORT]
    done = gssc(*common, "--trials", "1")
    assert done.returncode == 0, done.stderr
    assert "recipe written to tune/csbm/recipe.yaml" in done.stdout
    again = gssc(*common, "--trials", "2", "--jobs", "2")
    assert "2 of 2 trials" in again.stderr
    trained = gssc("train", "csbm", "--consolidate.epochs", "1", "--config", "tune/csbm/recipe.yaml", "--out", "run")
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "run" / "model.json").exists()
