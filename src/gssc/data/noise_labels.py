"""Label noise: training labels replaced by wrong ones; validation, test and all other labels are never touched.

Every kind first draws one number per training node, which decides whether its label flips. So with the same generator,
a higher rate flips the same nodes and more (nearly so for `instance`, whose nodes have individual rates), and two kinds
differ only in the new labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri, softmax

from gssc.errors import GsscError

if TYPE_CHECKING:
    from gssc.graph import Graph

RATE_SPREAD = 0.1  # standard deviation of the rate between instances, as in the recipe of Xia et al.


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """A graph with wrong training labels.

    Args:
        graph: the noisy graph.
        nodes: [n] nodes whose label changed, ascending.
        old, new: [n] their labels before and after.
        realised_rate: share of the training labels that changed.
    """

    graph: Graph
    nodes: np.ndarray
    old: np.ndarray
    new: np.ndarray
    realised_rate: float

    def counts(self) -> dict[str, int]:
        """Return the number of changed labels and of training labels."""
        return {"changed": len(self.nodes), "training_labels": len(self.graph.train)}


def symmetric(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Flip each training label with probability `rate`, to one of the other classes with equal probability."""

    def flipped(old: np.ndarray) -> np.ndarray:
        moves = rng.random(len(old)) < rate
        steps = rng.integers(1, graph.num_classes, size=len(old))
        return np.where(moves, (old + steps) % graph.num_classes, old)

    return _with_training_labels(graph, flipped)


def asymmetric(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Flip each training label i with probability `rate` to class (i + 1) mod C."""

    def flipped(old: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(old)) < rate, (old + 1) % graph.num_classes, old)

    return _with_training_labels(graph, flipped)


def uniform(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Redraw each training label with probability `rate` from all classes, including its own.

    A redrawn label stays the same once in C times: the expected realised rate is rate * (C - 1) / C.
    """

    def flipped(old: np.ndarray) -> np.ndarray:
        moves = rng.random(len(old)) < rate
        return np.where(moves, rng.integers(0, graph.num_classes, size=len(old)), old)

    return _with_training_labels(graph, flipped)


def instance(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Flip each training label with an individual rate, to a class that depends on the feature row of the node.

    `Part-dependent Label Noise <https://arxiv.org/abs/2006.07836>`_, the recipe of its experiments: node i flips with
    probability q_i, drawn from a normal distribution around `rate` (standard deviation 0.1), and then goes to class
    j != y_i with probability softmax(x_i W_{y_i})_j, with one random matrix W per true class. Two details differ:
    the normal is truncated at equal distances from `rate` (that of the nearer of 0 and 1) rather than at 0 and 1, so
    that the mean is `rate` even near 0 and 1; and x_i is scaled to length 1, so that units of features do not matter.
    """

    def flipped(old: np.ndarray) -> np.ndarray:
        chance, place = rng.random((2, len(old)))
        reach = ndtr(-min(rate, 1 - rate) / RATE_SPREAD)
        own_rate = rate + RATE_SPREAD * ndtri(reach + rng.random(len(old)) * (1 - 2 * reach))
        targets = old.copy()
        rows = _unit_rows(graph.features[graph.train])
        for label in range(graph.num_classes):
            projection = rng.standard_normal((graph.num_features, graph.num_classes))
            here = np.flatnonzero(old == label)
            if len(here):
                logits = np.asarray(rows[here] @ projection)
                logits[:, label] = -np.inf
                cumulative = np.cumsum(softmax(logits, axis=1), axis=1)
                passed = (cumulative <= place[here, None] * cumulative[:, -1:]).sum(axis=1)
                targets[here] = np.minimum(passed, graph.num_classes - 1)
        return np.where(chance < own_rate, targets, old)

    return _with_training_labels(graph, flipped)


def _unit_rows(rows: Any) -> Any:
    lengths = np.sqrt(np.asarray((rows.multiply(rows) if hasattr(rows, "multiply") else rows * rows).sum(axis=1)))
    scale = 1 / np.where(lengths > 0, lengths, 1).reshape(-1, 1)
    return rows.multiply(scale).tocsr() if hasattr(rows, "multiply") else rows * scale


def _with_training_labels(graph: Graph, flipped: Callable[[np.ndarray], np.ndarray]) -> LabelNoise:
    if not graph.task.has_classes:
        raise GsscError(
            f"label noise needs one class per node, but {graph.name} has {graph.num_classes} binary targets per node: "
            "use structure or feature noise there"
        )
    if not len(graph.train):
        raise GsscError(f"{graph.name} has no training labels to make noisy: give it a split first")
    if graph.num_classes < 2:
        raise GsscError(f"{graph.name} has only one class: label noise needs another one to flip to")
    old = graph.labels[graph.train]
    new = flipped(old)
    changed = new != old
    labels = graph.labels.copy()
    labels[graph.train] = new
    return LabelNoise(
        graph.with_(labels=labels), graph.train[changed], old[changed], new[changed], float(changed.mean())
    )
