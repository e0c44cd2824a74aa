"""Non-linear teachers, for heterophilous graphs and tables: forests, boosted trees, kernel regressions, an MLP."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.extras import require, sklearn_seed
from gssc.graph import Graph
from gssc.learner.jury import some_of_each_class
from gssc.learner.linear import Fit, ShortRows, logistic_regression, main_directions, quiet
from gssc.trust.spreading import walk_matrix

DIRECTIONS = 64  # singular vectors of the adjacency and of the features
TREES = 200
SMALL = 4  # the small forest has this many times fewer trees
LABELS_FOR_ALL_TREES = 2000  # with more training labels there are fewer trees
FEWEST_TREES = 10
TREE_WORK = 2_500_000  # maximum of trees times labels times classes; sets the number of trees
LABELS_FOR_BOOSTING = 100
BOOSTING_WORK = 1_000_000  # rows times classes times fits above which boosted trees are left out
KERNEL_POINTS = 300
KERNEL_LABELS = 5000  # maximum for kernel regressions and scikit-learn's MLP; a sample if there are more
NARROW = 256  # columns; wider features are reduced to singular vectors


def row_columns(features: Any, short: ShortRows) -> np.ndarray:
    """Return feature rows for trees: as they are if narrow, else projected to leading singular vectors, [N, k]."""
    if features.shape[1] <= NARROW:
        return features.toarray() if sp.issparse(features) else np.asarray(features, dtype=np.float32)
    return np.asarray(short.features @ short.directions[:, :DIRECTIONS], dtype=np.float32)


def structure_columns(graph: Graph, rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return columns for trees that describe each node's row and its position in the graph, [N, k].

    These are singular vectors of the normalised adjacency, the rows, their mean over neighbours, log degree, and the
    number of features that are not zero.
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
    """Return the fit functions of forests and, with enough labels and not too many rows and classes, boosted trees.

    With very many labels and classes there are none, since even a few trees would take long.

    With one fit per forest the first is a small one, which shows at little cost whether trees suit the problem at all.

    Args:
        classes: number of classes.
        labels: number of training labels.
        rows: number of rows to predict.
        seed: seed of the trees.
        views: number of fits per forest. With several (cross-validation, few labels) each has half as many trees, with
            at least one label per leaf instead of two.
    """
    ensemble = require("sklearn.ensemble", extra="data")
    trees = TREES if labels <= LABELS_FOR_ALL_TREES else max(50, TREES * LABELS_FOR_ALL_TREES // labels)
    most = TREE_WORK // (labels * classes)
    if SMALL * most < FEWEST_TREES:
        return {}
    trees = min(trees, max(FEWEST_TREES, most))
    trees, leaf = (trees, 2) if views == 1 else (max(1, trees // 2), 1)
    grown = {"min_samples_leaf": leaf, "random_state": sklearn_seed(seed)}
    found = {}
    if views == 1:
        few = max(1, trees // SMALL)
        found["small forest"] = sklearn_fit(lambda: ensemble.RandomForestClassifier(few, **grown), classes)
    found["forest"] = sklearn_fit(lambda: ensemble.RandomForestClassifier(trees, **grown), classes)
    found["extra trees"] = sklearn_fit(lambda: ensemble.ExtraTreesClassifier(trees, **grown), classes)
    if labels >= LABELS_FOR_BOOSTING and rows * classes * views <= BOOSTING_WORK:
        found["boosted trees"] = sklearn_fit(
            lambda: ensemble.HistGradientBoostingClassifier(
                max_iter=100,
                learning_rate=0.08,
                max_leaf_nodes=15,
                early_stopping=False,
                random_state=sklearn_seed(seed),
            ),
            classes,
        )
    return found


def kernel_teachers(classes: int, seed: int) -> dict[str, Fit]:
    """Return the fit functions of Gaussian kernel regressions and an MLP, for dense columns on one scale."""
    approximation = require("sklearn.kernel_approximation", extra="data")

    def fit_with(penalty: float, scale: float) -> Fit:
        def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
            train, labels, weight = some_labels(train, labels, weight, seed)
            points = min(KERNEL_POINTS, len(train))
            kernel = approximation.Nystroem(
                gamma=scale / inputs.shape[1], n_components=points, random_state=sklearn_seed(seed)
            )
            with quiet():
                kernel.fit(inputs[train])
                mapped = np.asarray(kernel.transform(inputs), dtype=np.float32)
            return logistic_regression(mapped, train, labels, classes, penalty, weight)

        return fit

    mlp = require("sklearn.neural_network", extra="data").MLPClassifier
    plain = sklearn_fit(
        lambda: mlp(early_stopping=False, max_iter=300, alpha=1e-3, random_state=sklearn_seed(seed)), classes
    )

    def net(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
        return plain(inputs, *some_labels(train, labels, weight, seed))

    return {"scikit-learn MLP": net} | {
        f"kernel regression, C={c:g}, scale {s:g}": fit_with(c, s) for c in (1.0, 10.0, 100.0) for s in (0.3, 1.0)
    }


def some_labels(
    train: np.ndarray, labels: np.ndarray, weight: np.ndarray | None, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return training nodes, labels and weights, or a sample of about KERNEL_LABELS if there are more."""
    some = some_of_each_class(labels, KERNEL_LABELS, np.random.default_rng(seed))
    return train[some], labels[some], None if weight is None else weight[some]


def sklearn_fit(make: Any, classes: int) -> Fit:
    """Return the fit function of a scikit-learn classifier; ``make`` returns a new, unfitted one."""

    def fit(inputs: np.ndarray, train: np.ndarray, labels: np.ndarray, weight: Any = None) -> np.ndarray:
        found = np.zeros((len(inputs), classes), dtype=np.float32)
        known = np.unique(labels)
        if len(known) == 1:  # some scikit-learn models refuse a single class
            found[:, known] = 1.0
            return found
        model = make()
        with quiet():
            model.fit(inputs[train], labels, sample_weight=weight)
            found[:, model.classes_] = model.predict_proba(inputs)
        return found

    return fit
