"""Accuracy of the shipped recipes over five seeds; writes results/core.md.

    python benchmarks/core_accuracy.py --jobs 2 --store results.sqlite --out results/core.md

The runs are those of `gssc bench --models str_contrast --sparsifiers str_sparse`, which trains the same as `gssc train
NAME --model str_contrast` (a test compares the two). The benchmark can be stopped and restarted at any time: finished
runs are not repeated. Needs the real data (GSSC_DATA_ROOT, or a network).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from gssc.cli.bench import SweepBar
from gssc.evaluate.cell import cells
from gssc.evaluate.executor import LocalProcesses
from gssc.evaluate.store import Store
from gssc.evaluate.sweep import Sweep, run_job
from gssc.recipes import recipe_file

DATASETS = ("cora", "citeseer", "coauthor-cs", "coauthor-physics", "actor")
MARKERS = ("<!-- table -->", "<!-- end of table -->")
COLUMNS = ("dataset", "split", "test", "paper", "difference", "validation", "each seed", "epochs", "seconds", "kept")


def line(dataset: str, runs: list[dict[str, Any]]) -> str:
    """Return one line of the table."""
    paper = recipe_file(dataset)["expected"]["paper"]
    test = [100 * run["test_score"] for run in runs]
    return (
        f"| {dataset} | {runs[0]['split']} | {mean(test):.2f} ± {pstdev(test):.2f} | {paper:.2f} | "
        f"{mean(test) - paper:+.2f} | {mean(100 * run['val_score'] for run in runs):.2f} | "
        f"{', '.join(f'{value:.1f}' for value in test)} | {mean(run['epochs'] for run in runs):.0f} | "
        f"{mean(run['seconds'] for run in runs):.0f} | "
        f"{mean(run['edges_kept'] / run['edges_total'] for run in runs):.0%} |"
    )


def main() -> None:
    """Run what is missing, then print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--store", type=Path, default=Path("results.sqlite"))
    parser.add_argument("--out", type=Path, help="write the table there, between the markers of the file")
    options = parser.parse_args()
    if options.out and not (options.out.is_file() and MARKERS[0] in options.out.read_text(encoding="utf-8")):
        parser.error(f"{options.out} must be a file with the markers {' and '.join(MARKERS)}")  # sooner than in an hour
    made, _ = cells(["str_contrast"], ["str_sparse"], options.datasets, seeds=options.seeds)
    sweep = Sweep(made, Store(options.store), LocalProcesses(run_job, options.jobs), retry=True)
    with SweepBar(sweep) as bar:
        sweep.run(bar)
    rows = [row for row in sweep.store.runs(sweep.keys) if row["status"] == "done"]
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [line(name, [row for row in rows if row["dataset"] == name]) for name in options.datasets]
    print("\n".join(lines))
    if options.out:
        begin, end = MARKERS
        text = options.out.read_text(encoding="utf-8")
        head, rest = text.split(begin)
        options.out.write_text("\n".join([f"{head}{begin}", *lines, f"{end}{rest.split(end)[1]}"]), encoding="utf-8")


if __name__ == "__main__":
    main()
