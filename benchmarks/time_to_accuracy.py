"""Training time until the chosen model reaches an accuracy: the package and the transcription, one thread each.

    python benchmarks/time_to_accuracy.py --store FILE --seeds 0 1 2 3 4   # run what the store lacks, then report
    python benchmarks/time_to_accuracy.py --store FILE                     # report only

The transcription runs the method as released (preset `reference`). The package runs its default learner ("gssc"), the
recipe of pair training that it ships for the dataset ("recipe"), the same with half of the epochs ("short"), and the
preset `reference` ("reference"), whose steps are those of the transcription: the two should reach the same accuracy up
to randomness. After each epoch, the *chosen* model is the best so far by validation (for the default learner, the
kept student) or, in the last phase of a recipe, the latest. Time to accuracy is the training time until the test
accuracy of the chosen model first reaches the target. Nothing is chosen by test accuracy; it only stops the clock.
A run whose chosen model never reaches it counts as the time of its whole schedule, marked ">": a lower bound. Clocks
cover everything from building the run on (including the sparsifier's pretraining) except reading the dataset. Each
finished run is one line of the store, so that an interrupted benchmark continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
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
from gssc.learner.learner import LearnerTraining
from gssc.learner.settings import Config
from gssc.recipes import preset_settings, recipe_settings
from gssc.train.bilevel import BilevelTraining

SIDES: dict[str, Callable[[Graph, Any], Any]] = {
    "gssc": LearnerTraining,
    "recipe": BilevelTraining,
    "short": BilevelTraining,
    "reference": BilevelTraining,
    "transcription": Transcription,
}
# A shorter schedule: fewer epochs of pairs, the cheap last phase unchanged.
SHORT = {"sparsifier": {"pretrain_epochs": 20}, "train": {"warmup_epochs": 40, "epochs": 15}}


def settings(side: str, dataset: str, seed: int) -> Any:
    """Return the defaults, the shipped recipe, or the released settings for the transcription and "reference"."""
    if side == "gssc":
        config: Any = Config()
    elif side in ("reference", "transcription"):
        config = parse_config(preset_settings("reference"))
    else:
        config = parse_config(recipe_settings(dataset), SHORT if side == "short" else {})
    config.train.seed, config.train.threads = seed, 1
    return config


def run(side: str, graph: Graph, config: Any, on_epoch: Callable[[], object]) -> dict[str, Any]:
    """Train one seed to the end of its schedule and return the records of all epochs."""
    course: list[dict[str, Any]] = []
    wall, cpu = time.perf_counter(), time.process_time()
    for record in SIDES[side](graph, config).epochs():
        course.append(
            {
                "epoch": record.epoch,
                "phase": record.phase,
                "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - cpu,
                "val_score": record.val_score,
                "test_score": record.test_score,
                "chosen": record.best,
            }
        )
        on_epoch()
    settings_used = {name: values for name, values in config.to_dict().items() if name != "data"}
    return {
        "side": side,
        "dataset": graph.name,
        "split": graph.split,
        "seed": config.train.seed,
        "torch": torch.__version__,
        "settings": settings_used,
        "course": course,
    }


def time_to(course: list[dict[str, Any]], target: float, clock: str) -> tuple[float, bool]:
    """Return the seconds until the chosen model's test accuracy reaches the target, and whether it does."""
    for step in course:
        if step["chosen"] and round(step["test_score"], 6) >= target:
            return step[clock], True
    return course[-1][clock], False


def final(course: list[dict[str, Any]], what: str) -> float:
    """Return a value of the model that the whole run chose."""
    return [step[what] for step in course if step["chosen"]][-1]


def read_store(store: Path) -> list[dict[str, Any]]:
    """Return the finished runs; an incomplete line is ignored."""
    runs = []
    for line in store.read_text().splitlines() if store.exists() else []:
        try:
            runs.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return runs


def append(store: Path, finished: dict[str, Any]) -> None:
    """Append a line, starting a new one even if the last line is incomplete."""
    store.parent.mkdir(parents=True, exist_ok=True)
    cut_off = store.exists() and store.stat().st_size > 0 and not store.read_text().endswith("\n")
    with store.open("a") as file:
        file.write("\n" * cut_off + json.dumps(finished) + "\n")


def report(runs: list[dict[str, Any]], target: float, clock: str, console: Console) -> None:
    """Print one row per run, then the ratio of medians."""
    columns = ("side", "seed", f"seconds to {100 * target:.1f}", "seconds in all", "epochs", "val", "test")
    table = Table(*columns, title=f"Time to {100 * target:.1f} test accuracy of the model chosen by validation")
    times: dict[str, list[tuple[float, bool]]] = {side: [] for side in SIDES}
    for entry in sorted(runs, key=lambda entry: (entry["side"], entry["seed"])):
        course = entry["course"]
        seconds, reached = time_to(course, target, clock)
        times[entry["side"]].append((seconds, reached))
        accuracies = [f"{100 * final(course, name):.1f}" for name in ("val_score", "test_score")]
        took = f"{'' if reached else '> '}{seconds:.1f}"
        table.add_row(
            entry["side"], str(entry["seed"]), took, f"{course[-1][clock]:.1f}", str(len(course)), *accuracies
        )
    console.print(table)
    medians = {}
    for side, measured in times.items():
        if measured:
            medians[side] = statistics.median(seconds for seconds, _ in measured)
            count = sum(reached for _, reached in measured)
            console.print(f"{side}: median {medians[side]:.1f} s, reached by {count} of {len(measured)} seeds")
    for side in SIDES:
        if side != "transcription" and {side, "transcription"} <= set(medians):
            ratio = medians["transcription"] / medians[side]
            console.print(
                f"{side} gets there {ratio:.1f} times sooner (medians over seeds; unreached runs count in full)"
            )


def main(arguments: list[str] | None = None) -> None:
    """Run the requested seeds that are not in the store yet; report on all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("results/time_to_accuracy.jsonl"), help="finished runs")
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="seeds to run; none: report only")
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--target", type=float, default=84.7, help="test accuracy, in percent")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: on a machine that is not idle")
    parser.add_argument("--warmup", type=int, help="warm-up epochs on both sides, to try things out")
    parser.add_argument("--epochs", type=int, help="alternating epochs on both sides, to try things out")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console = Console()

    def finished() -> list[dict[str, Any]]:
        return [entry for entry in read_store(options.store) if entry["dataset"] == options.dataset]

    done = {(entry["side"], entry["seed"]) for entry in finished()}
    # Seeds in the outer loop, so that an interrupted benchmark has equally many runs of each side.
    wanted = [(side, seed) for seed in options.seeds for side in options.sides if (side, seed) not in done]
    graph = load_dataset(options.dataset) if wanted else None
    with Progress(console=console, transient=True) as progress:
        for side, seed in wanted:
            config = settings(side, options.dataset, seed)
            if isinstance(config, ContrastConfig):
                config.train.warmup_epochs = config.train.warmup_epochs if options.warmup is None else options.warmup
                config.train.epochs = config.train.epochs if options.epochs is None else options.epochs
            total = config.total_epochs
            task = progress.add_task(f"{side}, seed {seed}", total=total)
            assert graph is not None
            append(options.store, run(side, graph, config, partial(progress.advance, task)))
            progress.remove_task(task)
    if runs := finished():
        report(runs, options.target / 100, "seconds" if options.clock == "wall" else "cpu_seconds", console)
    else:
        console.print(f"{options.store} holds no run on {options.dataset} yet; ask for some with --seeds 0 1 2 3 4")


if __name__ == "__main__":
    main()
