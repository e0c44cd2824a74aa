"""gssc train, predict and bench on molecules, from the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rdkit")

from gssc.cli.main import main, parser_of
from gssc.errors import GsscError
from gssc.molecules import read_molecules
from gssc.molecules.deployed import DeployedMolecules
from gssc.molecules.predict import predict_table
from gssc.molecules.pretrain.finetune import one_pass
from gssc.molecules.registry import MODELS, molecule_model
from gssc.molecules.run import MoleculeRun
from gssc.molecules.training import MoleculeTraining
from gssc.settings import Bounds, bounds_of, check_section

TINY = ["--settings.train.epochs", "2", "--settings.hidden", "16", "--settings.embedding", "8"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    rows = [f"{'C' * (1 + n % 8)}{'NO'[n % 2]}{'C' * (n % 3)},{n % 2},{n * 0.1:.1f}" for n in range(40)]
    path.write_text("structure,active,potency\n" + "\n".join([*rows, "not a molecule,1,0.5"]) + "\n")
    return path


def train(table: Path, out: Path, *more: str) -> int:
    source = ["--molecules", str(table), "--smiles-column", "structure", "--split", "random"]
    return main(["train", *source, "--out", str(out), *more])


def test_train_then_predict_from_smiles(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = tmp_path / "run", tmp_path / "out.csv"
    assert train(table, run, "--targets", "active", *TINY) == 0
    assert "rows without a valid molecule are left out: 1, the first is row" in capsys.readouterr().err
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["metric"], metrics["molecules"], metrics["skipped"]) == ("roc_auc", 40, 1)
    assert metrics["kept_because"] == "the last epoch"
    assert [json.loads(line)["best"] for line in (run / "metrics.jsonl").read_text().splitlines()] == [False, True]
    assert "not a molecule" in (run / "skipped.csv").read_text()
    assert main(["predict", str(run), str(table), "--smiles-column", "structure", "--out", str(out)]) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 41  # nothing is lost
    assert rows[40]["probability_active"] == ""
    assert all(0 <= float(row["probability_active"]) <= 1 for row in rows[:40])
    assert (
        f"wrote 41 rows to {out}; 1 of them without a valid molecule, left blank (row 41)\n" in capsys.readouterr().out
    )
    logits = np.load(run / "scores.npz")["scores"][:, 0]
    given = np.array([float(row["probability_active"]) for row in rows[:40]])
    np.testing.assert_allclose(given, 1 / (1 + np.exp(-logits)), atol=1e-5)


@pytest.mark.parametrize(
    ("readout", "pooling", "members"), [("linear", "mean", "1"), ("mlp", "mean_and_sum", "2"), ("mlp", "mean", "2")]
)
def test_a_deployed_regression_gives_what_training_gave(
    table: Path, tmp_path: Path, readout: str, pooling: str, members: str
) -> None:
    run = tmp_path / "run"
    more = ["--settings.readout", readout, "--settings.radius", "1"]
    more += ["--settings.pooling", pooling, "--settings.members", members]
    assert train(table, run, "--targets", "potency", *more, *TINY) == 0
    molecules = read_molecules(table, smiles_column="structure", targets=["potency"], split="random")
    values = DeployedMolecules.load(run).predict(molecules)
    np.testing.assert_allclose(values, np.load(run / "scores.npz")["scores"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seconds_between_checkpoints", [0, 1000])
def test_resume_gives_the_bytes_of_an_uninterrupted_run(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds_between_checkpoints: int
) -> None:
    monkeypatch.setattr("gssc.molecules.run.SECONDS_BETWEEN_CHECKPOINTS", seconds_between_checkpoints)
    molecules = read_molecules(table, smiles_column="structure", targets=["active"], split="random")
    settings = molecule_model("gssc").settings(hidden=16, embedding=8)
    settings.train.epochs = 3
    MoleculeRun(tmp_path / "whole", molecules, settings=settings).train()

    def stop(epoch: object) -> None:
        if epoch.epoch == 1:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MoleculeRun(tmp_path / "begun", molecules, settings=settings).train(stop)
    MoleculeRun(tmp_path / "begun", molecules, settings=settings, resume=True).train()
    whole, begun = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "begun"))
    assert whole == begun
    assert len((tmp_path / "begun" / "metrics.jsonl").read_text().splitlines()) == 3


def test_scores_are_shown_for_people(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(table, tmp_path / "run", "--targets", "active", "--split", "random:80/0/20", *TINY) == 0
    shown = capsys.readouterr()
    assert "ROC-AUC unknown validation" in shown.out
    assert "1 binary target;" in shown.err
    assert "no target has both classes" in shown.err
    assert train(table, tmp_path / "other", "--targets", "potency", *TINY) == 0
    shown = capsys.readouterr()
    error = -json.loads((tmp_path / "other" / "metrics.json").read_text())["test_score"]
    assert "RMSE" in shown.out
    assert f", {error:.4f} test" in shown.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_training_after_the_epoch_and_nothing_is_lost(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, request, number: int, code: int
) -> None:
    pytest.importorskip("torch_geometric")
    request.addfinalizer(partial(signal.signal, number, signal.getsignal(number)))
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    signal.signal(number, usual[number])  # whatever the shell of the tests has set
    one_pass, passes = MoleculeTraining.one_pass, []

    def interrupted(training: MoleculeTraining) -> float:
        passes.append(training.epoch)
        if passes == [0, 1]:
            os.kill(os.getpid(), number)
        return one_pass(training)

    monkeypatch.setattr(MoleculeTraining, "one_pass", interrupted)
    given = ["--targets", "active", "--split", "random", "--model", "gin", "--settings.train.epochs", "3"]
    assert train(table, tmp_path / "run", *given) == code
    assert "stopping after this epoch" in capsys.readouterr().err
    assert main(["train", "--out", str(tmp_path / "run"), "--resume"]) == 0
    assert passes == [0, 1, 2]


def test_an_interrupted_pre_training_is_resumed_by_its_folder(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch_geometric")
    given = ["--targets", "active", "--model", "graph_cl", "--settings.pool", "", "--settings.train.epochs", "1"]
    passes = []

    def interrupted(*arguments: object) -> float:
        passes.append(1)
        if len(passes) == 3:
            raise KeyboardInterrupt
        return one_pass(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("gssc.molecules.pretrain.finetune.one_pass", interrupted)
    assert train(table, tmp_path / "run", *given) == 130
    shown = capsys.readouterr().err
    assert shown.index("model graph_cl, seed 0") < shown.index(f"resume with: gssc train --out {tmp_path / 'run'}")
    assert main(["train", "--out", str(tmp_path / "run"), "--resume"]) == 0
    assert len(passes) == 4  # two, the interruption, and the one that was missing
    assert train(table, tmp_path / "whole", *given) == 0
    assert len(passes) == 4  # from the cache
    scores = [np.load(tmp_path / name / "scores.npz")["scores"] for name in ("run", "whole")]
    assert (scores[0] == scores[1]).all()


def test_a_training_that_cannot_begin_leaves_the_folder_as_it_was(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, given = tmp_path / "run", ["--targets", "active", *TINY]
    wrong = [*given, "--settings.train.batch_size", "1"]
    assert train(table, run, *wrong) == 2
    assert "at least two are needed" in capsys.readouterr().err
    assert train(table, run, *given) == 0
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    assert train(table, run, *wrong, "--overwrite") == 2
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_other_models_train_from_the_command_line_and_resume_by_folder(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "forest"
    assert train(table, run, "--targets", "active", "--model", "fingerprint_forest", "--settings.trees", "5") == 0
    assert not (run / "model.json").exists()
    for command in (["predict", str(run), str(table), "--out", str(tmp_path / "x.csv")], ["export", str(run)]):
        assert main([*command, *(["--format", "card"] if command[0] == "export" else [])]) == 2
        assert "its model is not GSSC" in capsys.readouterr().err
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert "fingerprint_forest" in capsys.readouterr().out


def test_bad_commands_are_one_line(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["train", "--molecules", str(table), "--targets", "active"], "--smiles-column"),
        (["train", "bbbp", "--model", "gim", "--out", str(tmp_path / "x")], "did you mean 'gin'"),
        (["bench", "--datasets", "bbbp", "--models", "gsc", "--store", str(tmp_path / "s")], "did you mean 'gssc'"),
        (["bench", "--datasets", "bbbp,cora", "--models", "gssc", "--store", str(tmp_path / "s")], "apart from"),
    ):
        assert main(arguments) == 2
        text = capsys.readouterr().err
        assert message in text
        assert text.count("\n") == 1


def test_a_long_table_is_predicted_in_blocks(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    assert train(table, run, "--targets", "active", *TINY) == 0
    model = DeployedMolecules.load(run)
    whole = predict_table(model, table, tmp_path / "a.csv", "structure")
    monkeypatch.setattr("gssc.molecules.predict.BLOCK", 7)
    blocks = predict_table(model, table, tmp_path / "b.csv", "structure")
    assert whole == blocks
    texts = [(tmp_path / name).read_text() for name in ("a.csv", "b.csv")]
    first, second = ([line.split(",") for line in text.splitlines()] for text in texts)
    assert [row[:2] for row in first] == [row[:2] for row in second]
    given, blocked = ([float(row[2] or "nan") for row in rows[1:]] for rows in (first, second))
    np.testing.assert_allclose(blocked, given, rtol=1e-5)  # the last digit depends on the size of a matrix product
    formulas = tmp_path / "formulas.csv"
    formulas.write_text("smiles\n=1+1\nCO\n")
    predict_table(model, formulas, tmp_path / "d.csv")
    assert (tmp_path / "d.csv").read_text().splitlines()[1] == "1,'=1+1,"  # no formula for a spreadsheet
    with pytest.raises(GsscError, match="row 41"):
        predict_table(model, table, tmp_path / "c.csv", "structure", invalid="refuse")
    assert not (tmp_path / "c.csv").exists()


def test_molecules_are_predicted_from_a_pipe(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "out.csv"
    assert train(table, run, "--targets", "active", *TINY) == 0
    assert main(["predict", str(run), str(table), "--smiles-column", "structure", "--out", str(out)]) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(table.read_bytes())))
    assert main(["predict", str(run), "-", "--smiles-column", "structure", "--out", "-"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == out.read_text().splitlines()
    assert shown.err.startswith("wrote 41 rows;")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"name\na\n")))
    assert main(["predict", str(run), "-", "--out", "-"]) == 2
    assert "standard input has no column named smiles" in capsys.readouterr().err
    for wrong in (["--id", "active"], ["--decimal", ","]):
        assert main(["predict", str(run), str(table), *wrong, "--out", str(tmp_path / "x.csv")]) == 2
        assert "for feature rows" in capsys.readouterr().err


def test_rows_without_a_molecule_can_be_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert train(table, run, "--targets", "active", *TINY, "--invalid", "refuse") == 2
    assert "row 41: 'not a molecule'" in capsys.readouterr().err
    assert train(table, run, "--targets", "active", *TINY, "--jobs", "0") == 2
    assert "--jobs must be at least 1" in capsys.readouterr().err
    assert train(table, run, "--targets", "active", *TINY) == 0
    out = tmp_path / "out.csv"
    given = [str(run), str(table), "--smiles-column", "structure", "--out", str(out)]
    assert main(["predict", *given, "--invalid", "refuse"]) == 2
    assert "row 41: 'not a molecule' is not a SMILES" in capsys.readouterr().err
    assert not out.exists()
    (tmp_path / "blank.csv").write_text("smiles,name\nC,a\n,b\n")
    assert main(["predict", str(run), str(tmp_path / "blank.csv"), "--out", str(out), "--invalid", "refuse"]) == 2
    assert "row 2: the SMILES is empty" in capsys.readouterr().err
    (tmp_path / "empty.csv").write_text("\n")
    assert main(["predict", str(run), str(tmp_path / "empty.csv"), "--out", str(out)]) == 2
    assert "empty.csv is empty" in capsys.readouterr().err
    assert main(["predict", str(run), str(table), "--out", str(out)]) == 2
    assert "name it with --smiles-column" in capsys.readouterr().err


def test_a_binary_target_among_measurements_is_reported(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(table, tmp_path / "run", "--targets", "active,potency", *TINY) == 0
    assert "note: active has only the values 0 and 1 but is learned as a measurement" in capsys.readouterr().err
    each = json.loads((tmp_path / "run" / "metrics.json").read_text())["test_score_per_target"]
    molecules = read_molecules(table, smiles_column="structure", targets=["active", "potency"], split="random")
    errors = (np.load(tmp_path / "run" / "scores.npz")["scores"] - molecules.targets)[molecules.test]
    assert list(each) == ["active", "potency"]
    np.testing.assert_allclose(list(each.values()), -np.sqrt((errors**2).mean(0)), rtol=1e-4)
    assert main(["export", str(tmp_path / "run"), "--format", "card"]) == 0
    assert "| test, potency |" in (tmp_path / "run" / "export-card" / "MODEL_CARD.md").read_text()
    capsys.readouterr()
    assert train(table, tmp_path / "other", "--targets", "active", *TINY) == 0
    assert "measurement" not in capsys.readouterr().err


def test_a_damaged_model_is_refused(table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(table, run, "--targets", "active", *TINY) == 0
    weights = bytearray((run / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (run / "model.safetensors").write_bytes(bytes(weights))
    with pytest.raises(GsscError, match="damaged"):
        DeployedMolecules.load(run)


@pytest.mark.parametrize("model", MODELS)
def test_the_settings_of_every_model_are_explained_and_checked(model: str) -> None:
    _, parser = parser_of("train", ["bbbp", "--model.name", model])
    assert not re.search(r"Literal|Optional|`|\btype: |:\w+:|\(required\)|\bnull\b", parser.format_help())
    settings = molecule_model(model).settings()
    for place, section in (("settings", settings), ("settings.train", settings.train)):
        for option in fields(section):
            number = getattr(section, option.name)
            if isinstance(number, int | float) and not isinstance(number, bool):
                assert bounds_of(type(section), option.name) != Bounds()
                with pytest.raises(GsscError, match=rf"{place}\.{option.name} is -1; it must be"):
                    check_section(place, type(section), replace(section, **{option.name: -1}))


def test_a_run_of_another_version_is_refused_with_what_to_do(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert train(table, run, "--targets", "active", *TINY) == 0
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("  hidden:", "  wideness:"))
    assert main(["train", "--out", str(run), "--resume"]) == 2
    wrong = " ".join(capsys.readouterr().err.split())
    assert "does not fit this version of gssc (unknown setting settings.wideness" in wrong
    assert "train again with --overwrite" in wrong
