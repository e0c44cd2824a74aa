"""Held-out labels, which judge opinions: validation labels or, if these are few, folds of the training labels."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax

from gssc.calibration import PRIOR_ROWS, fit_temperature
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner.correction import corrected, enough_labels, fit_correction, gain, on_one_scale

ENOUGH = 50  # validation labels that are enough to choose by
MANY = 200  # labels from which accuracy is a finer measure than the loss of a few
FOLDS = 5
TINY = 1e-7


class Jury:
    """Judges class probabilities of all nodes by labels that they were not fitted to.

    With enough validation labels there is one view of the training labels, all of them, and validation nodes judge.
    With fewer, there are views that each leave out one fold of the training labels, which then judges; the last view
    has every training label, and the validation nodes there are judge it, too. The only label of a class is in every
    view and judges none.

    Test labels are out of reach: they are not among ``labels``.

    Args:
        labels: class of every node, -1 where unknown or not to be seen, [N].
        train: nodes whose labels opinions are formed from.
        val: nodes whose labels only judge.
        classes: number of classes.
        class_weight: weight of each class, [C]; all one if left out.
        node_weight: weight of each node's label, [N], above zero where labels teach or judge; all one if left out.
            Their scale does not matter: training labels get a mean weight of one.
        rng: for the folds.

    Attributes:
        views: training nodes of each view, the last of which are all.
        judges: for each view, the nodes that judge it.
    """

    def __init__(
        self,
        labels: np.ndarray,
        train: np.ndarray,
        val: np.ndarray,
        classes: int,
        class_weight: np.ndarray | None = None,
        node_weight: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ):
        self.labels, self.classes = labels, classes
        self.weighs = class_weight is not None or node_weight is not None
        self.class_weight = np.ones(classes) if class_weight is None else np.asarray(class_weight, dtype=np.float64)
        self.node_weight = np.ones(len(labels)) if node_weight is None else np.asarray(node_weight, dtype=np.float64)
        if self.weighs:
            self.node_weight = self.node_weight / self.label_weight(train).mean()
        self.cross_validates = len(val) < ENOUGH
        self.views, self.judges = [train], [val]
        if self.cross_validates and len(train) > 1:
            folds = stratified_folds(labels[train], FOLDS, rng or np.random.default_rng(0))
            parts = [train[folds == fold] for fold in range(FOLDS) if (folds == fold).any()]
            self.views = [*(np.setdiff1d(train, part) for part in parts), train]
            self.judges = [*parts, val]
        self.corrects = False  # whether opinions are corrected, see decide_correction
        self.truth = labels[np.concatenate(self.judges)]
        self.weight = self.label_weight(np.concatenate(self.judges))

    def label_weight(self, nodes: np.ndarray) -> np.ndarray:
        """Weight of the labels of nodes, by their classes and their own weights, [n]."""
        return np.asarray(self.class_weight[self.labels[nodes]] * self.node_weight[nodes])

    def judged(self, views: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return probabilities of the judging nodes, each from the view that it judges, [n, C]."""
        return np.concatenate([view[nodes] for view, nodes in zip(views, self.judges, strict=True)])

    def score(self, views: tuple[np.ndarray, ...]) -> float:
        """Return the weighted share of judging labels that are predicted right; NaN if there are none."""
        if not len(self.truth):
            return float("nan")
        return float(np.average(self.judged(views).argmax(axis=1) == self.truth, weights=self.weight))

    def standard_error(self, score: float) -> float:
        """Standard error of a score, by the number of judging labels."""
        return float(np.sqrt(max(score * (1 - score), 0.0) / max(len(self.truth), 1)))

    def loss(self, views: tuple[np.ndarray, ...]) -> float:
        """Return the weighted mean negative log-likelihood of the judging labels; NaN if there are none."""
        return float(-self.likelihoods(views).mean()) if len(self.truth) else float("nan")

    def likelihoods(self, views: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the log-likelihood of each judging label, times its weight over the mean weight, [n]."""
        likely = self.judged(views)[np.arange(len(self.truth)), self.truth]
        return np.asarray(np.log(likely + TINY) * (self.weight / self.weight.mean()))

    def loss_of_logits(self, logits: np.ndarray) -> float:
        """The same for logits of the judging nodes, [n, C]."""
        likely = log_softmax(logits, axis=1)[np.arange(len(self.truth)), self.truth]
        return float(np.average(-likely, weights=self.weight))

    def merit(self, views: tuple[np.ndarray, ...]) -> tuple[float, float]:
        """Return what opinions are ranked by, greater is better: score, then loss; with few labels loss, then score."""
        score, loss = self.score(views), self.loss(views)
        return (score, -loss) if len(self.truth) >= MANY else (-loss, score)

    def decide_correction(self, views: tuple[np.ndarray, ...]) -> str:
        """Decide whether opinions are corrected from now on, by what it would gain this one; returns the reason.

        It takes many judging labels, and a gain of more than a standard error on labels that the correction was not
        fitted to: then the labels that opinions were formed from mistake classes, or have other shares of them.
        """
        if len(self.truth) < MANY or not enough_labels(len(self.truth), self.classes):
            return "no: too few held-out labels for the number of classes"
        usual = np.log(self.judged(self.tempered(views)) + TINY)[np.arange(len(self.truth)), self.truth]
        gained, error = gain(
            self.judged(self._on_one_scale(views)), self.truth, usual, np.random.default_rng(0), self.weight
        )
        self.corrects = gained > error
        verb = "yes" if self.corrects else "no"
        return f"{verb}: gains {gained:.3f} ± {error:.3f} of log-likelihood on labels it was not fitted to"

    def calibrated(self, views: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Return opinions with one temperature or, if so decided, with a correction, fitted to the judging labels."""
        if not self.corrects:
            return self.tempered(views)
        scaled = self._on_one_scale(views)
        correction = fit_correction(self.judged(scaled), self.truth, self.weight)
        return tuple(corrected(logs, correction) for logs in scaled)

    def _on_one_scale(self, views: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        return tuple(on_one_scale(view, nodes) for view, nodes in zip(views, self.views, strict=True))

    def tempered(self, views: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Return opinions with their confidence calibrated: one temperature, fitted to the judging labels."""
        logits = np.log(self.judged(views) + TINY)
        temperature = fit_temperature(logits, self.truth, PRIOR_ROWS, self.weight if self.weighs else None)
        return tuple(np.asarray(softmax(np.log(view + TINY) / temperature, axis=1), dtype=np.float32) for view in views)


def stratified_folds(labels: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """Fold of each label, the labels of every class dealt out evenly, [n]; -1 for the only label of a class.

    If a class had no label left to learn from, every opinion of the one that is held out would be wrong.

    >>> folds = stratified_folds(np.array([0, 0, 1, 1, 2]), 2, np.random.default_rng(0))
    >>> sorted(folds[:2].tolist()), sorted(folds[2:4].tolist()), folds[4].item()
    ([0, 1], [0, 1], -1)
    """
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % folds
    fold[np.bincount(labels)[labels] == 1] = -1
    return fold


def balanced_weights(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return class weights under which every class that has a label counts alike, [C].

    >>> balanced_weights(np.array([0, 0, 0, 1]), 3).round(3).tolist()
    [0.667, 2.0, 0.0]
    """
    counts = np.bincount(labels, minlength=classes)
    return np.where(counts > 0, len(labels) / ((counts > 0).sum() * np.maximum(counts, 1)), 0.0)


def normalized(rows: np.ndarray) -> np.ndarray:
    """Rows of non-negative numbers scaled to sum to one."""
    return np.asarray(rows / np.maximum(rows.sum(axis=1, keepdims=True), TINY), dtype=np.float32)


def some_of(nodes: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return nodes, or a sorted sample if they are more than the most."""
    if len(nodes) <= most:
        return nodes
    return np.sort(np.random.default_rng([seed, 5]).choice(nodes, most, replace=False))


def with_weighty_labels(graph: Graph, weight: np.ndarray) -> Graph:
    """Return the graph with the training and validation nodes whose labels have a weight above zero, of weights [N]."""
    train, val = (part[weight[part] > 0] for part in (graph.train, graph.val))
    if not len(train):
        raise GsscError("every training label has weight zero: give some of them a weight above zero")
    fewer = len(train) < len(graph.train) or len(val) < len(graph.val)
    return graph.with_(train=train, val=val) if fewer else graph


def known_labels(graph: Graph) -> np.ndarray:
    """Labels of training and validation nodes; -1 everywhere else, so that no test label can influence anything."""
    labels = np.full(graph.num_nodes, -1, dtype=np.int64)
    known = np.concatenate([graph.train, graph.val])
    labels[known] = graph.labels[known]
    return labels
