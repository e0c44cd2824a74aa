"""Teachers for graphs whose edges join unlike nodes, and for tables: forests and boosted trees, kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.extras import require
from gssc.graph import Graph
from gssc.learner.linear import Fit, ShortRows, logistic_regression, main_directions, quiet
from gssc.learner.spreading import walk_matrix

DIRECTIONS = 64  # singular vectors of the adjacency and of the features
TREES = 200
LABELS_FOR_ALL_TREES = 2000  # with more training labels there are fewer trees
FEWEST_TREES = 10
TREE_WORK = 2_500_000  # trees times labels times classes, beyond which there are fewer trees
LABELS_FOR_BOOSTING = 100
BOOSTING_WORK = 1_000_000  # rows times classes, beyond which no trees are boosted
KERNEL_POINTS = 300
KERNEL_LABELS = 5000  # that kernel regressions and scikit-learn's MLP are fitted to
NARROW = 256  # columns of dense features that are taken as they are


def row_columns(features: Any, short: ShortRows) -> np.ndarray:
    """Feature rows as columns a tree can split on: as they are if narrow, else along their main directions, [N, k]."""
    if features.shape[1] <= NARROW:
        return features.toarray() if sp.issparse(features) else np.asarray(features, dtype=np.float32)
    return np.asarray(short.features @ short.directions[:, :DIRECTIONS], dtype=np.float32)


def structure_columns(graph: Graph, rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """What a tree can know of a node's place in the graph beside its own columns, [N, k].

    Singular vectors of the normalised adjacency, the rows, their mean over neighbours, log degree, and the number of
    features that are not zero.
    """
    degree = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes).astype(np.float32)
    ones = np.ones(graph.num_edges, dtype=np.float32)
    walk = walk_matrix(graph.edges, ones, graph.num_nodes, loops=False)
    around = sp.csr_matrix((np.ones_like(walk.data), walk.indices, walk.indptr), shape=walk.shape)
    mean = (around @ rows) / np.maximum(degree, 1)[:, None]
    features: Any = graph.features
    filled = np.diff(features.indptr) if sp.issparse(features) else np.count_nonzero(features, axis=1)
    directions = main_directions(walk, min(DIRECTIONS, max(1, graph.num_nodes - 1)), seed)
    positions = walk @ directions
    return np.column_stack([positions, rows, mean, np.log1p(degree), filled]).astype(np.float32)


def tree_teachers(classes: int, labels: int, rows: int, seed: int, views: int = 1) -> dict[str, Fit]:
    """Forests, and boosted trees where there are labels enough and not too many rows and classes, by name.

    Args:
        classes: number of classes.
        labels: number of training labels.
        rows: number of rows that predictions are made for.
        seed: of the trees.
        views: how often each forest is grown; with several, as where labels are few, each has half of the trees, with
            leaves of one label.
    """
    ensemble = require("sklearn.ensemble", extra="data")
    trees = TREES if labels <= LABELS_FOR_ALL_TREES else max(50, TREES * LABELS_FOR_ALL_TREES // labels)
    trees = min(trees, max(FEWEST_TREES, TREE_WORK // (labels * classes)))
    trees, leaf = (trees, 2) if views == 1 else (max(1, trees // 2), 1)
    grown = {"min_samples_leaf": leaf, "random_state": seed}
    found = {
        "forest": sklearn_fit(lambda: ensemble.RandomForestClassifier(trees, **grown), classes),
        "extra trees": sklearn_fit(lambda: ensemble.ExtraTreesClassifier(trees, **grown), classes),
    }
    if labels >= LABELS_FOR_BOOSTING and rows * classes <= BOOSTING_WORK:
        found["boosted trees"] = sklearn_fit(
            lambda: ensemble.HistGradientBoostingClassifier(
                max_iter=100, learning_rate=0.08, max_leaf_nodes=15, early_stopping=False, random_state=seed
            ),
            classes,
        )
    return found


def kernel_teachers(classes: int, seed: int) -> dict[str, Fit]:
    """Logistic regressions in the space of a Gaussian kernel, and an MLP, for dense columns on one scale."""
    approximation = require("sklearn.kernel_approximation", extra="data")

    def fit_with(penalty: float, scale: float) -> Fit:
        def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
            train, labels, weight = some_labels(train, labels, weight, seed)
            points = min(KERNEL_POINTS, len(train))
            kernel = approximation.Nystroem(gamma=scale / inputs.shape[1], n_components=points, random_state=seed)
            with quiet():
                kernel.fit(inputs[train])
                mapped = np.asarray(kernel.transform(inputs), dtype=np.float32)
            return logistic_regression(mapped, train, labels, classes, penalty, weight)

        return fit

    mlp = require("sklearn.neural_network", extra="data").MLPClassifier
    plain = sklearn_fit(lambda: mlp(early_stopping=False, max_iter=300, alpha=1e-3, random_state=seed), classes)

    def net(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
        return plain(inputs, *some_labels(train, labels, weight, seed))

    return {"labels-only MLP": net} | {
        f"kernel regression, C={c:g}, scale {s:g}": fit_with(c, s) for c in (1.0, 10.0, 100.0) for s in (0.3, 1.0)
    }


def some_labels(
    train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return training nodes, labels and weights, or a sample if they are too many for kernels."""
    if len(train) <= KERNEL_LABELS:
        return train, labels, weight
    some = np.random.default_rng(seed).choice(len(train), KERNEL_LABELS, replace=False)
    return train[some], labels[some], None if weight is None else weight[some]


def sklearn_fit(make: Any, classes: int) -> Fit:
    """Return the fit of a classifier of scikit-learn, of which ``make`` returns a new one."""

    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
        found = np.zeros((len(inputs), classes), dtype=np.float32)
        known = np.unique(labels)
        if len(known) == 1:  # there is nothing to learn, and not every model of scikit-learn takes it
            found[:, known] = 1.0
            return found
        model = make()
        with quiet():
            model.fit(inputs[train], labels, sample_weight=weight)
            found[:, model.classes_] = model.predict_proba(inputs)
        return found

    return fit
