"""Scaling of feature columns, learned from a table and folded into the deployed model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from gssc.data.array_file import ArrayFile
from gssc.data.disk_checks import check_finite
from gssc.errors import GsscError

# Beyond this ratio of offset to spread, single precision leaves fewer than four digits to tell values apart.
FAR_FROM_ZERO = 1e3
SPARSE_SHARE = 0.1  # largest share of non-zero values in rows that count as bags of words
# Columns need no scaling if their median spread is at least the first, their largest at most the second, and no value
# exceeds LARGEST_UNIT_VALUE.
UNIT_SCALE = (0.1, 3.0)
LARGEST_UNIT_VALUE = 10.0
SHORTEST = 1e-37  # smallest mean row length, so that its reciprocal fits into float32
ROWS_JUDGED = 10_000  # sample size
NUMBERS_JUDGED = 2**20  # values in a sample of memory-mapped rows
COLUMNS_JUDGED = 128  # columns whose spread is computed at a time, in double precision
# Long tails: the value that one in two hundred exceeds, in multiples of the one that one in five does, both by their
# distance from the median. It is 2 for a normal distribution, 5 for an exponential and 9 for a log-normal one, and 1
# for a column that saturates, with many values at its greatest.
USUAL, OFTEN, SELDOM = 0.5, 0.8, 0.995
LONG = 7.0
# Columns that vary less count as constant: the reciprocal of their spread, times a weight, may overflow in the deployed
# model.
LEAST_SPREAD = 1e-30
ALMOST_LINEAR = 0.1  # gain of columns without long tails: asinh(0.1 z) / 0.1 is z up to 1.5% at three deviations
MOST_SQUASHED = 512  # maximum number of columns for asinh: the deployed model has a square layer for them


@dataclass
class Scaling:
    """Scaling of the rows of a table, which can be folded into a first linear layer that takes raw rows.

    Args:
        normalize: ``row`` divides every row by the sum of its absolute values, ``none`` does not.
        mean, scale: what is subtracted from each column, and what it is then divided by, [d]; None skips the step. The
            scale of a constant column is infinite: there is nothing to learn from it, so it has no weight in a deployed
            model.
        gain: gain of every column: the scaled value z becomes asinh(gain z) / gain, which is z near zero and a
            logarithm far out. None leaves it as it is.
    """

    normalize: Literal["row", "none"]
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None
    gain: np.ndarray | None = None

    @classmethod
    def of(cls, features: Any, normalize: str) -> Scaling:
        """Return how features are scaled before training, learned from them.

        Args:
            features: [N, d], dense, memory-mapped or CSR.
            normalize: ``row`` divides each row by the sum of its absolute values (rows of zeros stay as they are);
                ``standard`` subtracts the mean of each column and divides by its standard deviation (CSR keeps its
                zeros: its columns get mean square one); ``asinh`` does the same and compresses the values of columns
                with long tails, as a logarithm would; ``none``; ``auto`` is ``row`` for sparse rows that are never
                negative, such as bags of words, ``none`` for columns that are on a scale of about one already,
                ``asinh`` if some have long tails, else ``standard``.
        """
        if normalize == "auto":
            normalize = usual_normalization(features)
        if normalize == "asinh" and (sp.issparse(features) or features.shape[1] > MOST_SQUASHED):
            raise GsscError(
                f"normalize asinh is for dense features of at most {MOST_SQUASHED} columns: use standard or row"
            )
        if normalize not in ("standard", "asinh"):
            return cls("row" if normalize == "row" else "none")
        whole = features
        if isinstance(features, np.memmap):
            features = some_rows(features)
        if sp.issparse(features):
            scale = root_mean_square(features)
            return cls("none", None, np.where(scale > LEAST_SPREAD, scale, np.inf))
        mean = features.mean(axis=0, dtype=np.float64)
        scale = features.std(axis=0, dtype=np.float64)
        least = np.maximum(1e-12 * np.abs(mean), LEAST_SPREAD)  # rounding gives a constant column a small deviation
        # A column that is constant in a sample may vary elsewhere: it stays, unless it lies where rounding errors are.
        stays = (features.shape[0] < whole.shape[0]) & (np.abs(mean) <= FAR_FROM_ZERO)
        standard = cls("none", mean, np.where(scale > least, scale, np.where(stays, 1.0, np.inf)))
        return standard if normalize == "standard" else standard._squashing(features)

    def _squashing(self, features: np.ndarray) -> Scaling:
        """Return this scaling with columns that have long tails centred at their medians and compressed by asinh."""
        assert self.mean is not None
        assert self.scale is not None
        middle, usual, long = tails(some_rows(features))
        gain = np.where(long, 1.0, ALMOST_LINEAR)
        return Scaling("none", np.where(long, middle, self.mean), np.where(long, usual, self.scale), gain)

    def lengthened(self, rows: Any) -> Scaling:
        """Return this scaling for rows divided by their sums, times a factor that makes their mean length one.

        Args:
            rows: as this scaling makes them, [N, d].
        """
        return Scaling(self.normalize, None, np.full(rows.shape[1], mean_length(rows)))

    def applied(self, features: Any) -> Any:
        """Return the table with scaled columns; row normalisation is left to training."""
        if self.scale is None:
            return features
        if sp.issparse(features):
            return sp.csr_matrix(features @ sp.diags(1 / self.scale))
        scaled = (features if self.mean is None else features - self.mean) / self.scale
        return scaled if self.gain is None else np.arcsinh(self.gain * scaled) / self.gain

    def for_neighbours(self, scaled: Any) -> Any:
        """Return the rows to compute distances from: rows of counts are scaled to unit length."""
        if self.normalize == "none":
            return scaled
        square = scaled.multiply(scaled).sum(axis=1) if sp.issparse(scaled) else (scaled**2).sum(axis=1)
        length = np.sqrt(np.asarray(square, dtype=np.float64)).ravel()
        return sp.csr_matrix(sp.diags(1 / np.where(length > 0, length, 1.0)) @ scaled)

    def folded(self, layer: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the layer such that it gives the same output for raw rows as the given one for scaled rows.

        With a gain, its input is the output of :meth:`squashing_layer` and asinh instead of the raw rows.
        """
        if self.scale is None:
            return layer
        if self.gain is not None:
            return layer[0] / self.gain, layer[1]
        weight, bias = layer[0] / self.scale, layer[1].astype(np.float64)
        return weight, bias if self.mean is None else bias - weight @ self.mean

    def squashing_layer(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the linear layer that stands before asinh in a deployed model; None if rows are not squashed."""
        if self.gain is None or self.scale is None or self.mean is None:
            return None
        steep = self.gain / self.scale
        return np.diag(steep), -steep * self.mean

    def far_column(self) -> int | None:
        """Return a column too far from zero, relative to its spread, for float32 to tell its values apart, or None."""
        if self.mean is None or self.scale is None:
            return None
        distance = np.abs(self.mean) / self.scale
        worst = int(distance.argmax())
        return worst if distance[worst] > FAR_FROM_ZERO else None


def usual_normalization(features: Any) -> str:
    """Return what ``auto`` stands for: ``row``, ``none``, ``standard`` or ``asinh``; judged by at most 10,000 rows."""
    rows = some_rows(features)
    filled = (rows != 0).sum() / max(1, rows.shape[0] * rows.shape[1])
    if filled <= SPARSE_SHARE and rows.min() >= 0:
        return "row"
    spread = column_spread(rows)
    alike = len(spread) == 0 or (spread.max() <= UNIT_SCALE[1] and np.median(spread) >= UNIT_SCALE[0])
    if alike and max(rows.max(), -rows.min()) <= LARGEST_UNIT_VALUE:
        return "none"
    squashed = not sp.issparse(rows) and rows.shape[1] <= MOST_SQUASHED and tails(rows)[2].any()
    return "asinh" if squashed else "standard"


def tails(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the median of each column, the median distance from it where there is any, and whether tails are long.

    >>> table = np.column_stack([[1.0, 2, 3, 2, 1, 3, 2, 1, 3, 90], [1.0, 2, 3, 2, 1, 3, 2, 1, 3, 4]])
    >>> middle, usual, long = tails(table)
    >>> middle.tolist(), usual.tolist(), long.tolist()
    ([2.0, 2.0], [1.0, 1.0], [True, False])
    """
    values = np.asarray(rows, dtype=np.float64)
    if not len(values):
        return np.zeros(values.shape[1]), np.ones(values.shape[1]), np.zeros(values.shape[1], dtype=bool)
    middle = np.median(values, axis=0)
    away = np.abs(values - middle)
    wanted = (USUAL, OFTEN, SELDOM)
    found = [np.quantile(column[column > 0], wanted) if column.any() else np.ones(len(wanted)) for column in away.T]
    usual, often, seldom = np.array(found).reshape(-1, len(wanted)).T
    return middle, usual, seldom > LONG * often


def column_spread(rows: Any) -> np.ndarray:
    """Return the standard deviations of the columns that vary; of CSR columns the root of their mean square."""
    if sp.issparse(rows):
        spread = root_mean_square(rows)
    else:
        parts = [rows[:, start : start + COLUMNS_JUDGED] for start in range(0, rows.shape[1], COLUMNS_JUDGED)]
        spread = np.concatenate([np.asarray(part, dtype=np.float64).std(axis=0) for part in parts] or [np.empty(0)])
    return spread[spread > 0]


def root_mean_square(rows: Any) -> np.ndarray:
    """Return the root of the mean square of each column of a CSR matrix, in double precision, [d]."""
    return np.asarray(np.sqrt(np.asarray(rows.power(2, dtype=np.float64).mean(axis=0)).ravel()))


def some_rows(features: Any) -> Any:
    """Return at most 10,000 rows at equal distances, in memory; all of them if there are no more.

    If rows are wide and memory-mapped, there are fewer, so that they take a few megabytes.
    """
    count, most = features.shape[0], ROWS_JUDGED
    mapped = isinstance(features, np.memmap)
    if mapped:
        most = min(most, max(1000, NUMBERS_JUDGED // features.shape[1]))
    if count <= most and not mapped:
        return features
    chosen = np.linspace(0, count - 1, min(count, most)).astype(np.int64)
    if not mapped:
        return features[chosen]
    rows = ArrayFile(features)[chosen]
    check_finite(rows, chosen)
    return rows


def mean_length(rows: Any) -> float:
    """Return the mean Euclidean length of sparse or non-negative rows; 1 for others, whose scale is kept.

    Rows divided by their sums are the shorter, the more values they have. With a mean length of one, the same learning
    rate suits all feature sets.
    """
    if not sp.issparse(rows) and rows.min() < 0:
        return 1.0
    if sp.issparse(rows):
        exact = rows.astype(np.float64)
        squares = exact.multiply(exact).sum(axis=1)
    else:
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    length = float(np.sqrt(np.asarray(squares)).mean())
    return max(length, SHORTEST) if length > 0 else 1.0
