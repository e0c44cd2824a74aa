"""Compare the CPU seconds of a default run and of a full-batch GCN of 200 epochs, on the same graph and thread.

    python benchmarks/cost.py --graphs csbm:20000,csbm:100000,coauthor-cs,coauthor-physics

``csbm:N`` is a generated graph of N nodes with 32 features and five edges per node. Both run in one process on one
thread, the GCN with its default settings but without early stopping. Both are first trained on a small graph, so that
imports do not count. Prints one JSON line per graph, with seconds and test accuracy.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from typing import Any

from gssc.data import load_dataset
from gssc.graph import Graph
from gssc.recipes import config_for
from gssc.result import fit

EPOCHS = 200
SETTINGS: dict[str, dict[str, Any]] = {"gssc": {}, "gcn": {"train": {"epochs": EPOCHS, "patience": EPOCHS}}}


def graph_of(name: str, seed: int) -> Graph:
    """Return a dataset, or for ``csbm:N`` a generated graph of N nodes."""
    dataset, _, nodes = name.partition(":")
    return load_dataset(dataset, nodes=int(nodes), seed=seed) if nodes else load_dataset(dataset)


def cost(model: str, graph: Graph) -> tuple[float, float]:
    """Return the CPU seconds of a run and its test score in per cent."""
    started = time.process_time()
    result = fit(graph, config_for(model, graph.name, graph.split, SETTINGS[model]))
    return time.process_time() - started, 100 * result.test_score


def main() -> None:
    """Print the cost of both on every graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default="csbm:20000,csbm:100000,coauthor-cs,coauthor-physics")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for model in SETTINGS:
        cost(model, graph_of("csbm:300", args.seed))
    for name in args.graphs.split(","):
        graph = graph_of(name, args.seed)
        found: dict[str, Any] = {"graph": name, "nodes": graph.num_nodes, "edges": graph.num_edges}
        seconds, scores = zip(*(cost(model, graph) for model in SETTINGS), strict=True)
        found |= {f"{model} s": round(value, 1) for model, value in zip(SETTINGS, seconds, strict=True)}
        found |= {model: round(value, 1) for model, value in zip(SETTINGS, scores, strict=True)}
        found["ratio"] = round(seconds[0] / seconds[1], 2)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
