"""Exports of models for molecules: same predictions, nothing of gssc needed, nothing overwritten by accident."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit")

from gssc.cli.main import main
from gssc.errors import GsscError
from gssc.molecules.atom_rows import AtomRows, RowFormat
from gssc.molecules.deployed import DeployedMolecules
from gssc.molecules.export import export_molecules
from gssc.molecules.featurize import featurize

TEXTS = ["CCO", "not a molecule", "[Na+].[Cl-]", "c1ccccc1C(=O)N"]


def made(radius: int = 0, regression: bool = False) -> DeployedMolecules:
    """A model of two members with random weights."""
    rng = np.random.default_rng(0)
    row_format = RowFormat(radius, columns=20)

    def layers(*widths: int) -> list[tuple[np.ndarray, np.ndarray]]:
        pairs = pairwise(widths)
        return [(rng.normal(size=(out, into)).astype(np.float32), rng.normal(size=out)) for into, out in pairs]

    members = [(layers(row_format.width, 6, 4), layers(9, 5, 2)) for _ in range(2)]
    scaled = (np.array([3.0, -1]), np.array([2.0, 0.5])) if regression else (None, None)
    return DeployedMolecules(members, ("first", "second"), row_format, True, True, *scaled)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    made(radius=2).save(folder)
    return folder


def test_saved_and_loaded_models_agree(tmp_path: Path) -> None:
    for radius, regression in ((0, False), (1, True)):
        model = made(radius, regression)
        model.save(tmp_path)
        assert len({(tmp_path / name).stat().st_mode for name in ("model.json", "model.safetensors")}) == 1
        loaded = DeployedMolecules.load(tmp_path)
        np.testing.assert_allclose(loaded.predict_smiles(TEXTS, "skip"), model.predict_smiles(TEXTS, "skip"), rtol=1e-4)


def test_the_mean_of_two_members_by_hand() -> None:
    """Each member counts carbon or oxygen atoms: the sum over atoms, through an identity readout."""
    width, members = RowFormat().width, []
    for element in (5, 7):
        atoms, readout = np.zeros((1, width), np.float32), np.array([[0.0, 1.0]], np.float32)  # the sum, not the mean
        atoms[0, element] = 1
        members.append(([(atoms, np.zeros(1))], [(readout, np.zeros(1))]))
    model = DeployedMolecules(members, ("y",), RowFormat(), False, True, np.zeros(1), np.ones(1))
    assert model.predict_smiles(["CCO", "O", "CCCC"]).ravel().tolist() == [1.5, 0.5, 2.0]


def test_the_numpy_export_runs_on_its_own(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run), "--format", "numpy", "--out", str(tmp_path / "out")]) == 0
    assert "predict.py" in capsys.readouterr().out
    table = tmp_path / "in.csv"
    table.write_text("name,structure\n" + "".join(f"m,{text}\n" for text in TEXTS))
    code = "import sys; sys.modules['gssc'] = None; import predict; sys.exit(predict.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(table), str(tmp_path / "found.csv"), "structure"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "out")}
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    alone = [sys.executable, str(tmp_path / "out" / "predict.py")]
    assert subprocess.run(alone, capture_output=True, text=True).stderr.startswith("usage: python predict.py")
    found = (tmp_path / "found.csv").read_bytes()
    for source, words in ((table, "File exists"), (tmp_path / "missing.csv", "No such file"), (tmp_path, "directory")):
        given = [*alone, str(source), str(tmp_path / "found.csv"), "structure"]
        refused = subprocess.run(given, capture_output=True, text=True)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert words in refused.stderr
    assert (tmp_path / "found.csv").read_bytes() == found
    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["smiles"] for row in rows] == TEXTS
    assert rows[1]["first"] == ""
    values = [[float(row[name] or "nan") for name in ("first", "second")] for row in rows]
    np.testing.assert_allclose(values, made(2).predict_smiles(TEXTS, "skip"), atol=1e-5)
    table.write_bytes(b"smiles;name\nCO;\n=1+1;b\n\xff;c\n")
    refused = subprocess.run([*alone, str(table), str(tmp_path / "part.csv")], capture_output=True, text=True)
    assert "error: " in refused.stderr
    assert not (tmp_path / "part.csv").exists()
    table.write_text("smiles;name\nCO;\n=1+1;b\n")
    done = subprocess.run([*alone, str(table), str(tmp_path / "marks.csv")], check=True, capture_output=True, text=True)
    assert done.stdout == f"wrote 2 rows to {tmp_path / 'marks.csv'}\n"
    assert (tmp_path / "marks.csv").read_text().splitlines()[2] == "'=1+1,,"  # no formula for a spreadsheet
    table.write_text("smiles\nCO\n\nC\n\n")  # of one column: the first empty line is an empty cell
    subprocess.run([*alone, str(table), str(tmp_path / "column.csv")], check=True)
    assert [line.partition(",")[0] for line in (tmp_path / "column.csv").read_text().splitlines()[1:]] == [
        "CO",
        "",
        "C",
    ]


def test_the_onnx_export_gives_the_same(run: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model = made(2)
    session = runtime.InferenceSession(str(export_molecules(run, "onnx").folder / "model.onnx"))
    molecules = featurize(["CCO", "c1ccccc1C(=O)N"])
    found = AtomRows(molecules, model.row_format)
    rows = found.matrix[found.of_atom].toarray().astype(np.float32)
    members = (molecules.molecule_of_atom == np.arange(2)[:, None]).astype(np.float32)
    (given,) = session.run(["predictions"], {"rows": rows, "members": members})
    np.testing.assert_allclose(given, model.predict(molecules), atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["target_names"]) == ["first", "second"]


def test_the_card_and_what_is_refused(run: Path) -> None:
    (run / "metrics.json").write_text('{"dataset": "mine", "metric": "roc_auc", "test_score": 0.75}')
    export = export_molecules(run, "card")
    card = (export.folder / "MODEL_CARD.md").read_text()
    assert "| test | 0.75 |" in card
    assert "0. first" in card
    assert "of 2 targets of a molecule" in card
    (run / "metrics.json").write_text('{"metric": "negative_rmse", "val_score": null, "test_score": -0.5}')
    export_molecules(run, "card", out=run / "measured")
    assert "| test | 0.5 |" in (run / "measured" / "MODEL_CARD.md").read_text()
    with pytest.raises(GsscError, match="exists already"):
        export_molecules(run, "card")
    with pytest.raises(GsscError, match="no export format 'torch'"):
        export_molecules(run, "torch")
    (export.folder / "own.txt").write_text("mine")
    with pytest.raises(GsscError, match=r"own\.txt"):
        export_molecules(run, "card", overwrite=True)
