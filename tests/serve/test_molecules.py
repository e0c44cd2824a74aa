"""The service of a model for molecules: predictions, reasons, drawings, limits and the token."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("rdkit")

import gssc.serve.molecules
from gssc.molecules.deployed import DeployedMolecules
from gssc.serve.molecules import LONGEST_SMILES, answers

TOKEN = "a-token-of-some-length"


def logistic(share: float) -> float:
    return float(1 / (1 + np.exp(-share)))


def test_a_reason_for_what_is_no_molecule_and_values_for_the_rest(oxygen_model: DeployedMolecules) -> None:
    first, second, third, fourth = answers(oxygen_model, ["CO", "nonsense", "CCO", "C" * (LONGEST_SMILES + 1)])
    assert first["values"] == pytest.approx([logistic(1 / 2)])
    assert third["values"] == pytest.approx([logistic(1 / 3)])
    assert second["values"] is None
    assert "not a SMILES" in second["reason"]
    assert "at most" in fourth["reason"]
    assert answers(oxygen_model, ["?"])[0]["values"] is None


def test_the_command_serves_molecules(
    start_process: Callable[..., Any], tmp_path: Path, oxygen_model: DeployedMolecules
) -> None:
    oxygen_model.save(tmp_path)
    client = start_process(tmp_path, "--max-rows", "3").client

    def predict(content: Any) -> Any:
        return client.ask("POST", "/predict", json.dumps(content), {"Content-Type": "application/json"})

    found = predict({"smiles": ["CO", "nonsense"]})
    assert found.status == 200
    assert found.json["targets"] == ["oxygen"]
    assert found.json["predictions"][0]["values"] == pytest.approx([logistic(1 / 2)])
    for body, status in (({"smiles": []}, 422), ({}, 422), ({"smiles": "CO"}, 422), ({"smiles": ["C"] * 4}, 413)):
        assert predict(body).status == status
        assert predict(body).detail
    drawn = client.get(f"/draw?smiles={quote('c1ccccc1O')}")
    assert drawn.headers["content-type"].startswith("image/svg+xml")
    assert b"<svg" in drawn.body
    assert client.get(f"/draw?smiles={quote('?')}").status == 422
    page = client.get("/")
    assert b"<textarea" in page.body
    assert b"function ask(" in page.body  # of shared.js
    assert "script-src 'sha256-" in page.headers["content-security-policy"]
    assert client.get("/model").json == {
        "targets": ["oxygen"],
        "kind": "probability",
        "radius": 0,
        "max_rows": 3,
    }
    assert b"openapi.json" in client.get("/docs").body
    assert {"/predict", "/draw"} <= set(client.get("/openapi.json").json["paths"])
    assert client.get("/health").json == {"status": "ok"}
    counted = client.get("/metrics").body
    assert b"gssc_rows_total 2.0" in counted
    assert b'path="/draw"' in counted


def test_a_token_is_asked_for(
    start_process: Callable[..., Any], tmp_path: Path, oxygen_model: DeployedMolecules
) -> None:
    oxygen_model.save(tmp_path)
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    client = start_process(tmp_path, "--token-file", secret).client
    headers = {"Content-Type": "application/json"}
    assert client.ask("POST", "/predict", '{"smiles": ["CO"]}', headers).status == 401
    headers["Authorization"] = f"Bearer {TOKEN}"
    assert client.ask("POST", "/predict", '{"smiles": ["CO"]}', headers).status == 200


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script of the page")
def test_the_page_reads_csv_files_with_quotes() -> None:
    page = (Path(gssc.serve.molecules.__file__).with_name("molecules.html")).read_text()
    function = re.search(r"^function records.*?^}", page, re.MULTILINE | re.DOTALL)
    assert function is not None
    text = 'name,smiles\r\n"acid, acetic",CC(=O)O\n"a ""b""\nc",C\n\nlast,\n'
    script = f"{function[0]}\nconsole.log(JSON.stringify(records({json.dumps(text)})))"
    found = json.loads(subprocess.run(["node", "-e", script], check=True, capture_output=True).stdout)
    assert found == [["name", "smiles"], ["acid, acetic", "CC(=O)O"], ['a "b"\nc', "C"], ["last", ""]]
