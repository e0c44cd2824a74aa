"""Linear teachers: logistic regressions and class means on rows, spread rows, and own and neighbours' rows.

Spread rows are feature rows averaged over the graph by personalised PageRank (:mod:`gssc.trust.spreading`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from gssc.extras import require, sklearn_seed
from gssc.graph import Graph
from gssc.learner.jury import normalized
from gssc.trust.sketch import unit_rows
from gssc.trust.spreading import NEARLY_ALL, spread, walk_matrix

PENALTIES = (0.1, 1.0, 10.0)  # C of scikit-learn's LogisticRegression
MOST_NUMBERS = 20_000_000  # values in a dense matrix of rows; larger ones are reduced to REDUCED singular vectors
REDUCED = 256
MOST_LABELS = 20_000  # a regression is fitted to at most this many
MOST_WORK = 1_000_000_000  # most labels times columns times classes of a logistic regression; about ten seconds
MOST_SPARSE_WORK = 100_000_000  # the same for sparse rows, of which only values that are not zero count
MOST_WEIGHTS = 2_000_000  # of a regression on sparse rows; its solver needs twenty times the memory
SHARPNESS = 20.0  # class means and ridge regressions: logits are scores times this, before temperature scaling

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


class ShortRows:
    """Converts feature rows to a dense matrix, projected to their leading singular vectors if that would be too large.

    Args:
        features: [N, d], dense or CSR. Singular vectors are those of the rows scaled to length one.
        labels: number of training labels. With few, wide rows are not projected: a regression works in the span of the
            labelled rows, so its cost does not grow with the width.
        seed: seed of the randomised decomposition.
    """

    def __init__(self, features: Any, labels: int, seed: int = 0):
        count, width = features.shape
        self.features, self.labels, self.seed = features, min(labels, MOST_LABELS), seed
        self.are_whole = count * width <= MOST_NUMBERS and (labels <= 2 * REDUCED or width <= 2 * REDUCED)

    @cached_property
    def directions(self) -> np.ndarray:
        """Leading right singular vectors of the unit rows, [d, k]."""
        return main_directions(unit_rows(self.features), REDUCED, self.seed)

    def of(self, rows: Any) -> np.ndarray:
        """Return rows with the same columns as the features, in any scaling, [N, d], as a dense matrix [N, k]."""
        if not self.are_whole:
            return np.asarray(rows @ self.directions, dtype=np.float32)
        return rows.toarray() if sp.issparse(rows) else np.asarray(rows)

    def unit(self) -> np.ndarray:
        """Return the feature rows, scaled to length one, as a dense matrix [N, k]."""
        return self.of(unit_rows(self.features))

    def unit_of_all_columns(self, classes: int) -> sp.csr_matrix | None:
        """Return the sparse feature rows, scaled to length one, [N, d], for regressions.

        None if :meth:`unit` has all columns as well, if features are dense, if there are too few labels to tell more
        directions apart than there are singular vectors, or if a regression would take long. Usually it takes less time
        than one on singular vectors and is more accurate: these leave out rare words, for example.
        """
        if self.are_whole or self.labels <= 2 * REDUCED or not sp.issparse(self.features):
            return None
        count, width = self.features.shape
        work = self.features.nnz / max(1, count) * self.labels * classes
        return unit_rows(self.features) if work <= MOST_SPARSE_WORK and width * classes <= MOST_WEIGHTS else None


def main_directions(rows: Any, width: int, seed: int = 0) -> np.ndarray:
    """Return the leading right singular vectors of rows, by a randomised decomposition, float32 [d, width]."""
    svd = require("sklearn.utils.extmath", extra="data").randomized_svd
    found = svd(rows, min(width, min(rows.shape)), n_iter=3, random_state=sklearn_seed(seed))[2]
    return np.asarray(found.T, dtype=np.float32)


def representations(graph: Graph, keep: np.ndarray, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and values of each input of linear teachers: rows, spread rows, own beside neighbours' rows.

    Args:
        graph: its edges are used, its labels are not.
        keep: keep probability of each edge. Equal weights are tried as well, unless nearly all edges are kept.
        rows: unit feature rows, [N, d].
    """
    yield "rows", rows
    if not graph.num_edges:
        return
    kinds = {"trusted": keep}
    if keep.mean() < NEARLY_ALL:
        kinds["all"] = np.ones_like(keep)
    for kind, weights in kinds.items():
        yield f"rows spread over {kind} edges", spread_rows(rows, graph.edges, weights)
        yield f"rows beside neighbours by {kind} edges", neighbour_rows(rows, graph.edges, weights)


def spread_rows(rows: np.ndarray, edges: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return rows averaged over the graph and scaled to length one, [N, d]."""
    return unit_rows(spread(rows, walk_matrix(edges, weights, len(rows))))


def neighbour_rows(rows: np.ndarray, edges: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return rows beside their averages over neighbours and over neighbours of neighbours, [N, 3 d]."""
    around = walk_matrix(edges, weights, len(rows), loops=False)
    once = around @ rows
    return np.hstack([rows, unit_rows(once), unit_rows(around @ once)])


def linear_teachers(classes: int, means: bool = True) -> dict[str, Fit]:
    """Return the fit functions of the linear teachers by name; without ``means``, the regressions only.

    Each takes the inputs of all nodes, the training nodes, their labels and their weights, and returns class
    probabilities of all nodes, [N, C].
    """
    fits: dict[str, Fit] = {f"regression, C={c:g}": _regression(c, classes) for c in PENALTIES}
    return {**fits, "class means": _class_means(classes)} if means else fits


def _regression(penalty: float, classes: int) -> Fit:
    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        return logistic_regression(inputs, train, labels, classes, penalty, weight)

    return fit


def logistic_regression(
    inputs: Any,
    train: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalty: float,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return class probabilities of all rows by a multinomial logistic regression with an L2 penalty, [N, C].

    Args:
        inputs: inputs of all nodes, dense or CSR, [N, d].
        train: nodes that it is fitted to, [n].
        labels: their classes, [n].
        classes: number of classes C.
        penalty: C of scikit-learn, the inverse of the penalty.
        weight: weight of each training node, [n]; all one if left out.
    """
    weights, bias = logistic_map(inputs[train], labels, classes, penalty, weight)
    return np.asarray(softmax(inputs @ weights + bias, axis=1), dtype=np.float32)


def logistic_map(
    rows: Any, labels: np.ndarray, classes: int, penalty: float, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights [d, C] and bias [C] of a logistic regression; classes without labels get a bias of -inf.

    If labels times columns times classes exceed MOST_WORK, a ridge regression is fitted to dense rows instead, which is
    faster.

    Args:
        rows: rows that it is fitted to, dense or CSR, [n, d].
        labels: their classes, [n].
        classes: number of classes C.
        penalty: C of scikit-learn, the inverse of the penalty.
        weight: weight of each row, [n]; all one if left out.
    """
    linear_model = require("sklearn.linear_model", extra="data")
    basis, dense = None, not sp.issparse(rows)
    if dense and len(rows) < rows.shape[1]:
        # The optimum lies in the span of the training rows, so as many coordinates as labels give the same result.
        basis = span_of(rows)
        rows = rows @ basis
    present = np.unique(labels)
    bias = np.full(classes, -np.inf, dtype=np.float32)
    width = len(basis) if basis is not None else rows.shape[1]
    weights = np.zeros((width, classes), dtype=np.float32)
    if len(present) == 1 or not rows.shape[1]:
        bias[present] = np.log(np.bincount(labels, minlength=classes)[present] / len(labels))
        return weights, bias
    if dense and rows.size * len(present) > MOST_WORK:
        found, constants = ridge_map(rows, np.searchsorted(present, labels), len(present), penalty, weight)
        weights[:, present], bias[present] = found if basis is None else basis @ found, constants
        return weights, bias
    model = linear_model.LogisticRegression(C=penalty, max_iter=100, tol=1e-3)
    with quiet():
        model.fit(rows, labels, sample_weight=weight)
    found, constants = model.coef_, model.intercept_
    if len(present) == 2:  # scikit-learn has one row of coefficients, for the second class
        found, constants = np.concatenate([np.zeros_like(found), found]), np.concatenate([[0.0], constants])
    weights[:, present] = found.T if basis is None else basis @ found.T
    bias[present] = constants
    return weights, bias


def ridge_map(
    rows: np.ndarray, labels: np.ndarray, classes: int, penalty: float, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights [d, C] and bias [C] of a ridge regression of one-hot classes, in closed form.

    Arguments as in :func:`logistic_map`.
    """
    weights = np.ones(len(rows)) if weight is None else weight / weight.mean()
    targets = sp.csr_matrix((weights, (labels, np.arange(len(labels)))), shape=(classes, len(labels)))  # weighted
    shares, middle = np.asarray(targets.sum(axis=1)).ravel() / len(rows), weights @ rows / len(rows)
    centred = (rows - middle).astype(np.float64)
    products = (centred * weights[:, None]).T @ centred + np.eye(rows.shape[1]) / penalty
    found = SHARPNESS * np.linalg.solve(products, (targets @ centred).T)
    return np.asarray(found, dtype=np.float32), np.asarray(SHARPNESS * shares - middle @ found, dtype=np.float32)


def span_of(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the span of a few wide rows, from their Gram matrix, float32 [d, k]."""
    wide = rows.astype(np.float64)
    squares, shares = np.linalg.eigh(wide @ wide.T)
    lengths = np.sqrt(np.maximum(squares, 0))
    kept = lengths > 1e-6 * max(lengths.max(), 1e-12)
    return np.asarray(wide.T @ (shares[:, kept] / lengths[kept]), dtype=np.float32)


def _class_means(classes: int) -> Fit:
    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        sums = np.zeros((classes, inputs.shape[1]))
        weights = np.ones(len(train)) if weight is None else weight
        np.add.at(sums, labels, weights[:, None] * inputs[train])
        likely = np.exp(SHARPNESS * (inputs @ unit_rows(sums).T))
        if weight is not None:
            likely *= np.bincount(labels, weight, minlength=classes) / weight.sum()
        likely[:, np.bincount(labels, minlength=classes) == 0] = 0
        return normalized(likely)

    return fit


def label_spreading(walk: sp.csr_matrix, classes: int, restart: float, steps: int = 30) -> Fit:
    """Return the fit function of label spreading (Zhou et al. 2004), which uses labels and edges but no features.

    Without label weights each class starts with the same total, however many labels it has. Nodes that no label reaches
    get equal probabilities.

    Args:
        walk: normalised adjacency, see :func:`~gssc.trust.spreading.walk_matrix`.
        classes: number of classes.
        restart: weight of the initial labels in each step.
        steps: number of steps.
    """

    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        start = np.zeros((len(inputs), classes), dtype=np.float32)
        start[train, labels] = 1 / np.bincount(labels)[labels] if weight is None else weight / weight.sum()
        found = spread(start, walk, steps, restart)
        found += 1e-6 * max(float(found.max()), 1e-6) / classes
        return normalized(found)

    return fit


class quiet:
    """Context that silences scikit-learn's solver warnings; a teacher that stops early is ranked like any other."""

    def __enter__(self) -> None:
        import warnings

        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        self._caught.__exit__(*error)  # type: ignore[arg-type]
