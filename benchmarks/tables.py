"""GSSCClassifier on plain tables, compared with the scikit-learn classifiers that a user would try first.

    python benchmarks/tables.py --tables iris,wine,breast_cancer,digits --draws 10
    python benchmarks/tables.py --tables made-2000,made-10000,made-30000,made-100000 --draws 3
    python benchmarks/tables.py --imbalance

Small tables: 5 labels per class, the other rows are unlabelled in training, accuracy on those. Generated tables: 20
columns, 500 labels, accuracy on a fifth of the rows, which is unseen in training. ``--imbalance``: two classes at 99/1,
95/5 and 80/20, balanced accuracy, class weights balanced. One thread; every result is printed as JSON when it is done.
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
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from gssc import GSSCClassifier

LOADERS = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}
MOST_FOR_SPREADING = 12_000  # rows: label spreading needs a matrix of all pairs


def rivals(seed: int, weight: str | None = None) -> dict[str, Callable[[], Any]]:
    """Return every rival with the default settings of scikit-learn; columns are standardised first."""
    trees = {"random_state": seed}
    found: dict[str, Callable[[], Any]] = {
        "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight=weight)),
        "forest": lambda: RandomForestClassifier(class_weight=weight, **trees),
        "boosted": lambda: HistGradientBoostingClassifier(class_weight=weight, **trees),
        "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier(max_iter=1000, **trees)),
    }
    if weight is None:
        found["self-training"] = lambda: SelfTrainingClassifier(HistGradientBoostingClassifier(**trees))
        found["label spreading"] = lambda: make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", n_neighbors=7))
    return found


def table(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels with -1 for unknown, and the rows and labels that are scored."""
    rng = np.random.default_rng(seed)
    if name in LOADERS:
        rows, truth = LOADERS[name](return_X_y=True)
        known = np.concatenate([rng.choice(np.flatnonzero(truth == c), 5, replace=False) for c in np.unique(truth)])
        labels = np.full(len(truth), -1)
        labels[known] = truth[known]
        return rows, labels, rows[labels < 0], truth[labels < 0]
    count = int(name.partition("-")[2])
    rows, truth = make_classification(
        count, 20, n_informative=8, n_redundant=4, n_classes=4, n_clusters_per_class=2, random_state=seed
    )
    test = rng.permutation(count) < count // 5
    seen_rows, seen_truth = rows[~test], truth[~test]
    labels = np.full(len(seen_truth), -1)
    known = rng.choice(len(seen_truth), 500, replace=False)
    labels[known] = seen_truth[known]
    return seen_rows, labels, rows[test], truth[test]


def compare(name: str, draw: int) -> dict[str, Any]:
    """Return accuracy and seconds of every classifier on one draw of one table."""
    rows, labels, test_rows, test_truth = table(name, draw)
    found: dict[str, Any] = {"table": name, "draw": draw}

    def score(who: str, model: Any, x: np.ndarray, y: np.ndarray) -> None:
        started = time.process_time()
        model.fit(x, y)
        found[who] = round(100 * float((model.predict(test_rows) == test_truth).mean()), 2)
        found[f"{who} s"] = round(time.process_time() - started, 1)

    score("gssc", GSSCClassifier(random_state=draw), rows, labels)
    known = labels >= 0
    for who, make in rivals(draw).items():
        everything = who in ("self-training", "label spreading")
        if everything and len(rows) > MOST_FOR_SPREADING:
            some = np.flatnonzero(
                known | (np.random.default_rng(draw).random(len(rows)) < MOST_FOR_SPREADING / len(rows))
            )
            score(who, make(), rows[some], labels[some])
        else:
            score(who, make(), rows if everything else rows[known], labels if everything else labels[known])
    return found


def imbalance(rare: float, draw: int) -> dict[str, Any]:
    """Return the balanced accuracy on unseen rows of a table whose second class is rare."""
    rows, truth = make_classification(
        6000, 20, n_informative=6, weights=[1 - rare], class_sep=1.0, flip_y=0.01, random_state=draw
    )
    rng = np.random.default_rng(draw)
    test = rng.permutation(len(truth)) < 3000
    labels = np.where(rng.random(3000) < 1 / 3, truth[~test], -1)
    known = labels >= 0
    found: dict[str, Any] = {"rare": rare, "draw": draw, "rare labels": int((labels == 1).sum())}
    for weight in (None, "balanced"):
        models = {"gssc": GSSCClassifier(random_state=draw, class_weight=weight)}
        models |= {who: make() for who, make in rivals(draw, weight).items() if who in ("logistic", "mlp")}
        for who, model in models.items():
            model.fit(rows[~test], labels) if who == "gssc" else model.fit(rows[~test][known], labels[known])
            score = balanced_accuracy_score(truth[test], model.predict(rows[test]))
            found[f"{who}, {weight or 'plain'}"] = round(100 * float(score), 2)
    return found


def main() -> None:
    """Print one JSON line per table and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="iris,wine,breast_cancer,digits")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--imbalance", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for draw in range(args.draws):
        jobs = [(imbalance, rare) for rare in (0.01, 0.05, 0.2)] if args.imbalance else []
        jobs = jobs or [(compare, name) for name in args.tables.split(",")]
        for job, what in jobs:
            sys.stdout.write(json.dumps(job(what, draw)) + "\n")  # type: ignore[operator]
            sys.stdout.flush()


if __name__ == "__main__":
    main()
