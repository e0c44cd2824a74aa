"""The default learner on random problems, compared with simple rivals: graphs and tables that nothing was tuned on.

    python benchmarks/random_problems.py graphs --first 0 --count 40 --out graphs.jsonl
    python benchmarks/random_problems.py tables --first 0 --count 40 --out tables.jsonl
    python benchmarks/random_problems.py --table graphs.jsonl tables.jsonl

The number of a problem is the seed of all its properties: number of nodes, classes and columns, kind of features and
how informative they are, degree, homophily, imbalance, labels per class (down to one), validation labels (down to
none), wrong labels, and the setting. Most problems are harder than benchmark graphs. All models have their default
settings; scores are test accuracy. In the inductive and cold-start settings only models that need no graph for a
prediction are compared, because the learner deploys such a model. Each problem is one
JSON line; problems that are already in the file are skipped.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from gssc import GSSCClassifier
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.recipes import config_for
from gssc.result import fit

GRAPH_FREE = ("linear_rows", "ridge_student", "glnn", "logistic", "forest")
NEED_GRAPH = ("gcn", "linear_spread", "linear_both")
CLOSE = 0.5  # points: within them two models count as equal


def drawn(rng: np.random.Generator, *options: Any) -> Any:
    """Return one of the options."""
    return options[rng.integers(len(options))]


def words(rng: np.random.Generator, labels: np.ndarray, columns: int, strength: float, weighted: bool) -> sp.csr_matrix:
    """Return rows of 5 to 40 words, drawn from a distribution per class; as zeros and ones or weighted by rarity."""
    chances = np.exp(rng.normal(size=columns)) * np.exp(0.7 * strength * rng.normal(size=(labels.max() + 1, columns)))
    chances /= chances.sum(axis=1, keepdims=True)
    counts = np.stack([rng.multinomial(rng.integers(5, 40), chances[label]) for label in labels]).astype(np.float32)
    if not weighted:
        return sp.csr_matrix((counts > 0).astype(np.float32))
    rarity = np.log(len(labels) / (1 + (counts > 0).sum(axis=0))).clip(0.1)
    rows = counts * rarity
    return sp.csr_matrix((rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9)).astype(np.float32))


def numbers(rng: np.random.Generator, labels: np.ndarray, columns: int, strength: float, kind: str) -> np.ndarray:
    """Return normal rows around one mean or three per class; or columns on unlike scales, of which most are noise."""
    classes, count = labels.max() + 1, len(labels)
    if kind == "clusters":
        means = rng.normal(size=(classes, 3, columns)) * strength * 4 / columns**0.5
        rows = means[labels, rng.integers(3, size=count)] + rng.normal(size=(count, columns))
    else:
        means = rng.normal(size=(classes, columns)) * strength * 2 / columns**0.5
        if kind == "unlike scales":
            means[:, columns // 4 :], means = 0, means * 2
        rows = means[labels] + rng.normal(size=(count, columns))
        if kind == "unlike scales":
            rows = rows * np.exp(2 * rng.normal(size=columns)) + 5 * rng.normal(size=columns)
    return rows.astype(np.float32)


def edges_between(
    rng: np.random.Generator, labels: np.ndarray, degree: float, kind: str, homophily: float
) -> np.ndarray:
    """Return edges; first ends have long-tailed degrees, the other is of the same class, of the next one, or any."""
    count, classes = len(labels), labels.max() + 1
    popular = rng.pareto(2.5, size=count) + 0.3
    first = rng.choice(count, int(count * degree / 2), p=popular / popular.sum())
    wanted = np.where(rng.random(len(first)) < homophily, labels[first], -1)
    if kind == "next class":
        wanted = np.where((wanted < 0) & (rng.random(len(first)) < 0.8), (labels[first] + 1) % classes, wanted)
    second = rng.integers(count, size=len(first))
    for label in range(classes):
        members, asked = np.flatnonzero(labels == label), np.flatnonzero(wanted == label)
        second[asked] = rng.choice(members, len(asked), p=popular[members] / popular[members].sum())
    return np.unique(np.sort(np.stack([first, second])[:, first != second], axis=0), axis=1)


def random_graph(number: int) -> tuple[Graph, dict[str, Any]]:
    """Return a random problem and a description of it."""
    rng = np.random.default_rng([77, number])
    classes, count = drawn(rng, 2, 2, 3, 5, 7, 10, 15, 25), drawn(rng, 300, 800, 2000, 4000)
    columns, strength = drawn(rng, 8, 30, 128, 500, 1500), drawn(rng, 0.3, 0.6, 1.0, 2.0)
    rows = drawn(rng, "normal", "words", "words", "weighted words", "unlike scales", "clusters")
    edges = drawn(rng, "same class", "same class", "any", "next class")
    homophily = rng.uniform(0.4, 0.95) if edges == "same class" else 0.1
    setting = drawn(rng, "transductive", "transductive", "transductive", "inductive", "cold-start")
    per_class, judging = min(drawn(rng, 1, 5, 20, 20, 200), count // (2 * classes)), drawn(rng, 0, 30, 120, 500)
    wrong = drawn(rng, 0, 0, 0, 0.2, 0.4)
    shares = np.arange(1, classes + 1.0) ** -drawn(rng, 0, 0, 0.7, 1.3)
    labels = rng.choice(classes, count, p=shares / shares.sum())
    labels[:classes] = np.arange(classes)
    order = rng.permutation(count)
    train = np.concatenate([order[labels[order] == label][:per_class] for label in range(classes)])
    rest = rng.permutation(np.setdiff1d(order, train))
    val, test = np.split(rest, [min(judging, len(rest) // 2)])
    degree = drawn(rng, 1.5, 4, 10, 30)
    made = words if "words" in rows else numbers
    how = rows == "weighted words" if "words" in rows else rows
    features = made(rng, labels, columns, strength, how)  # type: ignore[operator]
    pairs = edges_between(rng, labels, degree, edges, homophily)
    given = labels.copy()
    flipped = train[rng.random(len(train)) < wrong]
    given[flipped] = rng.integers(classes, size=len(flipped))
    like = {"number": number, "classes": classes, "nodes": count, "columns": columns, "rows": rows, "edges": edges}
    like |= {"homophily": round(homophily, 2), "per_class": per_class, "judging": len(val), "wrong": wrong}
    like |= {"setting": setting}
    graph = Graph(features, pairs, given, train=train, val=val, test=test, name=f"random-{number}", setting=setting)
    return graph, like


def on_graph(number: int) -> dict[str, Any]:
    """Return the test accuracy of every model on a random graph."""
    graph, found = random_graph(number)
    models = ("gssc", *GRAPH_FREE[:3], *(NEED_GRAPH if graph.setting == "transductive" else ()))
    for model in models:
        started = time.process_time()
        result = fit(graph, config_for(model, graph.name, graph.split, {}))
        found[model], found[f"{model} s"] = round(100 * result.test_score, 2), round(time.process_time() - started, 1)
    train, test = graph.train, graph.test
    rows = graph.features if sp.issparse(graph.features) else StandardScaler().fit_transform(graph.features)
    plain = {"logistic": LogisticRegression(max_iter=1000), "forest": RandomForestClassifier(200, random_state=0)}
    for name, model in plain.items():
        if len(np.unique(graph.labels[train])) > 1:
            model.fit(rows[train], graph.labels[train])
            found[name] = round(100 * float(model.score(rows[test], graph.labels[test])), 2)
    return found


def random_table(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """Return rows, classes, the labels that are known (-1 elsewhere), and a description of the table."""
    rng = np.random.default_rng([99, number])
    count, classes = drawn(rng, 300, 600, 2000, 5000), drawn(rng, 2, 2, 3, 5, 8)
    columns, per_class = drawn(rng, 3, 8, 20, 60), min(drawn(rng, 3, 5, 20, 50), count // (4 * classes))
    kind = drawn(rng, "normal", "clusters", "moons", "rules", "long tails", "counts", "categories")
    labels = rng.integers(classes, size=count)
    means = rng.normal(size=(classes, columns))
    if kind in ("normal", "clusters"):
        rows = numbers(rng, labels, columns, 1.0, kind)
    elif kind == "moons":
        rows, labels = make_moons(count, noise=0.2, random_state=number)
        rows = np.hstack([rows, 0.5 * rng.normal(size=(count, columns))])
    elif kind == "rules":
        rows = rng.uniform(size=(count, columns))
        labels = ((rows[:, 0] > 0.5) * 2 + (rows[:, 1] * rows[:, 2] > 0.25)) % max(2, min(classes, 4))
    elif kind == "long tails":
        rows = np.exp(0.8 * means[labels] + 1.2 * rng.normal(size=(count, columns))) * np.exp(
            3 * rng.normal(size=columns)
        )
    elif kind == "counts":
        rows = rng.poisson(np.exp(0.5 * means + 0.5)[labels]).astype(np.float64)
    else:
        chances = rng.dirichlet(np.full(5, 2.0), size=(classes, columns)).cumsum(axis=2)
        rows = (rng.random((count, columns, 1)) > chances[labels]).sum(axis=2).astype(np.float64)
    known = np.full(count, -1)
    for label in np.unique(labels):
        some = rng.permutation(np.flatnonzero(labels == label))[:per_class]
        known[some] = label
    like = {"number": number, "rows": count, "classes": int(labels.max() + 1), "columns": rows.shape[1], "kind": kind}
    return rows.astype(np.float32), labels, known, {**like, "per_class": per_class}


def on_table(number: int) -> dict[str, Any]:
    """Return the accuracy of every classifier on the rows of a random table that have no label; half of them unseen."""
    rows, labels, known, found = random_table(number)
    unknown = np.random.default_rng(number).permutation(np.flatnonzero(known < 0))
    seen = np.setdiff1d(np.arange(len(labels)), unknown[::2])
    given = np.flatnonzero(known >= 0)
    rivals: dict[str, tuple[Any, np.ndarray]] = {
        "gssc": (GSSCClassifier(random_state=0), seen),
        "logistic": (make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), given),
        "forest": (RandomForestClassifier(200, random_state=0), given),
        "boosted": (HistGradientBoostingClassifier(random_state=0), given),
        "mlp": (make_pipeline(StandardScaler(), MLPClassifier(max_iter=500, random_state=0)), given),
        "spreading": (make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", max_iter=100)), seen),
        "self-training": (make_pipeline(StandardScaler(), SelfTrainingClassifier(LogisticRegression())), seen),
    }
    for name, (model, part) in rivals.items():
        started = time.process_time()
        model.fit(rows[part], known[part])
        found[name] = round(100 * float((model.predict(rows[unknown]) == labels[unknown]).mean()), 2)
        found[f"{name} s"] = round(time.process_time() - started, 1)
    return found


def table(path: str) -> None:
    """Print, for each rival, the mean difference to the learner and how often either is ahead by half a point."""
    found = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    found = [row for row in found if "refused" not in row]
    names = list(dict.fromkeys(name[:-2] for row in found for name in row if name.endswith(" s")))
    names += [name for name in ("logistic", "forest") if name not in names]
    sys.stdout.write("| rival | problems | mean of GSSC | mean of the rival | GSSC ahead | equal | rival ahead |\n")
    sys.stdout.write(f"{'|---' * 7}|\n")
    for name in names[1:]:
        both = np.array([(row["gssc"], row[name]) for row in found if name in row])
        gain = both[:, 0] - both[:, 1]
        ahead, behind = int((gain > CLOSE).sum()), int((gain < -CLOSE).sum())
        means = " | ".join(f"{mean:.1f}" for mean in both.mean(axis=0))
        sys.stdout.write(f"| {name} | {len(both)} | {means} | {ahead} | {len(both) - ahead - behind} | {behind} |\n")


def main() -> None:
    """Run problems one after another, or print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=["graphs", "tables"], default="graphs")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--out", default="random_problems.jsonl")
    parser.add_argument("--table", nargs="+")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.table:
        for path in args.table:
            table(path)
        return
    out = Path(args.out)
    done = {json.loads(line)["number"] for line in out.read_text().splitlines()} if out.exists() else set()
    for number in range(args.first, args.first + args.count):
        if number not in done:
            try:
                found = on_graph(number) if args.kind == "graphs" else on_table(number)
            except GsscError as error:  # such as no edge left in the cold-start setting
                found = {"number": number, "refused": str(error)}
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
