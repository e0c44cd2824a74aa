"""The jury, the held-out labels that rank opinions: validation labels or, if these are few, cross-validation.

An opinion is a teacher's class probabilities of every node, [N, C]. With cross-validation there is one per view of the
training labels.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax

from gssc.calibration import PRIOR_ROWS, fit_temperature
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner.correction import corrected, correction_for, fit_shares, gain, on_one_scale

ENOUGH = 50  # validation labels; with fewer, opinions are cross-validated on training labels
MANY = 200  # judging labels from which opinions are ranked by accuracy first; with fewer, by loss first
FOLDS = 5
MOST_JUDGING = 10_000  # validation labels that rank opinions and students
LEAST_OF_CLASS = 5  # labels of a class in a sample of many labels, if it has as many
TINY = 1e-7


class Jury:
    """Scores and calibrates class probabilities of all nodes by labels that they were not fitted to.

    A view is a set of training labels that teachers are fitted to; its judging labels are held out from it. With enough
    validation labels there is one view with all training labels, and the validation labels are the judging labels. With
    fewer there is one view per fold, which holds out that fold of the training labels, and a last view with all
    training labels, whose judging labels are the few validation labels. The only label of a class is in every view and
    is never held out.

    Test labels are not among ``labels``, so they cannot be used.

    Args:
        labels: class of every node, -1 where unknown or not to be used, [N].
        train: nodes whose labels teachers are fitted to.
        val: nodes whose labels are only used for judging.
        classes: number of classes.
        class_weight: weight of each class, [C]; all one if left out.
        node_weight: weight of each node's label, [N], above zero for training and validation labels; all one if left
            out. Weights are scaled such that the mean over the training labels is one.
        rng: for the folds.

    Attributes:
        views: training nodes of each view; the last view has all of them.
        judges: nodes of the judging labels of each view.
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
        self.fit_correction = None if self.cross_validates else correction_for(len(val), classes)
        self.truth = labels[np.concatenate(self.judges)]
        self.weight = self.label_weight(np.concatenate(self.judges))

    @classmethod
    def of(cls, graph: Graph, class_weight: np.ndarray | None, node_weight: np.ndarray | None, seed: int) -> Jury:
        """Return the jury of a graph, whose judging labels are at most 10,000 of the validation labels."""
        val = some_of(graph.val, MOST_JUDGING, np.random.default_rng([seed, 5]))
        rng = np.random.default_rng([seed, 1])
        return cls(known_labels(graph), graph.train, val, graph.num_classes, class_weight, node_weight, rng)

    def label_weight(self, nodes: np.ndarray) -> np.ndarray:
        """Return the weight of each node's label: class weight times node weight, [n]."""
        return np.asarray(self.class_weight[self.labels[nodes]] * self.node_weight[nodes])

    def judged(self, views: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the probabilities of the judging nodes, each from the view that it is held out from, [n, C]."""
        return np.concatenate([view[nodes] for view, nodes in zip(views, self.judges, strict=True)])

    def score(self, views: tuple[np.ndarray, ...]) -> float:
        """Return the weighted accuracy on the judging labels; NaN if there are none."""
        if not len(self.truth):
            return float("nan")
        return float(np.average(self.judged(views).argmax(axis=1) == self.truth, weights=self.weight))

    def standard_error(self, score: float) -> float:
        """Return the standard error of a weighted accuracy on the judging labels; 0 if there are none."""
        variance = (self.weight**2).sum() / max(self.weight.sum() ** 2, TINY)  # of the mean of labels of variance one
        return float(np.sqrt(max(score * (1 - score), 0.0) * variance))

    def lead(self, views: tuple[np.ndarray, ...], others: tuple[np.ndarray, ...]) -> tuple[float, float]:
        """Return by how much one opinion's score exceeds another's, and the standard error of that difference."""
        right, other = (self.judged(opinion).argmax(axis=1) == self.truth for opinion in (views, others))
        weight = self.weight / self.weight.sum()
        ahead = right.astype(np.float64) - other
        lead = float(weight @ ahead)
        return lead, float(np.sqrt(weight**2 @ (ahead - lead) ** 2))

    def loss(self, views: tuple[np.ndarray, ...]) -> float:
        """Return the weighted mean negative log-likelihood of the judging labels; NaN if there are none."""
        return float(-self.likelihoods(views).mean()) if len(self.truth) else float("nan")

    def likelihoods(self, views: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the log-likelihood of each judging label, times its weight over the mean weight, [n]."""
        likely = self.judged(views)[np.arange(len(self.truth)), self.truth]
        return np.asarray(np.log(likely + TINY) * (self.weight / self.weight.mean()))

    def loss_of_logits(self, logits: np.ndarray) -> float:
        """Return the weighted mean negative log-likelihood for logits of the judging nodes, [n, C]."""
        likely = log_softmax(logits, axis=1)[np.arange(len(self.truth)), self.truth]
        return float(np.average(-likely, weights=self.weight))

    def merit(self, views: tuple[np.ndarray, ...]) -> tuple[float, float]:
        """Return the ranking key of an opinion, greater is better: (score, -loss); (-loss, score) with few labels."""
        score, loss = self.score(views), self.loss(views)
        return (score, -loss) if len(self.truth) >= MANY else (-loss, score)

    def decide_correction(self, views: tuple[np.ndarray, ...]) -> str:
        """Decide from one opinion whether opinions are corrected from now on, and return the reason.

        They are if the cross-validated gain in log-likelihood on the judging labels exceeds its standard error. Without
        enough validation labels there is no correction, because training labels show neither that their class shares
        differ from the graph's nor that some of them are wrong.
        """
        if self.fit_correction is None:
            return "no: too few held-out labels for the number of classes"
        usual = np.log(self.judged(self.tempered(views)) + TINY)[np.arange(len(self.truth)), self.truth]
        logs = self.judged(self._on_one_scale(views))
        gained, error = gain(self.fit_correction, logs, self.truth, usual, np.random.default_rng(0), self.weight)
        self.corrects = gained > error
        what = "class shares" if self.fit_correction is fit_shares else "confused classes"
        reason = f"of {what}: gains {gained:.3f} ± {error:.3f} of log-likelihood on labels it was not fitted to"
        return (
            f"yes, {reason}; validation scores are too high, as it is fitted to them"
            if self.corrects
            else f"no, {reason}"
        )

    def calibrated(self, views: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Return the opinion after temperature scaling or, if so decided, correction, fitted to the judging labels."""
        if not self.corrects or self.fit_correction is None:
            return self.tempered(views)
        scaled = self._on_one_scale(views)
        correction = self.fit_correction(self.judged(scaled), self.truth, self.weight, None)
        return tuple(corrected(logs, correction) for logs in scaled)

    def _on_one_scale(self, views: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        return tuple(on_one_scale(view, nodes) for view, nodes in zip(views, self.views, strict=True))

    def tempered(self, views: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Return the opinion after temperature scaling, with one temperature fitted to the judging labels."""
        logits = np.log(self.judged(views) + TINY)
        temperature = fit_temperature(logits, self.truth, PRIOR_ROWS, self.weight if self.weighs else None)
        return tuple(np.asarray(softmax(np.log(view + TINY) / temperature, axis=1), dtype=np.float32) for view in views)


def stratified_folds(labels: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """Return the fold of each label, stratified by class, [n]; -1 for the only label of a class.

    If the only label of a class were held out, no teacher could predict it, so it is in no fold.

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
    """Return class weights that give every class with a label the same total weight, [C].

    >>> balanced_weights(np.array([0, 0, 0, 1]), 3).round(3).tolist()
    [0.667, 2.0, 0.0]
    """
    counts = np.bincount(labels, minlength=classes)
    return np.where(counts > 0, len(labels) / ((counts > 0).sum() * np.maximum(counts, 1)), 0.0)


def normalized(rows: np.ndarray) -> np.ndarray:
    """Return non-negative rows, each scaled to sum to one."""
    return np.asarray(rows / np.maximum(rows.sum(axis=1, keepdims=True), TINY), dtype=np.float32)


def some_of(nodes: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the nodes, or a sorted random sample of ``most`` of them if there are more.

    Judging labels are sampled like this: with more labels of rare classes, the wrong opinions would be ahead.
    """
    return nodes if len(nodes) <= most else np.sort(rng.choice(nodes, most, replace=False))


def some_of_each_class(labels: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the sorted places of all labels or, if there are more than ``most``, of at most as many, by class.

    Each class has its share in the sample, but at least five labels or all that it has; with so many classes that this
    would take a tenth of the sample, at least one label.

    >>> some_of_each_class(np.array([0] * 1000 + [1] * 2), 500, np.random.default_rng(0))[-3:] >= 1000
    array([False,  True,  True])
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    least = LEAST_OF_CLASS if 10 * LEAST_OF_CLASS * len(counts) <= most else 1
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)  # of each label in its class
    turn = (place + 0.5) / np.repeat(counts, counts)
    turn[place < least] = -1  # before all others
    return np.sort(order[np.argsort(turn, kind="stable")[:most]])


def with_weighty_labels(graph: Graph, weight: np.ndarray) -> Graph:
    """Return the graph without training and validation nodes whose label has weight zero; ``weight`` is [N]."""
    train, val = (part[weight[part] > 0] for part in (graph.train, graph.val))
    if not len(train):
        raise GsscError("every training label has weight zero: give some of them a weight above zero")
    fewer = len(train) < len(graph.train) or len(val) < len(graph.val)
    return graph.with_(train=train, val=val) if fewer else graph


def known_labels(graph: Graph) -> np.ndarray:
    """Return the labels of training and validation nodes, and -1 for all others, so that no test label is used."""
    labels = np.full(graph.num_nodes, -1, dtype=np.int64)
    known = np.concatenate([graph.train, graph.val])
    labels[known] = graph.labels[known]
    return labels
