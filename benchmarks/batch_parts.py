"""CPU time of the parts of a streamed batch, and of reading scattered feature rows.

    python benchmarks/batch_parts.py parts SCRATCH/csbm-1e7.graph [--hidden 256] [--epochs 5] [--pairs 8192]
    python benchmarks/batch_parts.py rows SCRATCH/csbm-1e7.graph

``parts`` trains epochs of 20 batches with the default learner, makes every batch in the same thread, and prints the
microseconds per pair of the fastest epoch. ``rows`` reads random rows of the features in sorted order: one by one after
the file was dropped from the page cache, one by one from the cache, and as :mod:`gssc.data.map_copy` does.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


class Spent:
    """CPU seconds by part; the time of a part inside another counts for the inner one only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.inner: list[float] = []

    def time(self, owner: Any, name: str, part: str) -> None:
        """Replace a function of an object by one that adds up its time."""
        work = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            begun = time.process_time()
            self.inner.append(0.0)
            try:
                return work(*given, **named)
            finally:
                taken = time.process_time() - begun
                self.seconds[part] += taken - self.inner.pop()
                if self.inner:
                    self.inner[-1] += taken

        setattr(owner, name, timed)


def parts(folder: str, hidden: int, epochs: int, pairs: int) -> None:
    """Print the CPU time per pair of every part of an epoch of pairs."""
    import torch

    from gssc.graph import Graph
    from gssc.learner import streamed
    from gssc.learner.settings import Config
    from gssc.train import stream, theta

    torch.set_num_threads(1)
    config = Config()
    config.model.hidden = hidden
    streamed.PAIRS = pairs
    training = streamed.StreamedLearner(Graph.load(folder), config)
    training.prepare()
    stream.prefetched = lambda items, ahead: iter(items)  # type: ignore[assignment]
    spent = Spent()
    for owner, name, part in (
        (training, "train_epoch", "other"),
        (training, "made_batch", "making a batch, other"),
        (training.batches, "batch", "unique nodes, labels"),
        (training.table, "rows", "feature rows"),
        (training.sketches, "of_nodes", "sketches"),
        (training, "teacher", "teacher"),
        (training.trust, "keep", "trust"),
        (stream, "_some_pairs", "dropping pairs"),
        (training, "compare", "forward pass and losses"),
        (theta, "descend", "backward pass and Adam"),
        (training, "update_centers", "class centres"),
        (training, "predict_judged", "scores"),
        (training, "_agreement", "counts"),
        (training, "_predicted_agreement", "counts"),
    ):
        spent.time(owner, name, part)
    found = []
    for _ in range(epochs):
        spent.seconds.clear()
        begun = time.process_time()
        training.train_epoch()
        found.append((time.process_time() - begun, dict(spent.seconds)))
    total, of_parts = min(found, key=lambda entry: entry[0])
    unit = 1e6 / (config.teachers.pair_batches * training.settings.train.batch_size)
    print(f"{Path(folder).name}, width {hidden}, {pairs:,} pairs per batch: {unit * total:.2f} us per pair")
    for part, seconds in sorted(of_parts.items(), key=lambda entry: -entry[1]):
        print(f"  {unit * seconds:6.3f}  {part}")


def rows(folder: str, batches: int = 60, size: int = 4300) -> None:
    """Print the CPU time of a row, read in three ways."""
    from gssc.data.array_file import ArrayFile
    from gssc.graph import Graph

    features = Graph.load(folder).features
    rng = np.random.default_rng(0)

    def drawn() -> Iterator[np.ndarray]:
        for _ in range(batches):
            yield np.sort(rng.choice(len(features), size, replace=False))

    def read(file: ArrayFile, counted: slice) -> float:
        times = []
        for nodes in drawn():
            begun = time.process_time()
            file[nodes]
            times.append(time.process_time() - begun)
        return 1e6 * float(np.median(times[counted])) / size

    single = ArrayFile(features)
    single.looked = True  # so that it finds no other way
    os.posix_fadvise(single.handle, 0, 0, os.POSIX_FADV_DONTNEED)
    cold = read(single, slice(0, 3))  # before much of the file is read ahead
    for start in range(0, len(features), 1 << 16):
        single.block(start, start + (1 << 16))
    cached, copied = read(single, slice(10, None)), ArrayFile(features)
    for start in range(0, len(features), 1 << 16):
        copied.keep_mapped(start, start + (1 << 16))
    together = read(copied, slice(10, None))
    print(
        f"{Path(folder).name}, {features.nbytes / 1e6:,.0f} MB of features, CPU us per row: one by one {cold:.2f} "
        f"from disk and {cached:.2f} from the page cache, copied together {together:.2f}"
    )


def main() -> None:
    """Run one of the two measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("parts", "rows"))
    parser.add_argument("graph")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=8192, help="per batch")
    options = parser.parse_args()
    if options.what == "rows":
        rows(options.graph)
    else:
        parts(options.graph, options.hidden, options.epochs, options.pairs)


if __name__ == "__main__":
    main()
