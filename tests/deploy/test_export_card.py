from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from gssc.deploy import DeployedModel
from gssc.deploy.export import FORMATS, export_run
from gssc.deploy.export.card import card
from gssc.deploy.export.run_model import RunModel, read_run_model
from gssc.errors import GsscError

HEADINGS = ["Data", "Quality", "Calibration", "Intended use", "Limits", "Input", "Output", "Origin"]


def source(model: DeployedModel, **more: dict) -> RunModel:
    return RunModel(Path("runs/mine"), model, digest="ab12", **more)


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n")[1].split("\n## ")[0]


METRICS = {
    "dataset": "cora",
    "split": "public",
    "setting": "transductive",
    "seed": 3,
    "metric": "accuracy",
    "val_accuracy": 0.82,
    "test_accuracy": 0.853,
    "epochs": 170,
    "training_labels": 140,
    "versions": {"gssc": "0.1.0", "torch": "2.13.0"},
}
SETTINGS = {"data": {"graph": None, "split_seed": 5}, "train": {"lr": 0.01, "batch_size": 512}}


def test_the_card_of_a_run(model: DeployedModel) -> None:
    text = card(source(model, metrics=METRICS, settings=SETTINGS))
    assert text.startswith("# Model card: cora\n")
    assert [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")] == HEADINGS
    data = section(text, "Data")
    for line in ("| dataset | cora |", "| split | public |", "| split seed | 5 |", "| training labels | 140 |"):
        assert line in data
    assert "graph file" not in data
    assert "| validation | 82.00% |\n| test | 85.30% |" in section(text, "Quality")
    assert "seed (3)" in section(text, "Quality")
    assert "not measured" in section(text, "Calibration")
    assert "features alone" in section(text, "Limits")
    assert "transductive" in section(text, "Limits")
    assert "3 numbers per row" in section(text, "Input")
    assert "0. cat\n1. dog" in section(text, "Output")
    origin = section(text, "Origin")
    assert "| layers | 3 -> 4 -> 2, relu, batch norm folded in |" in origin
    assert "| trained with | gssc 0.1.0, torch 2.13.0 |" in origin
    assert "`ab12`" in origin


def test_what_is_not_known_is_not_made_up(model: DeployedModel) -> None:
    text = card(source(model))
    assert text.startswith("# Model card: mine\n")
    assert "| dataset | not recorded |" in text
    assert "| test | not recorded |" in text
    assert "| training labels | not recorded |" in text
    assert "config.yaml" not in text
    assert "None" not in text
    assert "other seeds give other numbers" not in text, "there are no numbers"


def test_the_model_alone_still_knows_its_metadata(model: DeployedModel) -> None:
    model.metadata = {"dataset": "mine", "setting": "inductive", "test_accuracy": 0.5, "split": "per-class:20"}
    text = card(source(model))
    assert "| test | 50.00% |" in text
    assert "hidden during training" in text
    assert "| training labels | 20 per class |" in text
    assert "transductive" not in text


@pytest.mark.parametrize("place", ["metadata", "metrics"])
def test_calibration_is_shown_where_it_was_measured(model: DeployedModel, place: str) -> None:
    measured = {"calibration": {"error_before": 0.081234, "error_after": 0.0213, "measured_on": "validation"}}
    model.temperature = 1.42
    model.metadata = measured if place == "metadata" else {}
    text = section(card(source(model, metrics=measured if place == "metrics" else {})), "Calibration")
    assert "temperature of 1.42" in text
    assert "| expected calibration error, before temperature scaling | 0.08123 |\n" in text
    assert "| expected calibration error, after temperature scaling | 0.0213 |\n" in text
    assert "| measured on | validation |" in text
    assert "not measured" not in text


def test_multilabel_models_and_their_metric(model: DeployedModel) -> None:
    model.task = "multilabel"
    text = card(source(model, metrics={**METRICS, "metric": "roc_auc", "test_accuracy": None}))
    assert "| part | ROC-AUC, mean over tasks |" in text
    assert "| test | not recorded |" in text
    assert "sigmoid" in text
    assert "any of 2 tasks" in text


def test_names_cannot_break_the_page() -> None:
    layers = [(np.eye(100, dtype=np.float32), np.zeros(100))]
    names = ["a\n# heading", *(f"c{index}" for index in range(99))]
    model = DeployedModel(layers, names, feature_names=[f"f|{index}" for index in range(100)], normalize="row")
    model.metadata = {"dataset": "x | y\n\n## z"}
    text = card(source(model))
    assert "\n# heading" not in text
    assert "| dataset | x \\| y ## z |" in text
    assert "and 40 more" in section(text, "Output")
    assert "0. f|0\n1. f|1\n" in section(text, "Input")
    assert "divides each row" in section(text, "Input")


def test_html_links_and_control_characters_are_shown_not_obeyed() -> None:
    layers = [(np.eye(2, dtype=np.float32), np.zeros(2))]
    model = DeployedModel(layers, ["<script>alert(1)</script>", "a\x1b[2J & [b](http://c)"])
    text = card(source(model))
    assert "0. &lt;script>alert(1)&lt;/script>\n" in text
    assert "1. a\\\\x1b\\[2J &amp; \\[b](http://c)\n" in text


@pytest.mark.parametrize("path", ["/home/anna/secret project/mine.npz", "C:\\Users\\anna\\mine.npz"])
def test_the_graph_is_named_without_its_folder(model: DeployedModel, path: str) -> None:
    text = card(source(model, settings={"data": {"graph": path}}))
    assert "| graph file | mine.npz |" in text
    assert "anna" not in text


@pytest.mark.parametrize("metadata", [{"split": "per-class:" + "9" * 5000}, {"test_accuracy": 10**400}, {"seed": {}}])
def test_odd_metadata_is_no_traceback(model: DeployedModel, metadata: dict) -> None:
    model.metadata = metadata
    assert "## Quality" in card(source(model))


@pytest.mark.parametrize("format", FORMATS)
def test_a_card_travels_with_every_format(model_folder: Path, format: str) -> None:
    export = export_run(model_folder, format)
    assert export.folder == model_folder / f"export-{format}"
    text = (export.folder / "MODEL_CARD.md").read_text()
    assert ("## Use\n" in text) == (format != "card")
    for name in re.findall(r"`(\w+\.(?:onnx|py|json|safetensors))`", text):
        assert (export.folder / name).exists()
    assert json.loads((model_folder / "model.json").read_text())["digest"] in text


def test_what_is_not_a_finished_run(model: DeployedModel, tmp_path: Path) -> None:
    with pytest.raises(GsscError, match="there is no such folder"):
        read_run_model(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(GsscError, match="has no model that works alone: it has no model.json"):
        read_run_model(tmp_path / "empty")
    (tmp_path / "empty" / "scores.npz").touch()
    for read in (read_run_model, DeployedModel.load):
        with pytest.raises(GsscError, match=r"its model needs the graph to predict; .* in scores\.npz$"):
            read(tmp_path / "empty")
    model.save(tmp_path / "run")
    (tmp_path / "run" / "config.yaml").write_text("train: {lr: 0.5}")
    with pytest.raises(GsscError, match="is not finished: resume it with gssc train --out .* --resume"):
        read_run_model(tmp_path / "run")
    for broken, message in (("{", "is not JSON"), ("[]", "is not a JSON object")):
        (tmp_path / "run" / "metrics.json").write_text(broken)
        with pytest.raises(GsscError, match=message):
            read_run_model(tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text('{"versions": [1]}')
    with pytest.raises(GsscError, match="metrics.json: 'versions' must hold named values"):
        read_run_model(tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text('{"seed": 1}')
    (tmp_path / "run" / "config.yaml").write_text("data: 3")
    with pytest.raises(GsscError, match="config.yaml: 'data' must hold named values, not 3"):
        read_run_model(tmp_path / "run")
    (tmp_path / "run" / "config.yaml").write_text("train: {lr: 0.5}")
    found = read_run_model(tmp_path / "run")
    assert (found.metrics, found.settings) == ({"seed": 1}, {"train": {"lr": 0.5}})
