"""Multinomial naive Bayes on soft labels, for wide rows of counts such as bags of words.

With few rows per column, this generative model is often as good on unseen rows as a network, and it errs on others
(Ng and Jordan, 2002). It is fitted in closed form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import log_softmax, softmax

from gssc.calibration import best_temperature
from gssc.data.scaling import some_rows
from gssc.graph import Features

NARROW = 128  # columns; on wider rows a student may drop a part of its inputs
FILLED = 0.25  # largest share of values of counts that are not zero
SMOOTHING = 0.3  # added to every count
NUMBERS = 1 << 22  # values per block of rows
MOST_NUMBERS = 1 << 28  # counts x classes x fits; with more, they take several seconds and are left out


class NaiveBayes(NamedTuple):
    """A fitted model.

    Args:
        weights: logits of a row are its product with these, [d, C].
        held_out: class probabilities of every row by a model fitted to the other rows, [n, C].
    """

    weights: np.ndarray
    held_out: np.ndarray


def are_counts(features: Features) -> bool:
    """Return whether features look like counts, judged by some rows: many columns, most values zero, none negative."""
    if features.shape[1] <= NARROW:
        return False
    rows = some_rows(features)
    return bool((rows != 0).sum() <= FILLED * rows.shape[0] * rows.shape[1] and rows.min() >= 0)


def naive_bayes(rows: Any, soft: np.ndarray, fits: int = 1) -> NaiveBayes | None:
    r"""Fit multinomial naive Bayes to soft labels; None if the rows are no counts after all, or too large.

    .. math:: \log p(c \mid x) = \frac{1}{T} \sum_j n_j \log
        \frac{a + \sum_i s_{ic} n_{ij}}{\sum_k (a + \sum_i s_{ic} n_{ik})} + \text{const}

    The classes have equal prior probabilities. The temperature T corrects the assumption that columns are independent,
    which makes probabilities too extreme: it is fitted to the soft labels and ``held_out``.

    Args:
        rows: scaled rows, dense or CSR, [n, d]. They are multiplied by one number, so that their mean sum is the mean
            number of values of a row: divided by their sums, counts would be small compared to the smoothing.
        soft: soft labels s, [n, C].
        fits: number of such fits, all of which are left out if they would take long.
    """
    counts = sp.csr_matrix(rows, dtype=np.float64)
    total = counts.sum()
    if not 0 < total < np.inf or counts.data.min() < 0 or counts.nnz * soft.shape[1] * fits > MOST_NUMBERS:
        return None
    scale = counts.nnz / total
    counts.data *= scale
    soft = soft.astype(np.float64)
    by_class = counts.T @ soft + SMOOTHING
    logits = held_out_logits(counts, soft, by_class)
    temperature = best_temperature(logits, soft)[0]
    weights = log_shares(by_class) * (scale / temperature)
    weights -= weights.mean(axis=1, keepdims=True)
    return NaiveBayes(weights.astype(np.float32), softmax(logits / temperature, axis=1).astype(np.float32))


def log_shares(by_class: np.ndarray) -> np.ndarray:
    """Return the log of the share of each count in its class, [d, C]."""
    return np.asarray(np.log(by_class) - np.log(by_class.sum(axis=0)))


def held_out_logits(counts: sp.csr_matrix, soft: np.ndarray, by_class: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of every row by a model fitted to the other rows, [n, C].

    Args:
        counts: rows of counts, [n, d].
        soft: soft labels, [n, C].
        by_class: smoothed counts of all rows by class, [d, C].
    """
    totals, found = by_class.sum(axis=0), np.empty_like(soft)
    step = max(1, NUMBERS * counts.shape[0] // max(1, counts.nnz * soft.shape[1]))
    for start in range(0, counts.shape[0], step):
        part, own = counts[start : start + step], soft[start : start + step]
        row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        without = by_class[part.indices] - part.data[:, None] * own[row]
        sums = sp.csr_matrix((part.data, np.arange(part.nnz), part.indptr), (part.shape[0], part.nnz)) @ np.log(without)
        length = np.asarray(part.sum(axis=1))
        found[start : start + step] = sums - length * np.log(totals - length * own)
    return np.asarray(log_softmax(found, axis=1))
