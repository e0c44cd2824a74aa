"""The default learner on six groups of problems, compared with a GCN, GLNN and the best linear model.

    python benchmarks/learner.py clean --seeds 5 --out learner.jsonl
    python benchmarks/learner.py noise cold fixed made --seeds 3 --out learner.jsonl
    python benchmarks/learner.py noise --seeds 1 --models gssc-strict --out strict.jsonl
    python benchmarks/learner.py --table learner.jsonl strict.jsonl

The structure noise of ``noise`` is that of the authors' files, the one of ``structure`` is defined by the paper's text.
Models are those of the registry, and: ``linear``, the linear model on rows, averaged rows or neighbours' rows with the
best validation score; ``linear-corrected``, the same after the correction that the learner applies by default, which
fits a matrix to validation labels; ``gssc-strict``, the learner without that correction: validation labels are used for
selection only.

All settings are defaults, with one thread. Each run is one JSON line. Runs that are already in the file are skipped, so
that a killed benchmark continues where it stopped. The seed draws the noise; on fixed splits it is the number of the
split. Test labels are used for scoring only.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from gssc.data import load_dataset
from gssc.data.noise import add_noise
from gssc.graph import Graph
from gssc.learner.faculty import Faculty
from gssc.learner.jury import Jury, known_labels
from gssc.learner.pool import Pool
from gssc.recipes import config_for
from gssc.result import fit
from gssc.trust.edges import edge_trust

COLUMNS = ("gssc", "gssc-strict", "linear", "linear-corrected", "ridge_student", "linear_rows", "gcn", "glnn", "mlp")
CITATIONS = ("cora", "citeseer")
LABEL_NOISE = [f"{kind}:{rate}" for kind in ("uniform", "asymmetric") for rate in (0.2, 0.4, 0.6)]
STRUCTURE_NOISE = [f"as-distributed:{rate}" for rate in (0.1, 0.2, 0.3)]


def problems(ground: str) -> Iterator[dict[str, str]]:
    """Yield the problems of a group by their names."""
    if ground == "clean":
        yield from ({"data": name} for name in (*CITATIONS, "coauthor-cs", "coauthor-physics", "actor"))
    elif ground == "noise":
        for name in CITATIONS:
            yield from ({"data": name, "structure": noise} for noise in STRUCTURE_NOISE)
            yield from ({"data": name, "label": noise} for noise in LABEL_NOISE)
    elif ground == "structure":
        yield from ({"data": name, "structure": rate} for name in CITATIONS for rate in ("0.1", "0.2", "0.3"))
    elif ground == "cold":
        yield from ({"data": name, "setting": "cold-start"} for name in (*CITATIONS, "coauthor-cs"))
    elif ground == "fixed":
        yield from ({"data": name, "split": "fixed"} for name in ("chameleon", "squirrel", "actor", "deezer-europe"))
    elif ground == "made":
        for homophily in ("0.1", "0.3", "0.5", "0.7", "0.9"):
            yield from ({"data": "csbm", "homophily": homophily, "signal": signal} for signal in ("0.5", "1.0", "2.0"))
    else:
        raise SystemExit(f"no ground {ground}: clean, noise, structure, cold, fixed, made")


def graph_of(problem: dict[str, str], seed: int) -> Graph:
    """Return the graph of a problem."""
    if problem["data"] == "csbm":
        made = {name: float(problem[name]) for name in ("homophily", "signal")}
        return load_dataset("csbm", nodes=1000, seed=seed, **made)
    split = f"{problem['split']}-{seed}" if "split" in problem else None
    graph = load_dataset(problem["data"], split=split, setting=problem.get("setting", "transductive"))
    noises = {name: problem.get(name, "none") for name in ("label", "structure")}
    return add_noise(graph, **noises, features="none", seed=seed)[0]


def linear_score(graph: Graph, seed: int, corrects: bool) -> float:
    """Return the test score of the linear model with the best validation score; NaN for unseen nodes.

    Args:
        graph: the problem.
        seed: of folds and decompositions.
        corrects: whether validation labels also correct predictions.
    """
    seen, _ = graph.training_view()
    jury = Jury(known_labels(seen), seen.train, seen.val, seen.num_classes)
    keep = edge_trust(seen, seed).keep
    pool = Pool(jury, seen.edges, keep, seen.num_nodes)
    for _ in Faculty(seen, keep, pool, "auto", seed).linear():
        pass
    if corrects:
        jury.decide_correction(pool.opinions[pool.best(1)[0]])
        pool.recalibrate()
    linear = [name for name in pool.best(len(pool.opinions)) if not name.startswith("runner-up")]
    if seen is not graph:
        return float("nan")
    return graph.task.score(pool.opinions[linear[0]][-1][graph.test], graph.labels[graph.test])


def run(problem: dict[str, str], seed: int, models: list[str]) -> dict[str, Any]:
    """Return the scores of all models on one problem."""
    graph = graph_of(problem, seed)
    found: dict[str, Any] = {**problem, "seed": seed}
    for model in models:
        started = time.process_time()
        if model in ("linear", "linear-corrected"):
            score = linear_score(graph, seed, corrects=model == "linear-corrected")
        else:
            strict = {"teachers": {"correction": "never"}} if model == "gssc-strict" else {}
            name = model.removesuffix("-strict")
            result = fit(graph, config_for(name, graph.name, graph.split, {"train": {"seed": seed}, **strict}))
            score = result.test_score
            found[f"{model} val"] = round(100 * result.val_score, 2)
            if model == "gssc":
                found["choices"] = result.training.choices  # type: ignore[attr-defined]
        found[model] = None if np.isnan(score) else round(100 * score, 2)
        found[f"{model} s"] = round(time.process_time() - started, 1)
    return found


def table(paths: list[str]) -> None:
    """Print means over seeds, one line per problem."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for line in (line for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        names = ("data", "split", "setting", "structure", "label", "homophily", "signal")
        rows.setdefault(" ".join(str(row[name]) for name in names if name in row), []).append(row)
    everyone = {name for found in rows.values() for row in found for name in row}
    models = [name for name in COLUMNS if name in everyone]
    sys.stdout.write(f"| problem | runs | {' | '.join(models)} | seconds |\n{'|---' * (len(models) + 3)}|\n")
    for name, found in rows.items():
        cells = []
        for model in models:
            scores = [row[model] for row in found if row.get(model) is not None]
            spread = f" ± {stdev(scores):.2f}" if len(scores) > 1 else ""
            cells.append(f"{mean(scores):.2f}{spread}" if scores else "-")
        seconds = mean([row["gssc s"] for row in found if "gssc s" in row] or [0])
        runs = sum("gssc" in row for row in found)
        sys.stdout.write(f"| {name} | {runs} | {' | '.join(cells)} | {seconds:.0f} |\n")


def main() -> None:
    """Run what is missing, or print finished runs as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grounds", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", default="gssc,linear,gcn")
    parser.add_argument("--data", help="only datasets of these names, separated by commas")
    parser.add_argument("--out", default="learner.jsonl")
    parser.add_argument("--table", nargs="+", help="files to show as a table, in place of running")
    args = parser.parse_args()
    if args.table:
        table(args.table)
        return
    warnings.filterwarnings("ignore")
    out, models = Path(args.out), args.models.split(",")
    known = {_key(json.loads(line)) for line in out.read_text().splitlines()} if out.exists() else set()
    for seed in range(args.seeds):
        for ground in args.grounds:
            for problem in problems(ground):
                wanted = not args.data or problem["data"] in args.data.split(",")
                if wanted and _key({**problem, "seed": seed}) not in known:
                    row = run(problem, seed, models)
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
                    shown = {name: value for name, value in row.items() if name != "choices"}
                    sys.stdout.write(json.dumps(shown) + "\n")
                    sys.stdout.flush()


def _key(row: dict[str, Any]) -> str:
    names = ("data", "split", "setting", "structure", "label", "homophily", "signal", "seed")
    return json.dumps([row.get(name) for name in names])


if __name__ == "__main__":
    main()
