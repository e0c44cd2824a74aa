"""Calibration error on test nodes before and after temperature scaling on validation nodes; writes a results page.

    python benchmarks/calibration.py --out results/calibration.md

Trains the shipped recipe of each dataset, with one run folder RUNS/NAME-SEED per seed. The benchmark can be stopped
and restarted at any time: finished runs are not repeated. Predictions come from the deployed model of each run. Needs
the real data (GSSC_DATA_ROOT, or a network).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from pathlib import Path
from statistics import mean

import numpy as np
from scipy.special import softmax

from gssc import DeployedModel, Run
from gssc.calibration import PRIOR_ROWS, expected_calibration_error, fit_temperature
from gssc.config import parse_config
from gssc.metrics import accuracy, log_loss
from gssc.recipes import recipe
from gssc.run_graph import named_graph
from gssc.settings import read_settings

DATASETS = ("cora", "citeseer", "coauthor-cs")
ROOT = Path(__file__).resolve().parents[1]
HEADER = (
    "| dataset | seed | test accuracy | temperature | error before | after | log-loss before | after |\n"
    "|---|---|---|---|---|---|---|---|"
)


def trained(dataset: str, seed: int, folder: Path) -> None:
    """Train the run in the folder unless it is finished."""
    config = recipe(dataset)
    config.train.seed = seed
    Run(folder, config, resume=True).train()


def measure(folder: Path) -> dict[str, float]:
    """Return the temperature fitted on validation nodes of a run, and test metrics before and after it."""
    graph = named_graph(parse_config(read_settings(folder / "config.yaml")).data)
    logits = DeployedModel.load(folder).logits(graph.features).astype(np.float64)
    temperature = fit_temperature(logits[graph.val], graph.labels[graph.val], PRIOR_ROWS)
    test, labels = logits[graph.test], graph.labels[graph.test]
    return {
        "accuracy": accuracy(test, labels),
        "temperature": temperature,
        "before": expected_calibration_error(softmax(test, axis=1), labels),
        "after": expected_calibration_error(softmax(test / temperature, axis=1), labels),
        "loss_before": log_loss(test, labels),
        "loss_after": log_loss(test / temperature, labels),
    }


def row(dataset: str, seed: str, values: dict[str, float]) -> str:
    """Return one line of the table."""
    return (
        f"| {dataset} | {seed} | {100 * values['accuracy']:.2f} | {values['temperature']:.3f} | "
        f"{100 * values['before']:.2f} | {100 * values['after']:.2f} | "
        f"{values['loss_before']:.3f} | {values['loss_after']:.3f} |"
    )


def main() -> None:
    """Run what is missing, then print the table and write it between the markers of the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "calibration")
    parser.add_argument("--out", type=Path, help="write the table there, between the markers of the file")
    options = parser.parse_args()

    lines = [HEADER]
    for dataset in options.datasets:
        measured = []
        for seed in options.seeds:
            folder = options.runs / f"{dataset}-{seed}"
            trained(dataset, seed, folder)
            measured.append(measure(folder))
            lines.append(row(dataset, str(seed), measured[-1]))
            print(lines[-1], flush=True)
        lines.append(row(dataset, "mean", {name: mean(one[name] for one in measured) for name in measured[0]}))
    table = "\n".join(lines)
    print(table)
    if options.out:
        start, end = "<!-- table -->", "<!-- end of table -->"
        text = options.out.read_text(encoding="utf-8")
        before, after = text.split(start)[0], text.split(end)[1]
        options.out.write_text(f"{before}{start}\n{table}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
