"""Accuracy of the shipped recipes over five seeds; writes results/core.md.

    python benchmarks/core_accuracy.py --jobs 2

Each run is a run folder of its own under --runs: stop at any time and start again, finished runs are not repeated and
an interrupted one goes on from its checkpoint. Needs the real data (GSSC_DATA_ROOT, or a network).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, pstdev

from rich.console import Console
from rich.progress import Progress

from gssc.recipes import recipe_file

DATASETS = ("cora", "citeseer", "coauthor-cs", "coauthor-physics", "actor")
ROOT = Path(__file__).resolve().parents[1]


def train(dataset: str, seed: int, folder: Path) -> dict:
    """One run in a process of its own, one thread, finished or taken up again."""
    finished = folder / "metrics.json"
    if not finished.exists():
        command = [
            sys.executable,
            "-m",
            "gssc",
            "train",
            dataset,
            "--seed",
            str(seed),
            "--out",
            str(folder),
            "--resume",
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return dict(json.loads(finished.read_text(encoding="utf-8")))


def row(dataset: str, runs: list[dict]) -> str:
    """One line of the table."""
    paper = recipe_file(dataset)["expected"]["paper"]
    test = [100 * run["test_accuracy"] for run in runs]
    val = [100 * run["val_accuracy"] for run in runs]
    verdict = f"{mean(test) - paper:+.2f}"
    return (
        f"| {dataset} | {runs[0]['split']} | {mean(test):.2f} ± {pstdev(test):.2f} | {paper:.2f} | {verdict} | "
        f"{mean(val):.2f} | {', '.join(f'{value:.1f}' for value in test)} | "
        f"{mean(run['epochs'] for run in runs):.0f} | {mean(run['seconds'] for run in runs):.0f} | "
        f"{mean(run['edges_kept'] / run['edges_total'] for run in runs):.0%} |"
    )


def main() -> None:
    """Run what is missing, then print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "core")
    parser.add_argument("--out", type=Path, help="write the table there, between the markers of the file")
    options = parser.parse_args()

    jobs = [(name, seed) for name in options.datasets for seed in range(options.seeds)]
    with Progress(console=Console(stderr=True)) as progress, ThreadPoolExecutor(options.jobs) as pool:
        task = progress.add_task("runs", total=len(jobs))

        def one(job: tuple[str, int]) -> dict:
            metrics = train(*job, options.runs / f"{job[0]}-{job[1]}")
            progress.advance(task)
            return metrics

        results = dict(zip(jobs, pool.map(one, jobs), strict=True))

    columns = (
        "data set",
        "split",
        "test",
        "paper",
        "difference",
        "validation",
        "each seed",
        "epochs",
        "seconds",
        "kept",
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [row(name, [results[name, seed] for seed in range(options.seeds)]) for name in options.datasets]
    print("\n".join(lines))
    if options.out:
        begin, end = "<!-- table -->", "<!-- end of table -->"
        text = options.out.read_text(encoding="utf-8")
        head, rest = text.split(begin)
        options.out.write_text("\n".join([f"{head}{begin}", *lines, f"{end}{rest.split(end)[1]}"]), encoding="utf-8")


if __name__ == "__main__":
    main()
