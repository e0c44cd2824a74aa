"""Time and recall of the three searches for nearest neighbours.

    python benchmarks/neighbours.py [--rows 50000 100000] [--columns 3 20] [--out results/neighbours.md]

One thread, CPU time, ratios within one run. A table has twenty normal clusters. The search without scikit-learn
computes all distances in blocks; it is timed on a sample of rows, because its time is proportional to their number.
Recall is the share of the sample's true eight nearest rows that a search finds.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy and faiss read it

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gssc.data.neighbours import NEIGHBOURS, by_blocks, by_index, by_scikit_learn

CLUSTERS = 20
SEARCHES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {"scikit-learn": by_scikit_learn, "faiss": by_index}
MARKS = "<!-- table -->", "<!-- end of table -->"
HEADER = ["rows", "columns", *(f"{name}: {what}" for name in SEARCHES for what in ("times as fast", "recall"))]


def make_table(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Return rows around twenty centres, which are twice as far apart as the rows of one cluster."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((CLUSTERS, columns))
    table: np.ndarray = centres[rng.integers(0, CLUSTERS, rows)] + rng.standard_normal((rows, columns))
    return table


def recall(found: np.ndarray, true: np.ndarray, count: int) -> float:
    """Return the share of the true pairs [2, *] that were found; `count` is the number of rows."""
    return float(np.isin(true[0] * count + true[1], found[0] * count + found[1]).mean())


def measure(rows: int, columns: int, sample: int) -> list[str]:
    """Return one line of the table: each search compared with all distances in blocks."""
    table = make_table(rows, columns)
    chosen = np.sort(np.random.default_rng(1).choice(rows, size=min(sample, rows), replace=False))
    true, seconds = timed(lambda: by_blocks(table, NEIGHBOURS, chosen))
    in_blocks = seconds * rows / len(chosen)
    cells = [f"{rows:,}", f"{columns}"]
    for search in SEARCHES.values():
        found, seconds = timed(lambda search=search: search(table, NEIGHBOURS))  # type: ignore[misc]
        cells += [f"{in_blocks / seconds:.1f}", f"{recall(found, true, rows):.3f}"]
    return cells


def timed(run: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the result of a call and its CPU seconds."""
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return the table as Markdown."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (HEADER, ["---"] * len(HEADER), *lines))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write the table between the markers of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[3, 20])
    parser.add_argument("--sample", type=int, default=2_000, help="rows that all distances are computed for")
    parser.add_argument("--out", type=Path, help="file with marks around its table")
    args = parser.parse_args(arguments)
    lines = []
    for rows in args.rows:
        for columns in args.columns:
            lines.append(measure(rows, columns, args.sample))
            print(" | ".join(lines[-1]), flush=True)
    table = markdown(lines)
    if args.out is None:
        print(table)
        return
    before, rest = args.out.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    args.out.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
