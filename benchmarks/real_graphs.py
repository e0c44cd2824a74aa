"""The default learner on real graphs that need no download from a dataset's site (:mod:`text_graphs`).

    python benchmarks/real_graphs.py --graphs modules:torch,modules:ray,modules:sqlalchemy --draws 2 --out real.jsonl
    apt-cache dumpavail > available.txt
    python benchmarks/real_graphs.py --graphs debian:available.txt --seen 0.5 --out debian.jsonl
    python benchmarks/real_graphs.py --table real.jsonl debian.jsonl

Each draw has some labels per class, and some validation labels or none. All other nodes are test nodes, except for the
share given by ``--seen``, which training sees without a label. In the cold-start setting only models that predict
without the graph are compared. All models have their default settings. Each problem is one JSON line; what is already
in the file is not run again. The versions in constraints.txt determine the graphs of modules.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import text_graphs

from gssc.data.noise import add_noise
from gssc.graph import Graph
from gssc.recipes import config_for
from gssc.result import fit

GRAPH_FREE = ("linear_rows", "ridge_student", "glnn", "mlp")
NEED_GRAPH = ("gcn", "sage", "linear_spread", "linear_both")
PACKAGES = "torch,ray,sqlalchemy,torch_geometric,fontTools,rdkit"
CLOSE = 0.5  # points: within them two models count as equal


def split(graph: Graph, per_class: int, validation: int, seen: float, setting: str, seed: int) -> Graph:
    """Return the graph with labels per class, validation labels and test nodes; a share of the rest has no label."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.num_nodes)
    classes = range(graph.num_classes)
    train = np.concatenate([order[graph.labels[order] == label][:per_class] for label in classes])
    others = np.setdiff1d(order, train)[rng.permutation(graph.num_nodes - len(train))]
    val, others = np.split(others, [validation])
    return graph.with_(train=train, val=val, test=others[round(seen * len(others)) :], setting=setting)


def run(graph: Graph, problem: dict[str, Any], found: dict[str, Any], models: list[str]) -> None:
    """Add the test accuracy and CPU seconds of every model on one problem to ``found``."""
    facts = {key: problem[key] for key in ("per_class", "validation", "seen", "setting")}
    graph = split(graph, **facts, seed=problem["draw"])
    graph = add_noise(graph, label=problem["label"], structure=problem["structure"], seed=problem["draw"])[0]
    for model in models:
        if model in found or (problem["setting"] != "transductive" and model in NEED_GRAPH):
            continue
        started = time.process_time()
        result = fit(graph, config_for(model, graph.name, graph.split, {"train": {"seed": problem["draw"]}}))
        found[model], found[f"{model} s"] = round(100 * result.test_score, 2), round(time.process_time() - started, 1)
        sys.stderr.write(f"{problem}: {model} {found[model]} in {found[f'{model} s']} s\n")


def table(paths: list[str]) -> None:
    """Print the mean of every model by setting, and how often each rival is ahead of the learner or behind it."""
    rows = [row for path in paths for row in read_rows(Path(path))]
    sys.stdout.write(
        "| setting | rival | problems | mean of GSSC | mean of the rival | GSSC ahead | equal | behind |\n"
    )
    sys.stdout.write(f"{'|---' * 8}|\n")
    for setting in dict.fromkeys(row["setting"] for row in rows):
        for rival in (*GRAPH_FREE, *NEED_GRAPH):
            both = np.array([(row["gssc"], row[rival]) for row in rows if row["setting"] == setting and rival in row])
            if len(both):
                lead = both[:, 0] - both[:, 1]
                ahead, behind = int((lead > CLOSE).sum()), int((lead < -CLOSE).sum())
                means = " | ".join(f"{mean:.1f}" for mean in both.mean(axis=0))
                counts = f"{ahead} | {len(both) - ahead - behind} | {behind}"
                sys.stdout.write(f"| {setting} | {rival} | {len(both)} | {means} | {counts} |\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the problems in a file of JSON lines; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> None:
    """Run problems one after another, or print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(f"modules:{name}" for name in PACKAGES.split(",")))
    parser.add_argument("--models", default=",".join(["gssc", *GRAPH_FREE, *NEED_GRAPH]))
    parser.add_argument("--draws", default="0", help="seeds, such as 0,1,2")
    parser.add_argument("--per-class", type=int, default=10, help="labels per class")
    parser.add_argument("--validation", default="100,0", help="numbers of validation labels")
    parser.add_argument("--settings", default="transductive,cold-start")
    parser.add_argument("--seen", type=float, default=0, help="share of the other nodes that are no test nodes")
    parser.add_argument("--label", default="none", help="label noise, such as uniform:0.4")
    parser.add_argument("--structure", default="none", help="structure noise, such as random:0.3")
    parser.add_argument("--out", default="real_graphs.jsonl")
    parser.add_argument("--table", nargs="+")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.table:
        table(args.table)
        return
    same = {name: getattr(args, name) for name in ("per_class", "seen", "label", "structure")}
    varied = list(product(args.draws.split(","), args.validation.split(","), args.settings.split(",")))
    out = Path(args.out)
    for name in args.graphs.split(","):
        graph = text_graphs.read(name)
        sys.stderr.write(f"{graph}, homophily {graph.homophily():.2f}\n")
        for draw, validation, setting in varied:
            problem = {"graph": name, **same, "validation": int(validation), "setting": setting, "draw": int(draw)}
            rows = read_rows(out)
            found = next((row for row in rows if problem.items() <= row.items()), dict(problem))
            run(graph, problem, found, args.models.split(","))
            rows = [row for row in rows if not problem.items() <= row.items()] + [found]
            out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
