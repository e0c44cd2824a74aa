"""Throughput of a sweep with one process and with two: the same runs, with a new store each.

    python benchmarks/sweep.py --out results/sweep.md

Each process uses one thread. The start of a process (Python, torch, PyTorch Geometric) is part of the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

from gssc.evaluate.cell import cells
from gssc.evaluate.executor import LocalProcesses
from gssc.evaluate.store import Store
from gssc.evaluate.sweep import Sweep, run_job


def seconds(jobs: int, seeds: int, dataset: str) -> float:
    """Return the time of a whole sweep, from an empty store."""
    made, _ = cells(["gcn", "sage", "appnp"], ["none"], [dataset], seeds=seeds)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.sqlite")
        sweep = Sweep(made, store, LocalProcesses(run_job, jobs))
        started = time.perf_counter()
        sweep.run()
        taken = time.perf_counter() - started
        assert [status for status, _ in store.statuses().values()] == ["done"] * len(made)
    return taken


def main() -> None:
    """Run both in turns, print the ratio, optionally write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="write the result to this file too")
    options = parser.parse_args()
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for jobs in times:
            times[jobs].append(seconds(jobs, options.seeds, options.dataset))
    ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
    text = (
        "# Throughput of a sweep\n\n"
        f"    python benchmarks/sweep.py --dataset {options.dataset} --seeds {options.seeds} --rounds {options.rounds} "
        "--out results/sweep.md\n\n"
        f"{3 * options.seeds} runs (gcn, sage, appnp on {options.dataset}), {options.rounds} rounds, a new store each, "
        f"{os.cpu_count()} cores.\n\n"
        "| processes | median seconds |\n|---|---|\n"
        f"| 1 | {statistics.median(times[1]):.1f} |\n| 2 | {statistics.median(times[2]):.1f} |\n\n"
        f"Two processes give {statistics.median(ratios):.2f} times the throughput of one "
        f"(rounds: {', '.join(f'{ratio:.2f}' for ratio in ratios)}).\n"
    )
    print(text)
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
