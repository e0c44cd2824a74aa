"""Label noise: training labels turned into wrong ones; validation, test and all other labels are never touched.

Every kind draws one number a training node to say whether its label flips, and does so before anything else. So with
the same generator a higher rate flips the same nodes and more (nearly so for `instance`, whose nodes have rates of
their own), and two kinds differ in where labels go.
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
        """How many labels changed, of how many."""
        return {"changed": len(self.nodes), "training_labels": len(self.graph.train)}


def symmetric(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Each training label moves with probability `rate`, to any one of the other classes alike."""

    def flipped(old: np.ndarray) -> np.ndarray:
        moves = rng.random(len(old)) < rate
        steps = rng.integers(1, graph.num_classes, size=len(old))
        return np.where(moves, (old + steps) % graph.num_classes, old)

    return _with_training_labels(graph, flipped)


def asymmetric(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Each training label i moves with probability `rate` to class (i + 1) mod C."""

    def flipped(old: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(old)) < rate, (old + 1) % graph.num_classes, old)

    return _with_training_labels(graph, flipped)


def uniform(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Each training label is drawn anew with probability `rate`, from all classes, its own among them.

    A label drawn anew stays as it was once in C times: the expected realised rate is rate * (C - 1) / C.
    """

    def flipped(old: np.ndarray) -> np.ndarray:
        moves = rng.random(len(old)) < rate
        return np.where(moves, rng.integers(0, graph.num_classes, size=len(old)), old)

    return _with_training_labels(graph, flipped)


def instance(graph: Graph, rate: float, rng: np.random.Generator) -> LabelNoise:
    """Each training node has a flip rate of its own, and its feature row decides where its label is likely to go.

    `Part-dependent Label Noise <https://arxiv.org/abs/2006.07836>`_, the recipe of its experiments: node i flips with
    probability q_i, drawn from a normal distribution around `rate` (standard deviation 0.1), and then goes to class
    j != y_i with probability softmax(x_i W_{y_i})_j, with one random matrix W a true class. Two things are ours: the
    normal is cut off at equal distances from `rate` (where the nearer of 0 and 1 lies) rather than at 0 and 1, so that
    the mean is `rate` even at its ends; and x_i is scaled to length 1, so that units of the features do not matter.
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
    if graph.is_multilabel:
        raise GsscError(
            f"label noise needs one class a node, but {graph.name} has {graph.num_classes} binary targets a node: "
            "use structure or feature noise there"
        )
    if not len(graph.train):
        raise GsscError(f"{graph.name} has no training labels to make noisy: give it a split first")
    if graph.num_classes < 2:
        raise GsscError(f"{graph.name} has one class only: label noise needs another one to flip to")
    old = graph.labels[graph.train]
    new = flipped(old)
    changed = new != old
    labels = graph.labels.copy()
    labels[graph.train] = new
    return LabelNoise(
        graph.with_(labels=labels), graph.train[changed], old[changed], new[changed], float(changed.mean())
    )
