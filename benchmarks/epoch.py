"""Seconds per epoch and peak memory: the package and a plain transcription of the method, one thread each.

    python benchmarks/epoch.py [--datasets cora citeseer coauthor-cs] [--batch-size B] [--repeats 3] [--quick]

How it is counted:

* All sides get the same graph, width and batch size, and take turns epoch by epoch, so that other load on the machine
  affects all of them. The median of the turns is reported, after one warm-up turn.
* "reference" is the package with the preset `reference`: step by step the same work as the transcription. "gssc" is
  the package with its defaults, which draw negatives from the batch itself (the text's distribution, without a
  separate pass) and compute beta by a network a quarter as wide.
* An epoch is everything one epoch of training does: the pass over the pairs, the class-centre step, whole-graph
  prediction and scoring; in the alternating phase also sampling the subgraph and the sparsifier's step.
* The alternating phase starts after ten steps of the sparsifier's pretraining on each side, after which it keeps nearly
  every pair; the table has the number of pairs: both directions of each edge kept.
* If a whole epoch of the transcription takes minutes, both sides run a short epoch of `first` batches and a longer
  one of `last` batches. The difference gives the cost of a batch, the short epoch the cost of the rest, and an epoch
  of n batches takes `short + (n - first) * batch`. Such rows are marked "from a .. b batches".
* Peak memory is measured in a separate process for each side: the highest resident size during one epoch of either
  phase, minus the resident size once everything is imported and the graph is loaded.

Without GSSC_DATA_ROOT the datasets are replaced by a generated graph (`csbm`), so that this runs anywhere.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from transcription import Transcription

from gssc.config import ContrastConfig, parse_config
from gssc.data import load_dataset
from gssc.graph import Graph
from gssc.recipes import preset_settings
from gssc.train.bilevel import BilevelTraining

# The timed sides, and the preset of each.
SIDES: dict[str, tuple[Callable[[Graph, ContrastConfig], Any], str]] = {
    "gssc": (BilevelTraining, "default"),
    "reference": (BilevelTraining, "reference"),
    "transcription": (Transcription, "reference"),
}
PHASES = ("warm-up", "alternate")
PRETRAIN_STEPS = 10
FIRST_BATCHES = 1
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Case:
    """One dataset of the benchmark; with `last_batches`, epochs are shortened and the whole one is extrapolated."""

    dataset: str
    batch_size: int
    last_batches: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Graph:
        return load_dataset(self.dataset, **self.options)


@dataclass
class Outcome:
    """Measurements on one dataset, by side; seconds also by phase."""

    case: Case
    graph: Graph
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    pairs: dict[tuple[str, str], int] = field(default_factory=dict)
    megabytes: dict[str, float] = field(default_factory=dict)


CASES = {
    "cora": Case("cora", batch_size=512),
    "citeseer": Case("citeseer", batch_size=1024),
    "coauthor-cs": Case("coauthor-cs", batch_size=4096, last_batches=4),
}
MADE_CASE = Case("csbm", batch_size=512)
QUICK_CASE = Case("csbm", batch_size=64, options={"nodes": 120})


def settings(case: Case, phase: str, hidden: int, max_batches: int, preset: str) -> ContrastConfig:
    """Return a preset with the given F and B, and one endless phase to measure."""
    config = parse_config({"model": {"name": "str_contrast"}, "sparsifier": {"score": "dot"}}, preset_settings(preset))
    config.model.hidden = config.sparsifier.hidden = hidden
    config.train.batch_size = case.batch_size
    config.train.max_batches = max_batches
    config.train.threads = 1
    config.train.warmup_epochs, config.train.epochs = (10**6, 0) if phase == "warm-up" else (0, 10**6)
    config.train.patience = 10**6
    config.sparsifier.pretrain_epochs = 0 if phase == "warm-up" else PRETRAIN_STEPS
    return config


def time_phase(case: Case, graph: Graph, phase: str, hidden: int, repeats: int, clock: str, outcome: Outcome) -> None:
    """Run the sides in turns and record the median of each."""
    now = CLOCKS[clock]
    lengths = [FIRST_BATCHES, case.last_batches] if case.last_batches else [0]
    runs = {
        (side, length): build(graph, settings(case, phase, hidden, length, preset)).epochs()
        for side, (build, preset) in SIDES.items()
        for length in lengths
    }
    turns: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
    kept: dict[str, int] = {}
    for _ in range(repeats + 1):
        for (side, length), epochs in runs.items():
            started = now()
            record = next(epochs)
            turns[side, length].append(now() - started)
            kept[side] = 2 * record.edges_kept
    for side in SIDES:
        medians = [statistics.median(turns[side, length][1:]) for length in lengths]
        seconds = medians[0]
        if case.last_batches:
            batch = (medians[1] - medians[0]) / (case.last_batches - FIRST_BATCHES)
            seconds += batch * (math.ceil(kept[side] / case.batch_size) - FIRST_BATCHES)
        outcome.seconds[side, phase], outcome.pairs[side, phase] = seconds, kept[side]


def measure(case: Case, hidden: int, repeats: int, clock: str) -> Outcome:
    """Return the times of both phases and the peak memory of every side."""
    graph = case.load()
    outcome = Outcome(case, graph)
    for phase in PHASES:
        time_phase(case, graph, phase, hidden, repeats, clock, outcome)
    for side in SIDES:
        outcome.megabytes[side] = peak_megabytes(case, side, hidden)
    return outcome


# Memory: each side in a separate process ----------------------------------------------------------------------------


def peak_megabytes(case: Case, side: str, hidden: int) -> float:
    """Run one epoch of either phase in a new process and return the increase of its resident size."""
    job = {"dataset": case.dataset, "batch_size": case.batch_size, "options": case.options}
    job |= {"last_batches": case.last_batches, "side": side, "hidden": hidden}
    command = [sys.executable, str(Path(__file__).resolve()), "--memory-of", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring the memory of {side} on {case.dataset} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def memory_of(job: dict[str, Any]) -> float:
    """Return the peak megabytes in this child process beyond those of imports and the graph."""
    case = Case(job["dataset"], job["batch_size"], job["last_batches"], job["options"])
    torch.set_num_threads(1)
    graph = case.load()
    torch.ones(8, 8) @ torch.ones(8, 8)  # initialises the matrix library
    before = start_of_peak()
    for phase in PHASES:
        build, preset = SIDES[job["side"]]
        run = build(graph, settings(case, phase, job["hidden"], case.last_batches, preset))
        next(run.epochs())
        del run
    return (peak_bytes() - before) / 2**20


def start_of_peak() -> float:
    """Return the resident size now and, on Linux, reset the peak, so that reading files does not hide training."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return status_bytes("VmRSS")
    except OSError:
        return peak_bytes()


def peak_bytes() -> float:
    """Return the peak resident size. On Linux a child inherits ru_maxrss of its parent, so /proc is used there."""
    try:
        return status_bytes("VmHWM")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def status_bytes(name: str) -> float:
    """Return one value from the status of this process on Linux, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return float(line.split()[1]) * 1024
    raise OSError(f"no {name} in the status of this process")


# Tables -------------------------------------------------------------------------------------------------------------

COLUMNS = ("dataset", "batch", "measure", *SIDES, "ratio of gssc", "of reference", "pairs")


def lines(outcomes: list[Outcome]) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    rows: list[tuple[str, ...]] = []
    for outcome in outcomes:
        case = outcome.case
        head = (case.dataset, str(case.batch_size))
        cut = f" (from {FIRST_BATCHES} .. {case.last_batches} batches)" if case.last_batches else ""
        for phase in PHASES:
            seconds = [outcome.seconds[side, phase] for side in SIDES]
            pairs = " / ".join(dict.fromkeys(f"{outcome.pairs[side, phase]:,}" for side in SIDES))
            rows.append((*head, f"{phase} epoch, s{cut}", *map("{:.3f}".format, seconds), *ratios(seconds), pairs))
        megabytes = [outcome.megabytes[side] for side in SIDES]
        rows.append((*head, "peak memory, MB", *map("{:.0f}".format, megabytes), *ratios(megabytes), ""))
    return rows


def ratios(values: list[float]) -> list[str]:
    """Return the last value, that of the transcription, over each of the others."""
    return [f"{values[-1] / value:.1f}" for value in values[:-1]]


def show(outcomes: list[Outcome], title: str, console: Console) -> None:
    """Print the table."""
    table = Table(*COLUMNS, title=title)
    for row in lines(outcomes):
        table.add_row(*row)
    console.print(table)


def markdown(outcomes: list[Outcome], title: str, command: str) -> str:
    """Return the table as Markdown for results/."""
    text = [f"# {title}", "", f"`{command}`, torch {torch.__version__}", ""]
    text += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    text += ["| " + " | ".join(row) + " |" for row in lines(outcomes)]
    how = (__doc__ or "").partition("How it is counted:\n\n")[2].partition("\n\nWithout")[0]
    return "\n".join([*text, "", "How it is counted:", "", how, ""])


def main(arguments: list[str] | None = None) -> list[Outcome]:
    """Measure, print, and optionally write Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=[*CASES, "csbm"], help="default: all, or csbm without data")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each side")
    parser.add_argument("--hidden", type=int, default=256, help="F")
    parser.add_argument("--batch-size", type=int, help="B of every side; default: each dataset's own")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: on a machine that is not idle")
    parser.add_argument("--quick", action="store_true", help="a tiny generated graph, one turn, as a smoke test")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.memory_of:
        print(memory_of(json.loads(options.memory_of)))
        return []

    console = Console()
    if options.quick:
        cases, options.repeats, options.hidden = [QUICK_CASE], 1, 16
    elif options.datasets:
        cases = [CASES.get(name, MADE_CASE) for name in options.datasets]
    elif os.environ.get("GSSC_DATA_ROOT"):
        cases = list(CASES.values())
    else:
        console.print("GSSC_DATA_ROOT is not set: measuring on a generated graph")
        cases = [MADE_CASE]
    if options.batch_size:
        cases = [replace(case, batch_size=options.batch_size) for case in cases]
    outcomes = []
    with Progress(console=console, transient=True) as progress:
        for case in progress.track(cases):
            outcomes.append(measure(case, options.hidden, options.repeats, options.clock))
    title = f"An epoch, one thread each side, F = {options.hidden}, {options.clock} time"
    show(outcomes, title, console)
    if options.markdown:
        command = "python benchmarks/epoch.py " + " ".join(sys.argv[1:] if arguments is None else arguments)
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(markdown(outcomes, title, command.strip()))
    return outcomes


if __name__ == "__main__":
    main()
