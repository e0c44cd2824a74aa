"""CPU seconds of a default run beside a full-batch GCN of 200 epochs on the same graph and thread.

    python benchmarks/cost.py --graphs csbm:20000,csbm:100000,coauthor-cs,coauthor-physics

``csbm:N`` is a made graph of N nodes with 32 features and five edges per node. Both run in one process on one thread,
the GCN with its default settings but without early stopping. Test accuracy stands beside the seconds. Prints one JSON
line per graph.
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
    """Return a dataset, or a made graph of ``csbm:N`` nodes."""
    dataset, _, nodes = name.partition(":")
    return load_dataset(dataset, nodes=int(nodes), seed=seed) if nodes else load_dataset(dataset)


def main() -> None:
    """Print the cost of both on every graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default="csbm:20000,csbm:100000,coauthor-cs,coauthor-physics")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in args.graphs.split(","):
        graph = graph_of(name, args.seed)
        found: dict[str, Any] = {"graph": name, "nodes": graph.num_nodes, "edges": graph.num_edges}
        for model, settings in SETTINGS.items():
            started = time.process_time()
            result = fit(graph, config_for(model, graph.name, graph.split, settings))
            found[f"{model} s"] = round(time.process_time() - started, 1)
            found[model] = round(100 * result.test_score, 1)
        found["ratio"] = round(found["gssc s"] / found["gcn s"], 2)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
