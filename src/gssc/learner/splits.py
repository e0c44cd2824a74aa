"""Initial weights of a student's first layer: splits of trees fitted to its teacher's soft labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gssc.extras import require, sklearn_seed
from gssc.models.student import Student

TREES = 20
DEPTH = 5
OUTPUTS = 8  # outputs of the trees: the classes or, if there are more, as many principal components of the soft labels
MOST_ROWS = 2000  # for fitting the trees
STEEPNESS = 2.0  # slope of a unit, per standard deviation of its column


def start_at_splits(model: Student, rows: Any, soft: np.ndarray, share: float, seed: int) -> None:
    r"""Initialise a share of the units of the first layer at splits of trees, each with one column and one threshold.

    .. math:: h_k = s_k (x_{j_k} - t_k)

    A unit with random weights mixes all columns, so a student needs many rows to learn that only a few columns matter,
    or that classes change at a threshold. Trees need few rows for that. The layer is trained as usual afterwards.

    Args:
        model: a student with at least one hidden layer, not yet trained.
        rows: scaled rows that it will be trained on, dense or CSR, [n, d].
        soft: its teacher's probabilities for them, [n, C].
        share: share of the units of the first layer that start at splits.
        seed: seed of the trees and of the choice of splits.
    """
    count = int(share * model.settings.hidden)
    if not np.ptp(soft, axis=0).any():  # the soft label is the same for every row, as with one class
        return
    rng = np.random.default_rng([seed, 11])
    some = rng.permutation(rows.shape[0])[:MOST_ROWS]
    few = rows[some].toarray() if sp.issparse(rows) else rows[some]
    columns, thresholds, gains = tree_splits(few, soft[some], seed)
    if not count or not len(columns):
        return
    chosen = rng.choice(len(columns), count, p=gains / gains.sum())
    columns, thresholds = columns[chosen], thresholds[chosen]
    spread = np.maximum(few.std(axis=0, dtype=np.float64), np.finfo(np.float32).tiny)
    slopes = STEEPNESS * rng.choice([-1.0, 1.0], count) / spread[columns]
    weight, bias = model.first.weight.data, model.first.bias.data
    weight[:, :count] = 0
    weight[torch.from_numpy(columns), torch.arange(count)] = torch.from_numpy(slopes).float() / model.input_scale
    bias[:count] = torch.from_numpy(-slopes * thresholds).float()


def tree_splits(rows: np.ndarray, soft: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return column, threshold and square root of the gain of every split of a small forest fitted to soft labels."""
    forest = require("sklearn.ensemble", extra="data").RandomForestRegressor(
        TREES, max_depth=DEPTH, max_features=1 / 3, random_state=sklearn_seed(seed)
    )
    if soft.shape[1] > OUTPUTS:
        soft = soft - soft.mean(axis=0)
        soft = soft @ np.linalg.eigh(soft.T @ soft)[1][:, -OUTPUTS:]
    found = []
    for tree in (grown.tree_ for grown in forest.fit(rows, soft).estimators_):
        inner = np.flatnonzero(tree.children_left >= 0)
        spread = tree.weighted_n_node_samples * tree.impurity
        gain = spread[inner] - spread[tree.children_left[inner]] - spread[tree.children_right[inner]]
        useful = gain > 0
        found.append((tree.feature[inner][useful], tree.threshold[inner][useful], np.sqrt(gain[useful])))
    columns, thresholds, gains = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return columns.astype(np.int64), thresholds, gains
