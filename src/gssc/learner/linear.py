"""Closed-form teachers: logistic regressions and class means on rows, spread rows, and own and neighbours' rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from gssc.extras import require
from gssc.graph import Graph
from gssc.learner.jury import normalized
from gssc.learner.spreading import NEARLY_ALL, spread, walk_matrix
from gssc.trust.sketch import unit_rows

PENALTIES = (0.1, 1.0, 10.0)  # C of scikit-learn's LogisticRegression
MOST_NUMBERS = 20_000_000  # of a dense matrix of rows; above, rows are reduced to their main directions
REDUCED = 256
MOST_LABELS = 20_000  # that a regression is fitted to
MOST_WORK = 1_000_000_000  # labels times columns times classes of a logistic regression, about ten seconds
SHARPNESS = 20.0  # of class means and ridge regressions: scores times this are log odds; tempered afterwards

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


class ShortRows:
    """Makes feature rows dense: whole or, where they are too wide for the labels, along their main directions.

    Args:
        features: [N, d], dense or CSR; rows of length one give the directions.
        labels: number of training labels: with fewer than columns, a regression needs no more than their span.
        seed: of the randomised decomposition.
    """

    def __init__(self, features: Any, labels: int, seed: int = 0):
        count, width = features.shape
        self.features, self.seed = features, seed
        self.are_whole = count * width <= MOST_NUMBERS and (labels <= 2 * REDUCED or width <= 2 * REDUCED)

    @cached_property
    def directions(self) -> np.ndarray:
        """Main directions of the rows, [d, k]."""
        return main_directions(unit_rows(self.features), REDUCED, self.seed)

    def of(self, rows: Any) -> np.ndarray:
        """Return rows of these features, however scaled, [N, d], as a dense matrix [N, k]."""
        if not self.are_whole:
            return np.asarray(rows @ self.directions, dtype=np.float32)
        return rows.toarray() if sp.issparse(rows) else np.asarray(rows)

    def unit(self) -> np.ndarray:
        """Return the rows at length one, [N, k]."""
        return self.of(unit_rows(self.features))


def main_directions(rows: Any, width: int, seed: int = 0) -> np.ndarray:
    """First right singular vectors of rows, by a randomised decomposition, float32 [d, width]."""
    svd = require("sklearn.utils.extmath", extra="data").randomized_svd
    found = svd(rows, min(width, min(rows.shape)), n_iter=3, random_state=seed)[2]
    return np.asarray(found.T, dtype=np.float32)


def representations(graph: Graph, keep: np.ndarray, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Inputs that linear teachers may use, one at a time: rows, spread rows, own and neighbours' rows side by side.

    Args:
        graph: its edges are used, its labels are not.
        keep: keep probability of each edge; edges all alike are tried as well, unless nearly all are kept.
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
    """Rows averaged over the graph, of length one, [N, d]."""
    return unit_rows(spread(rows, walk_matrix(edges, weights, len(rows))))


def neighbour_rows(rows: np.ndarray, edges: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows beside the averages over neighbours and over their neighbours, [N, 3 d]."""
    around = walk_matrix(edges, weights, len(rows), loops=False)
    once = around @ rows
    return np.hstack([rows, unit_rows(once), unit_rows(around @ once)])


def linear_teachers(classes: int, means: bool = True) -> dict[str, Fit]:
    """The fits by name. Each takes inputs of all nodes, training nodes, their labels and weights, and gives [N, C]."""
    fits: dict[str, Fit] = {f"regression, C={c:g}": _regression(c, classes) for c in PENALTIES}
    return {**fits, "class means": _class_means(classes)} if means else fits


def _regression(penalty: float, classes: int) -> Fit:
    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        return logistic_regression(inputs, train, labels, classes, penalty, weight)

    return fit


def logistic_regression(
    inputs: np.ndarray,
    train: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalty: float,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Class probabilities of all rows by a multinomial logistic regression with an L2 penalty, [N, C].

    Args:
        inputs: of all nodes, [N, d].
        train: nodes it is fitted to, [n].
        labels: their classes, [n].
        classes: number of classes C.
        penalty: C of scikit-learn, the inverse of the penalty.
        weight: of each training node, [n]; all one if left out.
    """
    weights, bias = logistic_map(inputs[train], labels, classes, penalty, weight)
    return np.asarray(softmax(inputs @ weights + bias, axis=1), dtype=np.float32)


def logistic_map(
    rows: np.ndarray, labels: np.ndarray, classes: int, penalty: float, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights [d, C] and bias [C] of a logistic regression; a class without labels gets a bias of minus infinity.

    If labels, columns and classes are so many that it would take minutes, it is a ridge regression.

    Args:
        rows: it is fitted to, [n, d].
        labels: their classes, [n].
        classes: number of classes C.
        penalty: C of scikit-learn, the inverse of the penalty.
        weight: of each row, [n]; all one if left out.
    """
    linear_model = require("sklearn.linear_model", extra="data")
    basis = None
    if len(rows) < rows.shape[1]:
        # The optimum lies in the span of the training rows: as many coordinates as labels give the same answer.
        basis = span_of(rows)
        rows = rows @ basis
    present = np.unique(labels)
    bias = np.full(classes, -np.inf, dtype=np.float32)
    width = len(basis) if basis is not None else rows.shape[1]
    weights = np.zeros((width, classes), dtype=np.float32)
    if len(present) == 1 or not rows.shape[1]:
        bias[present] = np.log(np.bincount(labels, minlength=classes)[present] / len(labels))
        return weights, bias
    if rows.size * len(present) > MOST_WORK:
        found, constants = ridge_map(rows, np.searchsorted(present, labels), len(present), penalty, weight)
        weights[:, present], bias[present] = found if basis is None else basis @ found, constants
        return weights, bias
    model = linear_model.LogisticRegression(C=penalty, max_iter=100, tol=1e-3)
    with quiet():
        model.fit(rows, labels, sample_weight=weight)
    found, constants = model.coef_, model.intercept_
    if len(present) == 2:  # one column for the odds of the second class
        found, constants = np.concatenate([np.zeros_like(found), found]), np.concatenate([[0.0], constants])
    weights[:, present] = found.T if basis is None else basis @ found.T
    bias[present] = constants
    return weights, bias


def ridge_map(
    rows: np.ndarray, labels: np.ndarray, classes: int, penalty: float, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights [d, C] and bias [C] of a ridge regression to the classes: in closed form, however many classes there are.

    Args: see :func:`logistic_map`.
    """
    weights = np.ones(len(rows)) if weight is None else weight / weight.mean()
    targets = sp.csr_matrix((weights, (labels, np.arange(len(labels)))), shape=(classes, len(labels)))  # weighted
    shares, middle = np.asarray(targets.sum(axis=1)).ravel() / len(rows), weights @ rows / len(rows)
    centred = (rows - middle).astype(np.float64)
    products = (centred * weights[:, None]).T @ centred + np.eye(rows.shape[1]) / penalty
    found = SHARPNESS * np.linalg.solve(products, (targets @ centred).T)
    return np.asarray(found, dtype=np.float32), np.asarray(SHARPNESS * shares - middle @ found, dtype=np.float32)


def span_of(rows: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the span of a few wide rows, float32 [d, k], from the products of rows with one another."""
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
    """Labels alone, spread over the graph (Zhou et al. 2004); nodes that no label reaches are undecided.

    Without weights the number of labels of a class does not count: each class starts with the same total.
    """

    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        start = np.zeros((len(inputs), classes), dtype=np.float32)
        start[train, labels] = 1 / np.bincount(labels)[labels] if weight is None else weight / weight.sum()
        found = spread(start, walk, steps, restart)
        found += 1e-6 * max(float(found.max()), 1e-6) / classes
        return normalized(found)

    return fit


class quiet:
    """Leaves warnings of scikit-learn's solvers unsaid: an early end of a teacher's fit is judged by its opinion."""

    def __enter__(self) -> None:
        import warnings

        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        self._caught.__exit__(*error)  # type: ignore[arg-type]
