"""Pairs per second of two processes and of one, each with one thread, on the same batches.

    python benchmarks/processes.py --out results/processes.md

Every round starts one process and then two by torchrun, on the same graph with the same settings. A measurement is the
fastest of several passes over all pairs, because other load on the machine can only slow a pass down. The ratio is that
of the fastest passes over all rounds. Batch norm uses the statistics of each process's own share.

The ratio in CPU time is what two idle cores would give if waiting took no CPU time and no process waited: twice the CPU
seconds of a pass by one process, over those of both processes. It hardly depends on other load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {
    "model": {"name": "str_contrast"},
    "sparsifier": {"name": "none"},
    "train": {"batch_size": 4096, "threads": 1, "normalize": "none"},
}


def measure(options: argparse.Namespace) -> None:
    """Run one process of a measurement: passes over all pairs; the first process writes the seconds of each."""
    import numpy as np
    import torch

    from gssc.config import parse_config
    from gssc.data import load_dataset
    from gssc.train.bilevel import BilevelTraining
    from gssc.train.distributed import joined
    from gssc.train.process import computing

    graph = load_dataset("csbm", nodes=options.nodes, degree=options.degree, features=options.features)
    with joined() as processes, computing(1):
        training = BilevelTraining(graph, parse_config(SETTINGS, {"train": {"batch_size": options.batch}}))
        kept, seconds, cpu = training.every_given_pair(), [], np.zeros(options.passes)
        for number in range(options.passes):
            started, used = time.perf_counter(), time.process_time()
            training.update_classifier(kept)
            seconds.append(time.perf_counter() - started)
            cpu[number] = time.process_time() - used
        cpu = processes.count * processes.mean(cpu)
        if processes.first:
            found = {"pairs": len(kept), "seconds": seconds, "cpu": cpu.tolist(), "processes": processes.count}
            found["torch"] = torch.__version__
            Path(options.measure).write_text(json.dumps(found))


def run(count: int, options: argparse.Namespace, folder: Path) -> dict:
    """Return the result of a measurement with ``count`` processes."""
    place = folder / "found.json"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    given = [f"--{name}={getattr(options, name)}" for name in ("nodes", "degree", "features", "batch", "passes")]
    command = [sys.executable, *launcher, __file__, "--measure", str(place), *given]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    return json.loads(place.read_text())


def main() -> None:
    """Run both in turns, print the ratio, optionally write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="write the result to this file too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options)
        return
    best: dict[int, float] = {}
    cpu: dict[int, float] = {}
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            speeds = {}
            for count in (1, 2):
                found = run(count, options, Path(folder))
                assert found["processes"] == count
                speeds[count] = found["pairs"] / min(found["seconds"])
                best[count] = max(best.get(count, 0.0), speeds[count])
                cpu[count] = min(cpu.get(count, float("inf")), *found["cpu"])
            rounds.append(speeds[2] / speeds[1])
    text = (
        "# Two processes\n\n"
        f"    python benchmarks/processes.py {' '.join(sys.argv[1:])}\n\n"
        f"{found['pairs']:,} pairs of a csbm graph, {options.features} features, {options.batch} pairs per batch, "
        f"width 256; best of {options.passes} passes in each of {options.rounds} rounds; {os.cpu_count()} cores, load "
        f"average {os.getloadavg()[0]:.1f} at the end; torch {found['torch']}.\n\n"
        "| processes | pairs per second | CPU seconds per pass |\n|---|---|---|\n"
        f"| 1 | {best[1]:,.0f} | {cpu[1]:.2f} |\n| 2 | {best[2]:,.0f} | {cpu[2]:.2f} |\n\n"
        f"Two processes train {best[2] / best[1]:.2f} times the pairs per second of one (aim: 1.6; "
        f"rounds: {', '.join(f'{ratio:.2f}' for ratio in rounds)}); by CPU time {2 * cpu[1] / cpu[2]:.2f} times.\n"
    )
    print(text)
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
