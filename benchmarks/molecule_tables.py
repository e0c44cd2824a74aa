"""Tables of results/molecules.md from one or more results stores.

gssc bench --datasets bbbp --models gssc,gcn,gin,fingerprint_forest --seeds 3 --store molecules.sqlite
python benchmarks/molecule_tables.py molecules.sqlite --paper results.json

``--paper`` is a file with the numbers of the paper: {"table3": {"rows": {METHOD: {SET: {"mean": ..., "std": ...}}}}}.
``--into results/molecules.md`` writes the tables between the two markers there instead of printing them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from gssc.data.registry import DATASETS
from gssc.evaluate.store import Store

SETS = ("bbbp", "tox21", "muv", "hiv")
# Rows of Table 3 and the corresponding models here.
BESIDE = {
    "gssc": "GSSC (ours)",
    "gssc_atoms": "GSSC (ours)",
    "gpt_gnn": "GPT-GNN",
    "graph_cl": "GraphCL",
    "graph_log": "GraphLoG",
    "g_motif": "G-Motif",
    "graph_mae": "GraphMAE",
    "sim_grace": "SimGRACE",
    "graph_mvp": "GraphMVP",
}
START, END = "<!-- tables of benchmarks/molecule_tables.py -->", "<!-- end of the tables -->"
Rows = list[dict[str, Any]]


def main() -> None:
    """Print one table per set of molecules, then one that compares with the paper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", type=Path, nargs="+")
    parser.add_argument("--paper", type=Path)
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    rows = latest([row for path in given.stores for row in Store(path).runs() if row["status"] == "done"])
    parts = []
    found = {row["dataset"] for row in rows if DATASETS[row["dataset"].partition(":")[0]].level == "graph"}
    for dataset in [*(name for name in SETS if name in found), *sorted(found - set(SETS))]:
        parts.append(f"## {dataset}\n\n" + table([row for row in rows if row["dataset"] == dataset]))
    if given.paper:
        published = json.loads(given.paper.read_text(encoding="utf-8"))["table3"]["rows"]
        parts.append(f"## Beside the paper\n\n{beside(rows, published)}")
    text = "\n\n".join(parts)
    if given.into is None:
        print(text)
        return
    before, _, rest = given.into.read_text(encoding="utf-8").partition(START)
    given.into.write_text(f"{before}{START}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def latest(rows: Rows) -> Rows:
    """Return one row per model, set and seed: the last one, where a run was repeated with newer code."""
    ordered = sorted(({**row, "model": model_name(row)} for row in rows), key=lambda row: str(row["finished_at"]))
    return list({(row["model"], row["dataset"], row["seed"]): row for row in ordered}.values())


def by_model(rows: Rows) -> dict[str, Rows]:
    """Return the rows of each model."""
    models: dict[str, Rows] = {}
    for row in rows:
        models.setdefault(row["model"], []).append(row)
    return models


def table(rows: Rows) -> str:
    """Return a Markdown table, the best test score first."""
    lines = [
        "| model | seeds | test ROC-AUC | validation | average precision | epochs | epoch kept | training CPU s |",
        "|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    models = by_model(rows).items()
    for model, runs in sorted(models, key=lambda item: -statistics.mean(run["test_score"] for run in item[1])):
        measured = [json.loads(run["config"])["measured"] for run in runs]
        precision = [entry["test_average_precision"] for entry in measured if entry["test_average_precision"]]
        cells = [
            model,
            str(len(runs)),
            spread([100 * run["test_score"] for run in runs]),
            spread([100 * run["val_score"] for run in runs]),
            spread([100 * value for value in precision]),
            f"{statistics.mean(run['epochs'] for run in runs):.0f}",
            " or ".join(sorted({kept_epoch(run) for run in runs})),
            f"{statistics.median(entry['cpu_seconds'] for entry in measured):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def model_name(row: dict[str, Any]) -> str:
    """Return the model of a run; before ``gssc`` had a network with environments, it was what ``gssc_atoms`` is now."""
    atoms_alone = row["model"] == "gssc" and "atoms_alone" not in json.loads(row["config"])
    return "gssc_atoms" if atoms_alone else str(row["model"])


def kept_epoch(row: dict[str, Any]) -> str:
    """Return how the epoch of a run was chosen; rows written before there was a choice have the best one."""
    if row["model"] == "fingerprint_forest":
        return "-"
    return "last" if json.loads(row["config"])["train"].get("select") == "last" else "best"


def beside(rows: Rows, published: dict[str, Any]) -> str:
    """Return a Markdown table of test scores here and in the paper."""
    shown = [dataset for dataset in SETS if any(row["dataset"] == dataset for row in rows)]
    lines = [
        "| method | " + " | ".join(f"{dataset} here | {dataset}, Table 3" for dataset in shown) + " |",
        "|---|" + "---:|---:|" * len(shown),
    ]
    for model, runs in sorted(by_model(rows).items(), key=lambda item: item[0]):
        cells = [model]
        for dataset in shown:
            scores = [100 * run["test_score"] for run in runs if run["dataset"] == dataset]
            paper = published.get(BESIDE.get(model, ""), {}).get(dataset)
            cells += [spread(scores), f"{paper['mean']} ± {paper['std']}" if paper else "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Return the mean, with the standard deviation if there are several values."""
    if not values:
        return "-"
    middle = f"{statistics.mean(values):.1f}"
    return f"{middle} ± {statistics.stdev(values):.1f}" if len(values) > 1 else middle


if __name__ == "__main__":
    main()
