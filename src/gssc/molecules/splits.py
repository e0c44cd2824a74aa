"""Splits of molecules: by scaffold, so that test molecules differ from training ones, or at random."""

from __future__ import annotations

import re

import numpy as np

from gssc.errors import GsscError

Split = tuple[np.ndarray, np.ndarray, np.ndarray]
SHARES = (0.8, 0.1, 0.1)


def split_molecules(split: str, scaffolds: np.ndarray, seed: int = 0) -> tuple[Split, str]:
    """Return (train, val, test) and the split's full name.

    Args:
        split: ``scaffold`` or ``random``, 80/10/10 unless shares follow: ``random:60/20/20``.
        scaffolds: number of each molecule's scaffold.
        seed: seed of ``random``; ``scaffold`` is deterministic.
    """
    matched = re.fullmatch(r"(scaffold|random)(?::(\d+)/(\d+)/(\d+))?", split)
    if not matched:
        raise GsscError(f"molecules have no split {split!r}: use scaffold, random, or shares as in random:60/20/20")
    shares = SHARES
    if matched[2]:
        numbers = [int(part) for part in matched.groups()[1:]]
        if sum(numbers) != 100 or numbers[0] == 0:
            raise GsscError(f"the shares of {split!r} must sum to 100 and leave some molecules for training")
        shares = (numbers[0] / 100, numbers[1] / 100, numbers[2] / 100)
    if matched[1] == "random":
        return random_split(len(scaffolds), shares, seed), f"{split} seed={seed}"
    return scaffold_split(scaffolds, shares), split


def scaffold_split(scaffolds: np.ndarray, shares: tuple[float, float, float] = SHARES) -> Split:
    """Return a split that assigns whole scaffold groups, largest first, to train, then val, then test, if they fit.

    Of groups of equal size, the one whose first molecule comes later is assigned first (Hu et al. 2020).

    >>> [part.tolist() for part in scaffold_split(np.array([0, 0, 0, 1, 1, 2, 0, 0, 0, 0]))]
    [[0, 1, 2, 5, 6, 7, 8, 9], [3, 4], []]
    """
    total = len(scaffolds)
    order = np.argsort(scaffolds, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(scaffolds[order])) + 1)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for group in sorted(groups, key=lambda members: (len(members), members[0]), reverse=True):
        taken = len(parts[0]) + len(group)
        if taken <= shares[0] * total:
            parts[0].extend(group)
        elif taken + len(parts[1]) <= (shares[0] + shares[1]) * total:
            parts[1].extend(group)
        else:
            parts[2].extend(group)
    train, val, test = (np.sort(np.array(part, dtype=np.int64)) for part in parts)
    return train, val, test


def random_split(total: int, shares: tuple[float, float, float], seed: int) -> Split:
    """Return a random split with these shares."""
    order = np.random.default_rng(seed).permutation(total)
    stops = [round(shares[0] * total), round((shares[0] + shares[1]) * total)]
    train, val, test = (np.sort(part) for part in np.split(order, stops))
    return train, val, test
