"""Measure how well trust separates wrong edges and labels from right ones, and its effect on clean graphs.

    python benchmarks/trust.py --data cora,citeseer,coauthor-cs --seeds 2
    python benchmarks/trust.py --data cora,citeseer --seeds 2 --trained
    python benchmarks/trust.py --data cora,citeseer --seeds 2 --learned
    python benchmarks/trust.py --data cora --seeds 5 --learned --structure as-distributed:0.3

Edges: AUROC of the keep probability for added (wrong) against original edges, and on the clean graph the mean keep
probability of edges within a class. Labels: AUROC of the label weight for changed against unchanged training labels,
and the mean weight of unchanged ones. ``--trained`` adds STR-Sparse that starts from the evidence, after Algorithm 1,
``--learned`` the trust that the default learner reports after training, which also uses the student's predictions.
Labels of the ends of edges are used for scoring only. One JSON line per row.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from gssc.config import ContrastConfig
from gssc.data import load_dataset
from gssc.data.noise import add_noise
from gssc.graph import Graph
from gssc.learner.linear import ShortRows
from gssc.learner.settings import Config
from gssc.result import fit
from gssc.sparsify.settings import STRSparseSettings
from gssc.train.bilevel import BilevelTraining
from gssc.trust.edges import edge_trust
from gssc.trust.labels import label_trust
from gssc.trust.pairs import edge_numbers
from gssc.trust.sketch import unit_rows
from gssc.trust.spreading import spread, walk_matrix

Keep = Callable[[Graph, int], np.ndarray]  # keep probability of each edge, by graph and seed

STRUCTURE = ("none", "0.1", "0.2", "0.3", "as-distributed:0.1", "as-distributed:0.2", "as-distributed:0.3")
LABELS = ("none", "uniform:0.2", "uniform:0.4", "asymmetric:0.2", "asymmetric:0.4")


def trained_keep(graph: Graph, seed: int) -> np.ndarray:
    """Return the keep probability of STR-Sparse that starts from the evidence, after 50 epochs of Algorithm 1."""
    config = ContrastConfig(sparsifier=STRSparseSettings(start="evidence"))
    config.train.seed, config.train.max_batches, config.consolidate.epochs = seed, 20, 0
    config.train.warmup_epochs, config.train.epochs, config.train.patience = 10, 40, 10**9
    training = BilevelTraining(graph, config)
    for _ in training.epochs():
        pass
    return training.edge_trust()[1]


def learned_keep(graph: Graph, seed: int) -> np.ndarray:
    """Return the keep probability that the default learner reports."""
    config = Config()
    config.train.seed = seed
    return fit(graph, config).edge_trust()[1]


def of_edges(clean: Graph, noise: str, seed: int, others: dict[str, Keep]) -> dict[str, Any]:
    """Return measures of edge trust at one level of structure noise: of the evidence, and of others by name."""
    graph, _ = add_noise(clean, label="none", structure=noise, features="none", seed=seed)
    right = np.isin(edge_numbers(graph.edges, graph.num_nodes), edge_numbers(clean.edges, clean.num_nodes))
    alike = clean.labels[graph.edges[0]] == clean.labels[graph.edges[1]]
    started, trust = time.process_time(), edge_trust(graph, seed)
    found: dict[str, Any] = {"structure": noise, "wrong edges": int((~right).sum())}
    found |= {"estimated share": round(trust.noise_share, 3), "s": round(time.process_time() - started, 2)}
    keeps = {"evidence": trust.keep} | {name: keep_of(graph, seed) for name, keep_of in others.items()}
    for name, keep in keeps.items():
        if (~right).any():
            found[f"{name} auroc"] = round(float(roc_auc_score(right, keep)), 3)
        found[f"{name} keeps of one class"] = round(float(keep[alike & right].mean()), 3)
    return found


def of_labels(clean: Graph, noise: str, seed: int) -> dict[str, Any]:
    """Return measures of label trust at one level of label noise."""
    graph, _ = add_noise(clean, label=noise, structure="none", features="none", seed=seed)
    train, val, labels = graph.train, graph.val, graph.labels
    right = labels[train] == clean.labels[train]
    walk = walk_matrix(graph.edges, edge_trust(graph, seed).keep, graph.num_nodes)
    rows = unit_rows(spread(ShortRows(graph.features, len(train), seed).unit(), walk))
    trust = label_trust(rows[train], labels[train], rows[val], labels[val], graph.num_classes, seed)
    found: dict[str, Any] = {"label": noise, "wrong share": round(float((~right).mean()), 3)}
    found["estimated share"] = round(trust.noise_share, 3)
    if (~right).any():
        found["auroc"] = round(float(roc_auc_score(right, trust.keep)), 3)
    found["weight of right labels"] = round(float(trust.keep[right].mean()), 3)
    return found


def main() -> None:
    """Print one JSON line per dataset, noise and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="cora,citeseer,coauthor-cs")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--structure", help="only these noises, separated by commas, and no label noise")
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--learned", action="store_true")
    args = parser.parse_args()
    others = {"str_sparse": trained_keep} if args.trained else {}
    others |= {"learner": learned_keep} if args.learned else {}
    warnings.filterwarnings("ignore")
    for name in args.data.split(","):
        clean = load_dataset(name)
        for seed in range(args.seeds):
            noises = args.structure.split(",") if args.structure else STRUCTURE
            rows = [of_edges(clean, noise, seed, others) for noise in noises]
            rows += [] if args.structure else [of_labels(clean, noise, seed) for noise in LABELS]
            for row in rows:
                sys.stdout.write(json.dumps({"data": name, "seed": seed, **row}) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
