"""Splits as pure functions of labels and a seeded generator that return three sorted index arrays.

`labels` has the form of `Graph.labels`: class ids with -1 for unknown, or multi-label targets with NaN. Nodes
without any label are in no part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from gssc.errors import GsscError

# Common names of the parts of a split, by position.
PART_OF = {"train": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2}
NO_PART = ("", "none", "unlabelled", "unlabeled", "unknown")  # common names for nodes in no part
Split = tuple[np.ndarray, np.ndarray, np.ndarray]

USUAL_VAL, USUAL_TEST = 500, 1000  # sizes of Planetoid, common in per-class protocols


def labelled_nodes(labels: np.ndarray) -> np.ndarray:
    """Return the nodes that have a label (multi-label: at least one target)."""
    known = ~np.isnan(labels).all(axis=1) if labels.ndim == 2 else labels >= 0
    return np.flatnonzero(known).astype(np.int64)


def n_per_class(
    labels: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    val: int | None = None,
    test: int | None = None,
    val_per_class: int | None = None,
) -> Split:
    """Return a split with `n` training nodes per class (all, if a class has fewer); val and test are from the rest.

    `val` and `test` are node counts. By default, val is 500 or a third of the rest if that is less, and test
    1000 or what then remains. With `val_per_class`, val is balanced and test is everything left.
    """
    if labels.ndim != 1:
        raise GsscError("a per-class split needs one class per node: use a ratio split for multi-label targets")
    if n < 1:
        raise GsscError(f"a per-class split of {n} labels per class leaves nothing to train on: use at least 1")
    train = _take_per_class(labels, labelled_nodes(labels), n, rng)
    rest = np.setdiff1d(labelled_nodes(labels), train, assume_unique=True)
    if val_per_class is not None:
        balanced = _take_per_class(labels, rest, val_per_class, rng)
        return train, balanced, np.setdiff1d(rest, balanced, assume_unique=True)
    val = min(USUAL_VAL, len(rest) // 3) if val is None else val
    test = min(USUAL_TEST, len(rest) - val) if test is None else test
    if val < 0 or test < 0 or val + test > len(rest):
        raise GsscError(
            f"{val} validation and {test} test nodes were requested, but only {len(rest)} labelled nodes remain "
            f"besides the {len(train)} in train: choose fewer"
        )
    shuffled = rng.permutation(rest)
    return train, np.sort(shuffled[:val]), np.sort(shuffled[val : val + test])


def _take_per_class(labels: np.ndarray, among: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    taken = [rng.permutation(among[labels[among] == c])[:n] for c in np.unique(labels[among])]
    return np.sort(np.concatenate(taken)) if taken else np.empty(0, dtype=np.int64)


def ratios(labels: np.ndarray, parts: Sequence[float], rng: np.random.Generator) -> Split:
    """Return a random split of the labelled nodes into train, val and test in proportion to three numbers."""
    shares = np.asarray(parts, dtype=np.float64)
    if shares.shape != (3,) or not np.isfinite(shares).all() or (shares < 0).any() or shares[0] <= 0:
        raise GsscError(f"ratio {list(parts)} must be three numbers for train, val and test, the first above 0")
    nodes = rng.permutation(labelled_nodes(labels))
    ends = np.round(np.cumsum(shares) / shares.sum() * len(nodes)).astype(np.int64)
    train_end = min(max(int(ends[0]), 1), len(nodes))
    val_end = max(int(ends[1]), train_end)
    return np.sort(nodes[:train_end]), np.sort(nodes[train_end:val_end]), np.sort(nodes[val_end:])


def from_masks(train: np.ndarray, val: np.ndarray, test: np.ndarray) -> Split:
    """Return the split that three boolean masks describe."""
    first, second, third = (np.flatnonzero(mask).astype(np.int64) for mask in (train, val, test))
    return first, second, third


def generator(seed: int) -> np.random.Generator:
    """Return NumPy's generator for a seed, which must be a non-negative integer."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise GsscError(f"seed {seed!r} must be a whole number, 0 or above")
    return np.random.default_rng(seed)


def make_split(spec: str, labels: np.ndarray, seed: int) -> tuple[Split, str]:
    """Return the seeded split that "per-class:<n>", "per-class:<n>/<val>/<test>" or "ratio:<a>/<b>/<c>" describes.

    Also returns the name of the split in results, such as "20-per-class seed=0".
    """
    rng = generator(seed)
    if match := re.fullmatch(r"per-class:(\d+)(?:/(\d+)/(\d+))?", spec):
        n, val, test = (None if text is None else int(text) for text in match.groups())
        assert n is not None
        sizes = "" if val is None else f" {val}/{test}"
        return n_per_class(labels, n, rng, val=val, test=test), f"{n}-per-class{sizes} seed={seed}"
    number = r"(\d+(?:\.\d+)?)"
    if match := re.fullmatch(f"ratio:{number}/{number}/{number}", spec):
        parts = match.groups()
        return ratios(labels, [float(part) for part in parts], rng), f"ratio {'/'.join(parts)} seed={seed}"
    raise GsscError(
        f"split {spec!r} is not understood: use per-class:20, per-class:20/500/1000 (train per class/val/test) "
        "or ratio:60/20/20"
    )
