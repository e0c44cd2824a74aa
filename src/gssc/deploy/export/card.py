"""The model card: what a model was trained on, how good it is, what it is for and what it is not for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gssc import __version__
from gssc.deploy.export.run_model import RunModel
from gssc.files import atomic_write
from gssc.names import counted, printable

CARD = "MODEL_CARD.md"
UNKNOWN = "not recorded"
SHOWN_NAMES = 60
SETTINGS = {
    "transductive": "transductive: training used features and edges of all nodes, and labels of training nodes only",
    "inductive": "inductive: test nodes and their edges were hidden during training",
    "cold-start": "cold-start: test nodes were hidden during training and have no edges",
}
METRICS = {"accuracy": "accuracy", "roc_auc": "ROC-AUC, mean over tasks"}


def write_card(run_model: RunModel, folder: Path, use: str = "") -> None:
    """Write ``MODEL_CARD.md``; ``use`` explains how to use the other files of the folder."""
    with atomic_write(folder / CARD) as temporary:
        temporary.write_text(card(run_model, use), encoding="utf-8")


def card(run_model: RunModel, use: str = "") -> str:
    """Return the card as Markdown. Facts that the run did not record are marked as not recorded."""
    sections = {
        "Data": data(run_model),
        "Quality": quality(run_model),
        "Calibration": calibration(run_model),
        "Intended use": intended_use(run_model),
        "Limits": limits(run_model),
        "Input": inputs(run_model),
        "Output": outputs(run_model),
        "Use": use,
        "Origin": origin(run_model),
    }
    title = f"# Model card: {one_line(fact(run_model, 'dataset') or run_model.folder.resolve().name)}\n"
    body = "\n".join(f"## {heading}\n\n{text.rstrip()}\n" for heading, text in sections.items() if text)
    return f"{title}\n{summary(run_model)}\n\n{body}"


def fact(run_model: RunModel, name: str) -> Any:
    """Return a value from the run's result, else from the model's own metadata; None if neither has it."""
    value = run_model.metrics.get(name)
    return run_model.model.metadata.get(name) if value is None else value


def score(run_model: RunModel, part: str) -> Any:
    """Return the score of a part of the nodes; runs of earlier versions call it an accuracy, whatever the metric."""
    value = fact(run_model, f"{part}_score")
    return fact(run_model, f"{part}_accuracy") if value is None else value


def summary(run_model: RunModel) -> str:
    """Return one sentence about the model."""
    model = run_model.model
    kind = "one of" if model.task == "multiclass" else "any of"
    return (
        f"A plain MLP that assigns {kind} {len(model.class_names):,} {'classes' if kind == 'one of' else 'tasks'} to a "
        f"row of {counted(model.widths[0], 'feature')}. It was trained on a graph; it needs none to predict."
    )


def data(run_model: RunModel) -> str:
    """Return the section on dataset, split, setting and labels."""
    setting = fact(run_model, "setting")
    given = run_model.settings.get("data") or {}
    rows = [
        ("dataset", fact(run_model, "dataset")),
        # The name alone: a path may reveal facts about the machine and its users.
        ("graph file", PurePosixPath(str(given.get("graph") or "").replace("\\", "/")).name),
        ("split", fact(run_model, "split")),
        ("split seed", given.get("split_seed")),
        ("setting", SETTINGS.get(str(setting), setting)),
        ("training labels", labels(run_model)),
    ]
    return table(("", ""), [row for row in rows if row[0] != "graph file" or row[1]])


def labels(run_model: RunModel) -> str | None:
    """Return the number of training labels, if the run recorded it."""
    count = fact(run_model, "training_labels")
    if isinstance(count, int):
        return f"{count:,}"
    found = re.fullmatch(r"per-class:([0-9]{1,18})", str(fact(run_model, "split")))
    return f"{int(found[1]):,} per class" if found else None


def quality(run_model: RunModel) -> str:
    """Return the section on validation and test results."""
    metric = METRICS.get(str(run_model.metrics.get("metric")), "accuracy")
    names = {"val": "validation", "test": "test"}
    text = table(("part", metric), [(name, percent(score(run_model, part))) for part, name in names.items()])
    if all(score(run_model, part) is None for part in names):
        return text
    return f"{text}\n\nOne run, one seed ({shown(fact(run_model, 'seed'))}), one split; other seeds give other numbers."


def calibration(run_model: RunModel) -> str:
    """Return the temperature, and calibration errors if they were measured."""
    measured, temperature = fact(run_model, "calibration"), run_model.model.temperature
    lines = [
        f"Logits are divided by a temperature of {temperature:.4g} before they become probabilities."
        if temperature != 1
        else "The temperature is 1: probabilities are those of training, not adjusted afterwards."
    ]
    if isinstance(measured, dict) and measured:
        lines += ["", table(("", "value"), [(_measured(name), value) for name, value in measured.items()])]
    elif measured:
        lines.append(one_line(measured))
    else:
        lines.append("Calibration error: not measured. Do not read the probabilities as frequencies.")
    return "\n".join(lines)


def _measured(name: str) -> str:
    """Return the name of a number about calibration, in words.

    >>> _measured("test_error_before"), _measured("rows")
    ('expected calibration error on test nodes, before temperature scaling', 'rows')
    """
    where = " on test nodes" if name.startswith("test_") else ""
    name = name.removeprefix("test_")
    if name.startswith("error_"):
        return f"expected calibration error{where}, {name.removeprefix('error_')} temperature scaling"
    return name.replace("_", " ")


def intended_use(run_model: RunModel) -> str:
    """Return the intended use."""
    return (
        "To classify rows of the same kind as the training nodes: the same features, measured and scaled the same way, "
        "from the same source. Neighbours, edges and ids are not used, so nodes without any edge can be classified."
    )


def limits(run_model: RunModel) -> str:
    """Return the limits."""
    model = run_model.model
    lines = [
        "It predicts from features alone: information that only a node's neighbours carry has no effect.",
        "Every row gets a class, even one unlike anything in training; there is no class for 'none of these'."
        if model.task == "multiclass"
        else "Each task is decided on its own, at a probability of one half.",
        "Its quality decreases without warning when features drift from those of the training data.",
        "Differences in quality between groups of nodes were not measured.",
    ]
    if fact(run_model, "setting") == "transductive" and score(run_model, "test") is not None:
        lines.append(
            "Training used features and edges of the test nodes (transductive): on new rows, expect less than the "
            "test result above."
        )
    return "\n".join(f"- {line}" for line in lines)


def inputs(run_model: RunModel) -> str:
    """Return the columns and the normalisation."""
    model = run_model.model
    names = model.feature_names
    count = f"{model.widths[0]:,} numbers per row, float32, finite"
    lines = [
        f"{count}, without names: the order of the training data." if names is None else f"{count}, in this order:"
    ]
    if names is not None:
        lines += ["", listed(names)]
    how = (
        "The model itself divides each row by the sum of its absolute values (rows of zeros stay as they are): give it "
        "raw rows, as in training."
        if model.normalize == "row"
        else "The model itself puts columns on the scale of training: give it raw rows, as in training."
        if fact(run_model, "scales_columns")
        else "Rows are used as they are: give them in the units of the training data."
    )
    return "\n".join([*lines, "", how])


def outputs(run_model: RunModel) -> str:
    """Return the classes and the meaning of the numbers."""
    model = run_model.model
    what = (
        "Logits, and probabilities that sum to one (softmax), one column per class:"
        if model.task == "multiclass"
        else "Logits, and one probability per task (sigmoid); they do not sum to one:"
    )
    return f"{what}\n\n{listed(model.class_names)}"


def origin(run_model: RunModel) -> str:
    """Return architecture, main settings, versions and digest."""
    model, train = run_model.model, run_model.settings.get("train") or {}
    versions = run_model.metrics.get("versions") or {}
    rows = [
        ("layers", f"{' -> '.join(map(str, model.widths))}, {model.activation}, batch norm folded in"),
        ("seed", fact(run_model, "seed")),
        ("epochs trained", run_model.metrics.get("epochs")),
        *((name, train[key]) for name, key in (("learning rate", "lr"), ("batch size", "batch_size")) if key in train),
        *((("kept epoch", kept),) if (kept := _kept(run_model.metrics)) else ()),
        ("trained with", ", ".join(f"{name} {version}" for name, version in versions.items()) or None),
        ("exported with", f"gssc {__version__}"),
    ]
    more = f"\n\nDigest of the model: `{run_model.digest}`."
    more += " All settings are in the `config.yaml` of the run." if run_model.settings else ""
    return table(("", ""), rows) + more


def _kept(metrics: Mapping[str, Any]) -> str:
    """Return which epoch was kept and why, if the run recorded it."""
    reason = metrics.get("kept_because")
    return f"{metrics.get('best_epoch')}: {reason}" if reason else ""


def table(header: tuple[str, str], rows: list[tuple[str, Any]]) -> str:
    """Return a Markdown table with two columns."""
    lines = [f"| {header[0]} | {header[1]} |", "|---|---|"]
    return "\n".join(lines + [f"| {cell(name)} | {cell(value)} |" for name, value in rows])


def listed(names: list[str]) -> str:
    """Return names as a numbered list; a long one is cut."""
    lines = [f"{index}. {one_line(name)}" for index, name in enumerate(names[:SHOWN_NAMES])]
    if len(names) > SHOWN_NAMES:
        lines.append(f"\nand {len(names) - SHOWN_NAMES:,} more, all in the model's own description.")
    return "\n".join(lines)


def percent(value: Any) -> str | None:
    """Return a share as a percentage."""
    return f"{100 * value:.2f}%" if isinstance(value, int | float) and abs(value) <= 1 else None


def shown(value: Any) -> str:
    """Return a value as text, or a note that it was not recorded."""
    if value is None:
        return UNKNOWN
    return f"{value:.4g}" if isinstance(value, float) else one_line(value)


def cell(value: Any) -> str:
    """Return a value as the text of a table cell, with separators escaped."""
    return shown(value).replace("|", "\\|")


def one_line(value: Any) -> str:
    """Return a value as text that Markdown shows literally: without line breaks, HTML and links."""
    text = printable(" ".join(str(value).split()))
    return re.sub(r"([\\`\[])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
