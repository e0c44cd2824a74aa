"""The model card of a model for molecules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gssc import __version__
from gssc.deploy.export.card import listed, one_line, table
from gssc.files import read_json
from gssc.molecules.deployed import DeployedMolecules
from gssc.settings import read_settings


def molecule_card(run: Path, model: DeployedMolecules, use: str) -> str:
    """Return the card as Markdown; values that the run did not record are marked as such."""
    metrics = read_json(run / "metrics.json") if (run / "metrics.json").exists() else {}
    config = read_settings(run / "config.yaml") if (run / "config.yaml").exists() else {}
    sections = {
        "Data": table(("", ""), data(metrics, config.get("data") or {})),
        "Quality": quality(metrics),
        "Intended use": "To rank molecules like those it was trained on before an experiment, not instead of one.",
        "Limits": limits(model),
        "Input": "SMILES that RDKit can read. All fragments of a salt are used.",
        "Output": outputs(model),
        "Use": use,
        "Origin": f"gssc {__version__}, `gssc export`.",
    }
    body = "\n".join(f"## {heading}\n\n{text.rstrip()}\n" for heading, text in sections.items() if text)
    name = one_line(metrics.get("dataset") or run.resolve().name)
    kind = "measured values" if model.mean is not None else "probabilities"
    count = len(model.target_names)
    summary = f"Predicts {kind} of {count:,} target{'' if count == 1 else 's'} of a molecule from its atoms."
    return f"# Model card: {name}\n\n{summary}\n\n{body}"


def data(metrics: dict[str, Any], given: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the rows of the table about data."""
    return [
        ("dataset", metrics.get("dataset")),
        ("split", metrics.get("split")),
        ("split seed", given.get("split_seed")),
        ("molecules", metrics.get("molecules")),
        ("rows without a molecule", metrics.get("skipped")),
    ]


def quality(metrics: dict[str, Any]) -> str:
    """Return validation and test results."""
    metric = {"roc_auc": "ROC-AUC, mean over targets", "negative_rmse": "root mean squared error, all targets together"}
    sign = -1 if metrics.get("metric") == "negative_rmse" else 1
    scores = [(part, metrics.get(f"{name}_score")) for part, name in (("validation", "val"), ("test", "test"))]
    each = metrics.get("test_score_per_target") or {}
    scores += [(f"test, {name}", score) for name, score in each.items()] if len(each) > 1 else []
    rows = [(part, score if score is None else sign * score) for part, score in scores]
    text = table(("part", metric.get(str(metrics.get("metric")), "score")), rows)
    return f"{text}\n\nOne run, one seed ({metrics.get('seed', 'not recorded')}), one split; other seeds differ."


def limits(model: DeployedMolecules) -> str:
    """Return the limitations of the model."""
    seen = (
        f"It sees each atom with its surroundings up to {model.row_format.radius} bonds away, as hashed columns."
        if model.row_format.radius
        else "It sees single atoms: two molecules with the same atoms get the same prediction, however they are bonded."
    )
    lines = [
        seen,
        "Every molecule gets a prediction, even one unlike anything in training.",
    ]
    if model.mean is None:
        lines.append("Calibration was not measured: do not read probabilities as frequencies.")
    return "\n".join(f"- {line}" for line in lines)


def outputs(model: DeployedMolecules) -> str:
    """Return the description of the outputs."""
    what = "Values in the unit of training" if model.mean is not None else "Probabilities of a positive label"
    return f"{what}, one column per target:\n\n{listed(list(model.target_names))}"
