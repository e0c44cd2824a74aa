"""Time of whole-graph prediction over that of its bare matrix products: ratios within one run, one thread each.

    python benchmarks/predict.py [--repeats 100]

The bare side multiplies the same matrices and does nothing else: no bias, no activation, no row normalisation, no check
of the result. Sides take turns, and the fastest turn of each is reported.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy and torch read it

import argparse
import functools
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from gssc.deploy import DeployedModel
from gssc.deploy.forward import aligned_zeros

CASES: dict[str, dict[str, Any]] = {
    "dense 10,000 x 128, F = 256, 2 products": {"rows": 10_000, "widths": [128, 256, 10]},
    "dense 10,000 x 128, F = 256, 3 products": {"rows": 10_000, "widths": [128, 256, 256, 10]},
    "sparse, Cora's size, F = 256, 2 products": {"rows": 2_708, "widths": [1_433, 256, 7], "per_row": 18},
    "sparse, Cora's size, F = 256, 3 products": {"rows": 2_708, "widths": [1_433, 256, 256, 7], "per_row": 18},
}


def make_model(widths: list[int], **options: Any) -> DeployedModel:
    """Return a model of these widths with random weights, scaled so that logits are as large as in trained models."""
    rng = np.random.default_rng(0)
    layers = [
        (
            rng.standard_normal((out, into), dtype=np.float32) * np.float32((2 / into) ** 0.5),
            rng.standard_normal(out, dtype=np.float32),
        )
        for into, out in pairwise(widths)
    ]
    return DeployedModel(layers, [str(index) for index in range(widths[-1])], **options)


def make_rows(rows: int, columns: int, per_row: int | None) -> Any:
    """Return random feature rows: dense, or sparse with about ``per_row`` ones each."""
    rng = np.random.default_rng(1)
    if per_row is None:
        return rng.random((rows, columns), dtype=np.float32)
    matrix = sparse.random(rows, columns, per_row / columns, format="csr", dtype=np.float32, random_state=1)
    matrix.data[:] = 1
    return matrix


def bare_products(model: DeployedModel, x: Any, engine: str) -> Callable[[], object]:
    """Return a function that does only the matrix products of a prediction, by the faster library, into fixed arrays.

    New arrays would make the bare side up to half slower, and weights that are not aligned to a cache line a quarter;
    the comparison would then be too favourable. Dense products use NumPy, which is not slower than torch for wide ones
    and several times faster for the last, narrow one. A first product of sparse rows uses SciPy or, with torch, an
    ``embedding_bag``; both allocate.
    """
    weights = [aligned_zeros(*weight.shape[::-1]) for weight, _ in model.layers]
    for place, (weight, _) in zip(weights, model.layers, strict=True):
        place[:] = weight.T
    kept = [np.empty((x.shape[0], weight.shape[1]), dtype=np.float32) for weight in weights]

    def dense(hidden: Any, start: int) -> object:
        for weight, out in zip(weights[start:], kept[start:], strict=True):
            hidden = np.matmul(hidden, weight, out=out)
        return hidden

    if not sparse.issparse(x):
        return lambda: dense(x, 0)
    if engine == "NumPy":
        return lambda: dense(x @ weights[0], 1)
    import torch

    indices, offsets, data, first = map(torch.from_numpy, (x.indices, x.indptr, x.data, weights[0]))

    def run() -> object:
        hidden = torch.nn.functional.embedding_bag(
            indices, first, offsets, mode="sum", per_sample_weights=data, include_last_offset=True
        )
        return dense(hidden.numpy(), 1)

    return run


def fastest(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the fewest seconds of each side, from the turn least disturbed by other load. Sides take turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 3):
        for name, side in sides.items():
            start = time.process_time()
            side()
            if turn >= 3:  # the first turns warm the caches
                times[name].append(time.process_time() - start)
    return {name: min(values) for name, values in times.items()}


def measure(repeats: int) -> list[tuple[str, str, float, float]]:
    """Return case, engine, and the milliseconds of the bare products and of ``logits``."""
    results = []
    for engine in ("NumPy", "torch"):
        if engine == "torch":
            import torch

            torch.set_num_threads(1)
        for title, case in CASES.items():
            # leaky ReLU and row normalisation are the more expensive choices, and those of the recipes
            model = make_model(case["widths"], activation="leaky_relu", normalize="row")
            x = make_rows(case["rows"], case["widths"][0], case.get("per_row"))
            bare = bare_products(model, x, engine)
            seconds = fastest({"bare": bare, "ours": functools.partial(model.logits, x)}, repeats)
            results.append((title, engine, 1e3 * seconds["bare"], 1e3 * seconds["ours"]))
    return results


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description="time of prediction over that of its bare matrix products")
    parser.add_argument("--repeats", type=int, default=100)
    arguments = parser.parse_args()
    if "torch" in sys.modules:
        raise SystemExit("torch must not be imported before the NumPy part is measured")
    print(f"{'case':<42} {'engine':<7} {'bare ms':>8} {'ours ms':>8} {'ratio':>6}")
    for title, engine, bare, ours in measure(arguments.repeats):
        print(f"{title:<42} {engine:<7} {bare:8.2f} {ours:8.2f} {ours / bare:6.2f}")


if __name__ == "__main__":
    main()
