"""Pairs per second of two processes and of one, each with one thread, on the same batches.

    python benchmarks/processes.py --rounds 3 --passes 3
    python benchmarks/processes.py --learner default --nodes 100000 --degree 20 --hidden 256

Every round starts one process and then two by torchrun, on the same graph with the same settings. A measurement is the
fastest of several passes, because other load on the machine can only slow a pass down. The ratio is that of the fastest
passes over all rounds. Batch norm uses the statistics of each process's own share.

A pass of ``pairs``, model str_contrast in memory, is all pairs. A pass of ``default``, the default learner streamed
from disk, is an epoch of 20 batches of 8,192 drawn pairs, with the step on class centres and the scores of the epoch.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

Pass = Callable[[], Any]


def pair_training(options: argparse.Namespace) -> tuple[int, Pass]:
    """Return the number of pairs of a pass of str_contrast in memory, and a function that trains one."""
    from gssc.config import parse_config
    from gssc.data import load_dataset
    from gssc.train.bilevel import BilevelTraining

    settings = {
        "model": {"name": "str_contrast", "hidden": options.hidden},
        "sparsifier": {"name": "none"},
        "train": {"batch_size": options.batch, "threads": 1, "normalize": "none"},
    }
    graph = load_dataset("csbm", nodes=options.nodes, degree=options.degree, features=options.features)
    training = BilevelTraining(graph, parse_config(settings))
    kept = training.every_given_pair()
    return len(kept), lambda: training.update_classifier(kept)


def default_learner(options: argparse.Namespace) -> tuple[int, Pass]:
    """Return the number of pairs of an epoch of the streamed default learner, and a function that trains one."""
    from gssc.graph import Graph
    from gssc.learner.settings import Config
    from gssc.learner.streamed import StreamedLearner

    config = Config()
    config.model.hidden = options.hidden
    training = StreamedLearner(Graph.load(options.graph), config)
    training.prepare()
    return config.teachers.pair_batches * training.settings.train.batch_size, training.train_epoch


LEARNERS = {"pairs": pair_training, "default": default_learner}


def measure(options: argparse.Namespace) -> None:
    """Run one process of a measurement; the first process writes the seconds of each pass."""
    import numpy as np
    import torch

    from gssc.train.distributed import joined
    from gssc.train.process import computing

    with joined() as processes, computing(1):
        pairs, train = LEARNERS[options.learner](options)
        seconds, cpu = [], np.zeros(options.passes)
        for number in range(options.passes):
            started, used = time.perf_counter(), time.process_time()
            train()
            seconds.append(time.perf_counter() - started)
            cpu[number] = time.process_time() - used
        cpu = processes.count * processes.mean(cpu)
        if processes.first:
            found = {"pairs": pairs, "seconds": seconds, "cpu": cpu.tolist(), "processes": processes.count}
            found["torch"] = torch.__version__
            Path(options.measure).write_text(json.dumps(found))


def build(options: argparse.Namespace, folder: Path) -> Path:
    """Build the csbm graph of the default learner on disk and return its folder."""
    from gssc.data.build import build_graph
    from gssc.data.synthetic import CsbmStream

    edges, part = options.nodes * options.degree // 2, min(2000, options.nodes // 5)
    shape = {"nodes": options.nodes, "num_edges": edges, "features": options.features, "signal": 4}
    build_graph(CsbmStream(**shape, val=part, test=part), folder / "csbm.graph")
    return folder / "csbm.graph"


PASSED_ON = ("learner", "graph", "nodes", "degree", "features", "hidden", "batch", "passes")


def run(count: int, options: argparse.Namespace, folder: Path) -> dict:
    """Return the result of a measurement with ``count`` processes."""
    place = folder / "found.json"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    given = [f"--{name}={getattr(options, name)}" for name in PASSED_ON]
    command = [sys.executable, *launcher, __file__, "--measure", str(place), *given]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    return json.loads(place.read_text())


def main() -> None:
    """Run both in turns, print the ratio, optionally write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learner", choices=tuple(LEARNERS), default="pairs")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4096, help="pairs per batch of str_contrast")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="write the result to this file too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--graph", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options)
        return
    best: dict[int, float] = {}
    cpu: dict[int, float] = {}
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        options.graph = build(options, Path(folder)) if options.learner == "default" else ""
        for _ in range(options.rounds):
            speeds = {}
            for count in (1, 2):
                found = run(count, options, Path(folder))
                assert found["processes"] == count
                speeds[count] = found["pairs"] / min(found["seconds"])
                best[count] = max(best.get(count, 0.0), speeds[count])
                cpu[count] = min(cpu.get(count, float("inf")), *found["cpu"])
            rounds.append(speeds[2] / speeds[1])
    batch = 8192 if options.learner == "default" else options.batch
    text = (
        "# Two processes\n\n"
        f"    python benchmarks/processes.py {' '.join(sys.argv[1:])}\n\n"
        f"{found['pairs']:,} pairs of a csbm graph, {options.features} features, {batch} pairs per batch, "
        f"width {options.hidden}; best of {options.passes} passes in each of {options.rounds} rounds; "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end; torch {found['torch']}.\n\n"
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
