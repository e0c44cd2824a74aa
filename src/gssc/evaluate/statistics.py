"""Statistics of results over seeds: spread, paired differences, ranks, and which leads are significant.

Scores of one method on one dataset are a mapping from seed (or split) to score; a score of None or NaN is
missing. A table is a mapping from method to column (dataset) to such scores. Two methods are compared on the seeds
that both have, seed by seed, so that a lucky split helps neither.

Seeds share their data and often their test nodes: an interval here is about training again on the same data, not about
results on other graphs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gssc.errors import GsscError
from gssc.names import nearest

Scores = Mapping[Hashable, float | None]
Table = Mapping[str, Mapping[str, Scores]]

DDOF = 0  # population standard deviation: what results/core.md and the README give after "±"
LEVEL = 0.05  # significance level of all tests
_DIGITS = 10  # means that agree to this many digits are equal: they differ by the order of addition only
_NO_SPREAD = 1e-12  # differences that vary by less than this, relative to the scores, vary by rounding


class Summary(NamedTuple):
    """Mean and standard deviation of n scores; None where n is too small for one."""

    mean: float | None
    std: float | None
    n: int

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


class PairedDifference(NamedTuple):
    """Mean of (method - reference) over the n seeds both have, its confidence interval, and p of the paired t-test.

    `low`, `high` and `p` are None when fewer than two seeds are common, and when every seed gives the same difference:
    then there is no variation to estimate the error from.
    """

    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int


class AverageRanks(NamedTuple):
    """Mean rank of each method (1 is best, None if it has no score), and the columns it was computed from."""

    ranks: dict[str, float | None]
    columns: tuple[str, ...]


class Marks(NamedTuple):
    """The best and the second best method of each column, None where no lead is significant; and their meaning."""

    best: dict[str, str | None]
    second: dict[str, str | None]
    caption: str


def summary(scores: Iterable[float | None], ddof: int = DDOF) -> Summary:
    """Return mean and standard deviation; a single score has no spread.

    Args:
        scores: missing ones (None, NaN) do not count.
        ddof: 0 divides by n (population, as in all tables of this project), 1 by n - 1 (sample).

    >>> summary([1.0, 2.0, 3.0, None])
    Summary(mean=2.0, std=0.816496580927726, n=3)
    """
    values = np.array(_known(scores), dtype=np.float64)
    if not len(values):
        return Summary(None, None, 0)
    std = float(values.std(ddof=ddof)) if len(values) > 1 else None
    return Summary(math.fsum(values) / len(values), std, len(values))


def paired_difference(method: Scores, reference: Scores, confidence: float = 1 - LEVEL) -> PairedDifference:
    """Compare two methods on their common seeds by Student's t: d ± t(n - 1) s / sqrt(n), s with n - 1.

    >>> difference = paired_difference({0: 3.0, 1: 5.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 3.0, 3: 9.0})
    >>> difference.mean, difference.n
    (2.0, 3)
    """
    pairs = _pairs(method, reference)
    n = len(pairs)
    if not n:
        return PairedDifference(None, None, None, None, 0)
    differences = pairs[:, 0] - pairs[:, 1]
    mean = math.fsum(differences) / n
    spread = float(differences.std(ddof=1)) if n > 1 else 0.0
    if spread <= _NO_SPREAD * float(np.abs(pairs).max()):
        return PairedDifference(mean, None, None, None, n)
    from scipy import stats

    error = spread / math.sqrt(n)
    reach = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
    return PairedDifference(mean, mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean) / error, n - 1)), n)


def differences_to(
    table: Table, reference: str, confidence: float = 1 - LEVEL
) -> dict[str, dict[str, PairedDifference]]:
    """Compare every other method with `reference`, column by column: {column: {method: difference}}."""
    if reference not in table:
        raise GsscError(f"there is no method {reference!r} to compare with; {nearest(reference, table)}")
    return {
        column: {
            method: paired_difference(cells.get(column, {}), table[reference].get(column, {}), confidence)
            for method, cells in table.items()
            if method != reference
        }
        for column in _columns(table)
    }


def average_ranks(table: Table, higher_is_better: bool = True) -> AverageRanks:
    """Rank the methods in each column by their mean over common seeds; equal means share the mean of their ranks.

    A method without any score is left out. Only columns in which all other methods have scores at a common seed
    count: an average over different columns would compare datasets, not methods.
    """
    present = [method for method, cells in table.items() if any(_known(scores.values()) for scores in cells.values())]
    places: dict[str, list[float]] = {method: [] for method in present}
    used = []
    for column in _columns(table):
        scores = [table[method].get(column, {}) for method in present]
        seeds = _common_seeds(scores)
        if not seeds:
            continue
        used.append(column)
        means = np.array(
            [round(math.fsum(cell[seed] or 0.0 for seed in seeds) / len(seeds), _DIGITS) for cell in scores]
        )
        means = -means if higher_is_better else means
        for method, mean in zip(present, means, strict=True):
            ahead, level = int((means < mean).sum()), int((means == mean).sum())
            places[method].append(ahead + (level + 1) / 2)
    ranks = {method: math.fsum(places[method]) / len(used) if places.get(method) else None for method in table}
    return AverageRanks(ranks, tuple(used))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests by Holm's step-down method; compare the results with the level.

    `A simple sequentially rejective multiple test procedure <https://www.jstor.org/stable/4615733>`_: the i-th smallest
    of m is multiplied by m - i + 1, and none may fall below the one before it.

    >>> holm([0.25, 0.0625, 0.125])
    [0.25, 0.1875, 0.25]
    """
    adjusted = [0.0] * len(p_values)
    so_far = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        so_far = max(so_far, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = so_far
    return adjusted


def mark(table: Table, higher_is_better: bool = True, level: float = LEVEL) -> Marks:
    """Return the best method of each column if it is significantly better than all others, and then the second.

    The method with the best mean is marked if the paired t-test finds it ahead of every other method of the column
    after Holm's correction; the second, if the best is marked and the second is ahead of all the rest in the same way.
    A comparison that cannot be tested (fewer than two common seeds, no spread) is inconclusive, so it prevents a mark.
    With one method there is nothing to mark, with two no second.
    """
    best: dict[str, str | None] = {}
    second: dict[str, str | None] = {}
    sign = 1 if higher_is_better else -1
    for column in _columns(table):
        cells = {method: columns.get(column, {}) for method, columns in table.items()}
        means = {method: summary(scores.values()).mean for method, scores in cells.items()}
        order = sorted((-sign * mean, method) for method, mean in means.items() if mean is not None)
        ranked = [method for _, method in order]
        leads = [_leads(cells, ranked[place:], sign, level) for place in (0, 1)]
        best[column] = ranked[0] if leads[0] else None
        second[column] = ranked[1] if leads[0] and leads[1] else None
    caption = (
        "The best result of a column is marked only where it is ahead of every other method, the second only where it "
        f"is ahead of all the rest: paired t-test over common seeds, {100 * level:g}% level, Holm's correction over "
        "the methods compared."
    )
    return Marks(best, second, caption)


def _leads(cells: Mapping[str, Scores], ranked: list[str], sign: int, level: float) -> bool:
    """Return whether the first of these methods is shown to be ahead of all the others."""
    if len(ranked) < 2:
        return False
    p_values = []
    for other in ranked[1:]:
        difference = paired_difference(cells[ranked[0]], cells[other])
        if difference.p is None or difference.mean is None or sign * difference.mean <= 0:
            return False
        p_values.append(difference.p)
    return max(holm(p_values)) <= level


def _columns(table: Table) -> list[str]:
    """Return the columns of all methods, in order of first occurrence."""
    return list(dict.fromkeys(column for cells in table.values() for column in cells))


def _known(scores: Iterable[float | None]) -> list[float]:
    return [float(score) for score in scores if score is not None and not math.isnan(score)]


def _common_seeds(cells: Sequence[Scores]) -> list[Hashable]:
    if not cells:
        return []
    return [seed for seed in cells[0] if all(_known([cell.get(seed)]) for cell in cells)]


def _pairs(method: Scores, reference: Scores) -> np.ndarray:
    seeds = _common_seeds([method, reference])
    return np.array([[method[seed], reference[seed]] for seed in seeds], dtype=np.float64).reshape(-1, 2)
