"""Tables of results/molecules.md from one or more results stores.

gssc bench --datasets bbbp --models gssc,gcn,gin,fingerprint_forest --seeds 3 --store molecules.sqlite
python benchmarks/molecule_tables.py molecules.sqlite
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from gssc.data.registry import DATASETS
from gssc.evaluate.store import Store


def main() -> None:
    """Print one table per set of molecules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", type=Path, nargs="+")
    rows = [row for path in parser.parse_args().stores for row in Store(path).rows() if row["status"] == "done"]
    for dataset in sorted({row["dataset"] for row in rows}):
        if DATASETS[dataset.partition(":")[0]].level == "graph":
            print(f"\n## {dataset}\n\n" + table([row for row in rows if row["dataset"] == dataset]))


def table(rows: list[dict[str, Any]]) -> str:
    """Return a Markdown table, the best test score first."""
    lines = [
        "| model | seeds | test ROC-AUC | validation | average precision | training s | ms per 1,000 molecules |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    models: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        models.setdefault(row["model"], []).append(row)
    for model, runs in sorted(models.items(), key=lambda item: -statistics.mean(run["test_score"] for run in item[1])):
        measured = [json.loads(run["config"])["measured"] for run in runs]
        precision = [entry["test_average_precision"] for entry in measured if entry["test_average_precision"]]
        speed = [1e6 * entry["predict_seconds"] / entry["molecules"] for entry in measured]
        cells = [
            model,
            str(len(runs)),
            spread([100 * run["test_score"] for run in runs]),
            spread([100 * run["val_score"] for run in runs]),
            spread([100 * value for value in precision]),
            f"{statistics.median(run['seconds'] for run in runs):.0f}",
            "-" if model == "fingerprint_forest" else f"{statistics.median(speed):.0f}",  # its scores are looked up
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Return the mean, with the standard deviation where there are several values."""
    if not values:
        return "-"
    middle = f"{statistics.mean(values):.1f}"
    return f"{middle} ± {statistics.stdev(values):.1f}" if len(values) > 1 else middle


if __name__ == "__main__":
    main()
