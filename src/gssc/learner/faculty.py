"""The faculty, the teachers that need no epochs: which are fitted to which inputs, and how feature rows are scaled.

A teacher's opinion is its class probabilities of every node. Opinions are collected in a pool
(:class:`~gssc.learner.pool.Pool`) and ranked by held-out labels, the jury (:class:`~gssc.learner.jury.Jury`). If the
jury cross-validates, a teacher is fitted once per view: without each fold of the training labels, and with all labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gssc.data.scaling import column_spread, some_rows, usual_normalization
from gssc.features import FeatureTable, columns_on_one_scale
from gssc.graph import Features, Graph
from gssc.learner.jury import ENOUGH, some_of_each_class
from gssc.learner.linear import (
    MOST_LABELS,
    Fit,
    ShortRows,
    label_spreading,
    linear_teachers,
    representations,
    spread_rows,
)
from gssc.learner.multinomial import are_counts
from gssc.learner.normal import MOST_COLUMNS, normal_teachers
from gssc.learner.pool import Pool, Views, numbers_of, runner_up, uses_edges
from gssc.learner.student import labels_only_mlp
from gssc.learner.trees import kernel_teachers, row_columns, structure_columns, tree_teachers
from gssc.trust.labels import label_trust

CLEARLY = 2.5  # standard errors by which another scaling must be ahead of the usual one
ALIKE = 30  # times the median deviation of the columns: the largest one of a bag of words is not greater
FEWEST_COUNTS = 32  # columns; features with more may be counts, if none is negative
RESTARTS = (0.02, 0.1, 0.3)  # of label spreading; the greater, the less far labels spread
FEWEST_WRONG = 0.02  # estimated share of wrong labels above which teachers with weighted labels are fitted as well
FAR_BEHIND = 1.2  # times the errors of the best opinion: with more in a small forest, no larger ones are grown
ALL_BY_EDGES = 5  # times the errors with edges: with more without edges, training on pairs is left out
LABELS_FOR_MLP = 1000  # training labels from which an MLP on rows is a teacher
MOST_STORED = 1 << 25  # values of opinions in a checkpoint of the first phase; a resumed run computes the others again
LINEAR = "regression", "class means"  # prefixes of the names of linear opinions
NOTHING_HELD_OUT = "there are no held-out labels to compare by"
FEW = 3  # number of best opinions that get variants: averages over edges, runner-up


class Faculty:
    """Fits teachers that need no epochs and adds their opinions to a pool.

    Args:
        graph: the part of the graph that training may use.
        keep: keep probability of each edge, [E].
        pool: collects the opinions; its jury has the labels.
        normalize: scaling of rows, as in ``train.normalize``.
        seed: seed of trees and randomised decompositions.
    """

    def __init__(self, graph: Graph, keep: np.ndarray, pool: Pool, normalize: str, seed: int):
        self.graph, self.keep, self.pool, self.jury = graph, keep, pool, pool.jury
        self.normalize = normalize
        self.features = columns_on_one_scale(graph.features, normalize)  # inputs of linear teachers
        self.short = ShortRows(self.features, len(graph.train), seed)
        self.seed = seed
        self.label_weight: np.ndarray | None = None  # of each node's label, [N], once estimated
        self.label_noise = 0.0  # estimated share of wrong training labels
        self.fitted: dict[str, Views] = {}  # opinions before calibration, for resuming a run

    def choose_scaling(self) -> tuple[str, str]:
        """Return the scaling of rows for students, and the reason for it.

        With ``auto``, logistic regressions are fitted with each scaling that suits the features. The most usual scaling
        is chosen unless another one is clearly ahead on held-out labels. These regressions learn from few labels and
        the students from soft labels of all rows, so a small lead tells little about students.
        """
        if self.normalize != "auto":
            return self.normalize, "as set"
        best: dict[str, str] = {}  # name of the best opinion with each scaling
        for name in offered_scalings(self.graph.features):
            scaled = FeatureTable(self.graph.features, name).features
            by_rows = name not in ("standard", "asinh") and self.features is self.graph.features
            short = self.short if by_rows else ShortRows(scaled, len(self.graph.train), self.seed)
            inputs = short.of(scaled)
            opinions = []
            for kind, fit in linear_teachers(self.graph.num_classes, means=False).items():
                opinions.append(f"{kind} on rows ({name})")
                self.ask(opinions[-1], fit, inputs)
            best[name] = max(opinions, key=self.pool.scores.__getitem__)
        chosen = next(iter(best))
        if not len(self.jury.truth):
            return chosen, NOTHING_HELD_OUT
        for name, opinion in best.items():
            lead, error = self.jury.lead(self.pool.opinions[opinion], self.pool.opinions[best[chosen]])
            if lead > CLEARLY * error:
                chosen = name
        compared = ", ".join(f"{name} {self.pool.scores[opinion]:.3f}" for name, opinion in best.items())
        return chosen, f"held-out score of linear models on rows: {compared}"

    def linear(self) -> Iterator[str]:
        """Fit linear teachers to every representation of the rows; yield the name of the phase after each."""
        rows, all_columns = self.short.unit(), self.short.unit_of_all_columns(self.graph.num_classes)
        if all_columns is not None:
            self.ask_linear("all columns of rows", all_columns, means=False)
            yield "linear teachers"
        for name, inputs in representations(self.graph, self.keep, rows):
            self.ask_linear(name, inputs)
            if name == judging_labels(self.graph):
                weight = self.weigh_labels(inputs)
                if self.label_noise > FEWEST_WRONG:
                    self.ask_linear(f"{name}, labels weighed", inputs, weight)
            yield "linear teachers"
        if self.graph.num_edges:
            for restart in RESTARTS:
                self.ask(
                    f"labels spread over trusted edges, restart {restart:g}",
                    label_spreading(self.pool.trusted, self.graph.num_classes, restart),
                    rows,
                )
        if not self.jury.cross_validates:  # otherwise training labels, which may be wrong, would rank this opinion
            smooth = [name for name in self.pool.best(len(self.pool.opinions)) if " spread " in name]
            for name in smooth[:FEW]:
                self.pool.add(f"runner-up of {name}", runner_up(self.pool.opinions[name]))

    def ask_linear(self, name: str, inputs: Any, label_weight: np.ndarray | None = None, *, means: bool = True) -> None:
        """Fit every linear teacher to these inputs and add their opinions to the pool."""
        for kind, fit in linear_teachers(self.graph.num_classes, means).items():
            self.ask(f"{kind} on {name}", fit, inputs, label_weight)

    def weigh_labels(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """Return the probability that each training label is right, [N]; 1 for other nodes.

        Args:
            inputs: rows from which labels are predicted, [N, d]; if left out, rows averaged over trusted edges.
        """
        if self.label_weight is not None:
            return self.label_weight
        if inputs is None:
            rows = self.short.unit()
            inputs = spread_rows(rows, self.graph.edges, self.keep) if self.graph.num_edges else rows
        train, val, labels = self.graph.train, self.graph.val, self.jury.labels
        trust = label_trust(inputs[train], labels[train], inputs[val], labels[val], self.graph.num_classes, self.seed)
        self.label_weight, self.label_noise = np.ones(self.graph.num_nodes, np.float32), trust.noise_share
        self.label_weight[train] = trust.keep
        return self.label_weight

    def verdict_on_labels(self) -> str:
        """Return a sentence on the share of wrong training labels."""
        if self.label_weight is None or self.jury.cross_validates:
            return f"not judged: this needs linear teachers and {ENOUGH} validation labels"
        return f"{self.label_noise:.1%} of the training labels look wrong"

    def trees(self, scaled: np.ndarray) -> Iterator[str]:
        """Fit trees and, where they apply, Gaussian and kernel models and an MLP; yield the phase name after each.

        Args:
            scaled: rows scaled as for students, [N, d]; dense ones also get Gaussian and kernel models.
        """
        graph, labels = self.graph, min(len(self.graph.train), MOST_LABELS)
        views = len(self.jury.views)
        kinds = tree_teachers(graph.num_classes, labels, graph.num_nodes, self.seed, views)
        inputs = {"rows": row_columns(graph.features, self.short)} if kinds else {}
        if inputs and graph.num_edges and not self.jury.cross_validates:  # else this would take one fit per fold
            inputs["rows and structure"] = structure_columns(graph, inputs["rows"], self.seed)
        for name, table in inputs.items():
            grown: list[float] = []
            for kind, fit in kinds.items():
                if grown and not self.jury.cross_validates and self._far_behind(max(grown)):
                    continue  # the other kinds would hardly catch up, and boosted trees take longest
                self.ask(f"{kind} on {name}", fit, table)
                grown.append(self.pool.scores[f"{kind} on {name}"])
                yield "trees"
        if not sp.issparse(scaled):
            normal = normal_teachers(graph.num_classes) if scaled.shape[1] <= MOST_COLUMNS else {}
            for kind, fit in (normal | kernel_teachers(graph.num_classes, self.seed)).items():
                self.ask(kind, fit, scaled)
            yield "kernels"
        if labels >= LABELS_FOR_MLP and not self.jury.cross_validates:
            self.ask("MLP on rows", labels_only_mlp(graph.num_classes, self.seed), scaled)
            yield "MLP"

    def _far_behind(self, score: float) -> bool:
        """Return whether the held-out error at this score is more than 1.2 times that of the best opinion."""
        return 1 - score > FAR_BEHIND * (1 - max(self.pool.scores.values()))

    def spread_best(self, most: int) -> None:
        """Average the best opinions that do not use edges over the edges, and add the results to the pool.

        Args:
            most: number of opinions whose mean is the teacher, for pruning.
        """
        without = [name for name in self.pool.best(len(self.pool.opinions)) if not uses_edges(name)]
        for name in without[:FEW]:
            if name in self.pool.opinions:  # not pruned meanwhile
                self.pool.add_spread(name)
                self.pool.prune_if_large(most)

    def neighbours_are_alike(self) -> bool:
        """Return whether the best linear teacher averages rows over edges, which suits homophilous graphs."""
        linear = [name for name in self.pool.best(len(self.pool.opinions)) if name.startswith(LINEAR)]
        return bool(linear) and " spread over " in linear[0]

    def pairs_help(self) -> tuple[bool, str]:
        """Return whether training on pairs may help, and the reason, from the held-out scores of linear teachers.

        It may help if linear teachers are better with edges than without, but not many times better: the input of a
        network trained on pairs is a row alone, so it adds little if nearly all accuracy is due to the edges.
        """
        with_edges, without = -np.inf, -np.inf
        for name, score in self.pool.scores.items():
            if name.startswith(LINEAR):
                if uses_edges(name):
                    with_edges = max(with_edges, score)
                else:
                    without = max(without, score)
        if not np.isfinite(with_edges):
            return False, "there are no linear teachers to compare"
        scores = f"held-out score of linear teachers {with_edges:.3f} with edges, {without:.3f} without"
        errors = max(1 - with_edges, 1 / max(1, len(self.jury.truth)))  # at least one: none may be luck
        if 1 - without > ALL_BY_EDGES * errors:
            return False, f"rows alone tell too little, {scores}"
        return bool(with_edges > without), scores

    def ask(self, name: str, fit: Fit, inputs: np.ndarray, label_weight: np.ndarray | None = None) -> None:
        """Fit a teacher in each view of the training labels and add its opinion to the pool.

        Args:
            name: name of the opinion.
            fit: function that fits the teacher and returns its class probabilities.
            inputs: inputs of all nodes, [N, d].
            label_weight: weight of each node's label, [N]; all one if left out.
        """
        views = self.fitted[name] if name in self.fitted else self._views(fit, inputs, label_weight)
        self.store(name, views)
        self.pool.add(name, views)

    def store(self, name: str, views: Views) -> None:
        """Keep an uncalibrated opinion for the next checkpoint, unless the stored ones become too large."""
        if sum(map(numbers_of, self.fitted.values())) + numbers_of(views) <= MOST_STORED:
            self.fitted[name] = views

    def _views(self, fit: Fit, inputs: np.ndarray, label_weight: np.ndarray | None) -> Views:
        views: Views = ()
        for train in self.jury.views:
            rng = np.random.default_rng([self.seed, 2])
            train = train[some_of_each_class(self.jury.labels[train], MOST_LABELS, rng)]
            labels = self.jury.labels[train]
            weight = self.jury.label_weight(train) if self.jury.weighs else None
            if label_weight is not None:
                weight = label_weight[train] * (1 if weight is None else weight)
            views += (fit(inputs, train, labels, weight),)
        return views

    def state_dict(self) -> dict[str, Any]:
        """Return the stored opinions as tensors."""
        return {name: [torch.from_numpy(view) for view in views] for name, views in self.fitted.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`."""
        self.fitted = {name: tuple(view.numpy() for view in views) for name, views in state.items()}


def judging_labels(graph: Graph) -> str:
    """Return the name of the representation from which the trust in training labels is estimated."""
    return "rows spread over trusted edges" if graph.num_edges else "rows"


def offered_scalings(features: Features) -> list[str]:
    """Return the names of the scalings to compare, the most usual first; ``row`` is for many columns of counts.

    For sparse features ``standard`` comes last, and for bags of words it is left out: divided by the deviation of a
    column that is nearly always zero, a rare value is so large that it decides the prediction of an unseen row. Columns
    of very different scales are no words.
    """
    usual, deviation = usual_normalization(features), column_spread(some_rows(features))
    alike = len(deviation) == 0 or deviation.max() <= ALIKE * np.median(deviation)
    words = alike and are_counts(features)
    by_row = ["row"] if features.shape[1] > FEWEST_COUNTS and features.min() >= 0 else []
    if not sp.issparse(features) and not words:
        return list(dict.fromkeys([usual, *by_row, "standard"]))
    usual_first = [usual] if usual in ("row", "none") else []
    by_column = [] if words else ["standard"]
    return list(dict.fromkeys([*usual_first, *by_row, "none", *by_column]))
