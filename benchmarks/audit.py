"""Measure how well `gssc audit` finds edges and labels that were made wrong on purpose; writes a table.

    python benchmarks/audit.py --store runs/audit/store.jsonl --seeds 3 --jobs 2 --out results/audit.md
    python benchmarks/audit.py --store runs/audit/store.jsonl --report --out results/audit.md    # run nothing

For each dataset, kind of noise and seed, noise is added to the clean graph, GSSC is trained on the noisy graph with
the recipe of the dataset, and that run is audited. The rivals for labels, trained on the same noisy graph with the
same seed, are the loss of each training label under an MLP and under a GCN. The rival for edges is the cosine of the
two feature rows, which is also part of the audit's evidence. Each finished cell is one line of the store, and each
training is a run folder next to it, so that the benchmark can be stopped and restarted at any time. Needs the real data
(GSSC_DATA_ROOT, or a network).
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from gssc.audit import audit_run
from gssc.config import parse_config
from gssc.data import load_dataset
from gssc.data.noise import add_noise
from gssc.graph import Graph
from gssc.metrics import roc_auc
from gssc.recipes import config_for, recipe_settings
from gssc.result import fit
from gssc.run import Run
from gssc.trust.pairs import edge_numbers

ROOT = Path(__file__).resolve().parents[1]
DATASETS = ("cora", "citeseer", "coauthor-cs")
STRUCTURE_NOISE = ("add:0.1", "add:0.2", "add:0.3")
LABEL_NOISE = ("symmetric:0.2", "asymmetric:0.2")
RIVALS = ("mlp", "gcn")
BEGIN, END = "<!-- table -->", "<!-- end of table -->"

Merit = dict[str, float]  # auroc and precision


class Cell(NamedTuple):
    """One noisy graph."""

    dataset: str
    noise: str
    seed: int

    @property
    def on(self) -> str:
        """What the noise applies to: ``structure`` or ``label``."""
        return "structure" if self.noise in STRUCTURE_NOISE else "label"

    @property
    def folder(self) -> str:
        """Name of its run folder."""
        return f"{self.dataset}-{self.noise.replace(':', '-')}-{self.seed}"


def merit(doubt: np.ndarray, wrong: np.ndarray) -> Merit:
    """Return the area under the ROC curve, and the precision among the k most doubted, with k wrong ones in all.

    Ties count as if in random order; unknown scores (NaN) count as least doubted.
    """
    doubt = np.where(np.isnan(doubt), -np.inf, doubt.astype(np.float64))
    count = int(wrong.sum())
    limit = np.sort(doubt)[-count]
    above, tied = doubt > limit, doubt == limit
    found = wrong[above].sum() + (count - above.sum()) * wrong[tied].mean()
    _, rank = np.unique(doubt, return_inverse=True)  # infinities as plain ranks
    auroc = roc_auc(rank[:, None].astype(np.float64), wrong[:, None].astype(np.float64))
    return {"auroc": auroc, "precision": float(found / count)}


def measure(cell: Cell, runs: Path) -> dict[str, Merit]:
    """Add noise, train, audit, and return how well each score finds what was made wrong."""
    clean = load_dataset(cell.dataset, seed=cell.seed)
    noisy, _ = add_noise(clean, **{cell.on: cell.noise}, seed=cell.seed)
    folder = runs / cell.folder
    train(cell, noisy, folder)
    findings = audit_run(folder / "run")
    if cell.on == "structure":
        ranking = findings.edges
        numbers = edge_numbers(ranking.nodes.T, clean.num_nodes)
        wrong = ~np.isin(numbers, edge_numbers(clean.edges, clean.num_nodes))
        rivals = {}
    else:
        ranking = findings.labels
        nodes = ranking.nodes[:, 0]
        wrong = noisy.labels[nodes] != clean.labels[nodes]
        rivals = {f"{name} loss": label_loss(name, noisy, cell.seed, nodes) for name in RIVALS}
    # Evidence supports an edge or label, so its negative is doubt.
    parts = {name: -values for name, values in ranking.evidence.items() if name not in ("label", "suggested")}
    return {name: merit(doubt, wrong) for name, doubt in {"audit": ranking.score, **rivals, **parts}.items()}


def train(cell: Cell, noisy: Graph, folder: Path) -> None:
    """Train the recipe on the noisy graph, resuming an unfinished run."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "graph.npz"
    noisy.save(file)
    place = {"data": {"graph": str(file)}, "train": {"seed": cell.seed, "threads": 1}}
    Run(folder / "run", parse_config(recipe_settings(cell.dataset), place), resume=True).train()


def label_loss(model: str, noisy: Graph, seed: int, nodes: np.ndarray) -> np.ndarray:
    """Return the cross entropy of the training labels under a model that was trained on them."""
    config = config_for(model, noisy.name, noisy.split, {"train": {"seed": seed}})
    scores = fit(noisy, config).scores[nodes].astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    return np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(nodes)), noisy.labels[nodes]]


def read_store(path: Path) -> dict[Cell, dict[str, Merit]]:
    """Return the finished cells; an incomplete last line is ignored."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[Cell(row["dataset"], row["noise"], row["seed"])] = row["merits"]
    return found


def append(path: Path, cell: Cell, merits: dict[str, Merit]) -> None:
    """Append a line, starting a new one even if the last line is incomplete."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" if text and not text.endswith("\n") else "")
        file.write(json.dumps({**cell._asdict(), "merits": merits}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def run_missing(cells: list[Cell], store: Path, runs: Path, jobs: int) -> None:
    """Run every cell that is missing in the store, each in a process with one thread."""
    missing = [cell for cell in cells if cell not in read_store(store)]
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes to come
    context = multiprocessing.get_context("spawn")
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        ProcessPoolExecutor(jobs, mp_context=context) as pool,
    ):
        task = progress.add_task("cells", total=len(missing))
        waiting = {pool.submit(measure, cell, runs): cell for cell in missing}
        for done in as_completed(waiting):
            cell, trouble = waiting[done], done.exception()
            if trouble:
                progress.console.print(f"{cell.folder} failed, start again to retry it: {trouble!r}")
            else:
                append(store, cell, done.result())
            progress.update(task, advance=1, description=cell.folder)


def tables(found: dict[Cell, dict[str, Merit]]) -> list[str]:
    """Return tables of AUROC and precision of every score, one row per dataset and kind of noise."""
    lines = []
    for on, what in (("structure", "Edges"), ("label", "Labels")):
        rows = {name: [] for cell in found if cell.on == on for name in [(cell.dataset, cell.noise)]}
        for cell in sorted(found):
            if cell.on == on:
                rows[cell.dataset, cell.noise].append(found[cell])
        if not rows:
            continue
        scores = list(dict.fromkeys(name for merits in rows.values() for one in merits for name in one))
        for measure_name, title in (("auroc", "AUROC"), ("precision", "precision at the injected count")):
            heads = ["dataset", "noise", "seeds", *(name.replace("_", " ") for name in scores)]
            lines += ["", f"{what}, {title}:", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
            for dataset, noise in sorted(rows, key=lambda row: (DATASETS.index(row[0]), noise_order(row[1]))):
                merits = rows[dataset, noise]
                cells = [summary([one[name][measure_name] for one in merits if name in one]) for name in scores]
                lines.append(f"| {dataset} | {noise} | {len(merits)} | {' | '.join(cells)} |")
    return [*lines, ""]


def noise_order(noise: str) -> int:
    """Return the position of a kind of noise in the lists above."""
    return [*STRUCTURE_NOISE, *LABEL_NOISE].index(noise)


def summary(values: list[float]) -> str:
    """Return mean and standard deviation over seeds as text."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "-"
    spread = f" ± {statistics.stdev(known):.3f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.3f}{spread}"


def write_tables(path: Path, lines: list[str]) -> None:
    """Write the tables between the markers of a file."""
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    path.write_text("\n".join([f"{head}{BEGIN}", *lines, f"{END}{rest.split(END)[1]}"]), encoding="utf-8")


def main() -> None:
    """Run what is missing, then print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--noise", nargs="+", default=[*STRUCTURE_NOISE, *LABEL_NOISE])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 0")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--store", type=Path, default=ROOT / "runs" / "audit" / "store.jsonl")
    parser.add_argument("--report", action="store_true", help="only report the content of the store")
    parser.add_argument("--out", type=Path, help="write the tables there, between the markers of the file")
    options = parser.parse_args()

    options.store.parent.mkdir(parents=True, exist_ok=True)
    # Seed by seed, so that a benchmark cut short has all datasets of the first seeds.
    cells = [
        Cell(dataset, noise, seed)
        for seed in range(options.seeds)
        for dataset in options.datasets
        for noise in options.noise
    ]
    if not options.report:
        run_missing(cells, options.store, options.store.parent.resolve(), options.jobs)
    found = read_store(options.store)
    lines = tables({cell: found[cell] for cell in cells if cell in found})
    print("\n".join(lines))
    if options.out:
        write_tables(options.out, lines)


if __name__ == "__main__":
    main()
