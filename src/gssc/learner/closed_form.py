"""Training of linear models in closed form: one fit per step; the fit with the best validation score is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import log_softmax, softmax

from gssc.calibration import PRIOR_ROWS, fit_temperature
from gssc.config import RivalConfig
from gssc.data.scaling import mean_length
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.extras import require
from gssc.features import FeatureTable
from gssc.graph import Graph
from gssc.learner.linear import (
    MOST_NUMBERS,
    REDUCED,
    logistic_map,
    main_directions,
    neighbour_rows,
    spread_rows,
)
from gssc.models.registry import model_entry
from gssc.sparsify.registry import sparsifier_class
from gssc.train.checkpoint import State
from gssc.train.process import computing
from gssc.train.registry import training_way
from gssc.train.training import Judge, NeedsGraph, Outcome, Step, Training, deployed_mlp, scored
from gssc.trust.sketch import unit_rows

PENALTIES = (0.1, 1.0, 10.0, 100.0)  # C of the regressions; the last may be best with many labels
USUAL_PENALTY = 1.0  # without validation labels to compare by
RIDGES = (0.3, 1.0, 3.0, 10.0)  # penalties of the student, for rows of mean length one
LOWEST = -30.0  # logit of a class that has no training label
SURE = 0.99  # probability of the given class in the soft label of a training node


class ClosedFormTraining(Training):
    """Fits logistic regressions or, for a student, ridge regressions to the soft labels of the best of them.

    Each step is one fit: one per kind of inputs and penalty or, for a student, one per ridge penalty. The fit with the
    best validation score is kept. In the inductive and cold-start settings the ridge penalty is chosen on validation
    rows that were held out from the fit, and the student is then fitted again to all rows.

    Args:
        graph: the problem, with one class per node.
        config: all settings.
    """

    config: RivalConfig

    def __init__(self, graph: Graph, config: RivalConfig):
        super().__init__(graph, config)
        name, settings = config.model.name, config.sparsifier
        training_way(name, settings.name)  # refuses a sparsifier that would have to learn
        if not self.task.has_classes:
            raise GsscError(f"{name} needs one class per node; for several targets use model str_contrast")
        self.kind = model_entry(name).load()
        compared = PENALTIES if len(graph.val) else (USUAL_PENALTY,)
        self.penalties = (config.model.penalty,) if config.model.penalty else compared
        self.fitted: State = {}  # weights of the latest fit
        with computing(config.train.threads), torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            self.table = FeatureTable(self.seen.features, config.train.normalize)
            self.scaling = self.table.scaling
            edges = torch.from_numpy(self.seen.edges)
            self.sparsifier = sparsifier_class(settings.name)(self.table.all(), edges, settings, self.rng)
            self.sampled = self.sparsifier.sample(self.rng).detach().numpy()
            self.directions = self._main_directions()
        weighed = self.sparsifier.edges.numpy()
        self.judge = Judge(self.task, self.seen.labels, weighed, self.seen.train, self.seen.val, self.seen.test)

    def steps(self) -> Iterator[Step]:
        """Yield one step per fit."""
        kept = np.flatnonzero(self.sampled > 0)
        for place, (fitted, scores) in enumerate(self._fits()):
            if place >= self.epoch:
                self.fitted = fitted
                yield Step("student" if self.kind.student else "linear", torch.from_numpy(scores), kept)

    def _fits(self) -> Iterator[tuple[State, np.ndarray]]:
        if self.kind.student:
            yield from self._students(self._teacher())
            return
        for inputs in self.kind.inputs:
            yield from self._regressions(inputs)

    def _regressions(self, inputs: str) -> Iterator[tuple[State, np.ndarray]]:
        """Yield, per penalty, the weights of a logistic regression and its logits for every seen node.

        Rows are first scaled to a mean length of one, which the penalties are meant for. Rows divided by their sums are
        so short that any of the penalties would outweigh the labels.
        """
        seen = self.seen
        rows = self._inputs(inputs, seen, self.sparsifier.edges.numpy(), self.sampled)
        scale = 1 / mean_length(rows)
        chosen = rows[seen.train] * scale
        if sp.issparse(chosen) and np.prod(chosen.shape) <= MOST_NUMBERS:
            chosen = chosen.toarray()
        for penalty in self.penalties:
            weights, bias = logistic_map(chosen, seen.labels[seen.train], seen.num_classes, penalty)
            weights, bias = weights * scale, np.maximum(bias, LOWEST)
            yield {"weights": weights, "bias": bias, "inputs": inputs}, rows @ weights + bias

    def _teacher(self) -> np.ndarray:
        """Return the soft labels of the best regression; a training node gets 0.99 for its given class."""
        val, truth = self.seen.val, self.seen.labels[self.seen.val]
        every = [logits for inputs in self.kind.inputs for _, logits in self._regressions(inputs)]
        best = every[-1]
        if len(val):
            best = max(every, key=lambda logits: self.task.score(logits[val], truth))
        soft = softmax(best / fit_temperature(best[val], truth, PRIOR_ROWS), axis=1)
        given = np.eye(self.seen.num_classes)[self.seen.labels[self.seen.train]]
        soft[self.seen.train] = SURE * given + (1 - SURE) * soft[self.seen.train]
        return np.asarray(soft)

    def _students(self, soft: np.ndarray) -> Iterator[tuple[State, np.ndarray]]:
        """Yield ridge regressions of the soft labels on scaled rows; a fitted temperature turns scores into logits."""
        ridge = require("sklearn.linear_model", extra="data").Ridge
        rows, val = self._rows(), self.seen.val
        scale = 1 / mean_length(rows)
        taught = np.arange(len(soft))
        held_out = self.graph.setting != "transductive" and len(val) > 0
        if held_out:
            taught = np.setdiff1d(taught, val)
        for penalty in RIDGES:
            model = ridge(alpha=penalty, solver="sparse_cg" if sp.issparse(rows) else "auto", random_state=0)
            model.fit(rows[taught] * scale, soft[taught])
            scores = np.asarray(model.predict(rows * scale))
            factor = 1 / fit_temperature(scores[val], self.seen.labels[val], PRIOR_ROWS)
            if held_out:
                model.fit(rows * scale, soft)
            weights, bias = scale * factor * model.coef_.T, factor * model.intercept_
            yield {"weights": weights, "bias": bias, "inputs": "scaled"}, log_softmax(factor * scores, axis=1)

    def _main_directions(self) -> np.ndarray | None:
        """Return the singular vectors that a large feature matrix is reduced to, [d, k]; None if it is used whole."""
        if self.seen.num_nodes * self.seen.num_features <= MOST_NUMBERS:
            return None
        return main_directions(unit_rows(self.seen.features), REDUCED, self.config.train.seed)

    def _rows(self) -> Any:
        """Return scaled rows, dense or CSR, [N, d]."""
        return self.table.features

    def _inputs(self, inputs: str, graph: Graph, edges: np.ndarray, weights: np.ndarray) -> Any:
        if inputs == "scaled" or (inputs == "rows" and not self.kind.student):
            return self._rows() if graph is self.seen else FeatureTable(graph.features, self.scaling).features
        rows: Any = unit_rows(graph.features)
        rows = rows if self.directions is None else rows @ self.directions
        rows = rows.toarray() if sp.issparse(rows) else rows
        if inputs == "rows":
            return rows
        return (spread_rows if inputs == "spread" else neighbour_rows)(rows, edges, weights)

    def components(self) -> dict[str, Any]:
        """Return no components: the counters are the whole state."""
        return {}

    def kept_weights(self) -> State:
        """Return the weights, bias and kind of inputs of the latest fit."""
        parts = {name: torch.from_numpy(np.ascontiguousarray(self.fitted[name])) for name in ("weights", "bias")}
        return {**parts, "inputs": self.fitted["inputs"]}

    def restore_best(self, weights: State) -> None:
        """Restore the weights and bias of the kept fit."""
        self.fitted = {**weights, "weights": weights["weights"].numpy(), "bias": weights["bias"].numpy()}

    def outcome(self) -> Outcome:
        """Return the scores of every node, with the edges that the setting of the graph allows."""
        graph, seen = self.graph, self.seen
        nodes = torch.arange(seen.num_nodes)
        edges, weights = self.sparsifier.settle(self.table.all(), torch.from_numpy(seen.edges), nodes)
        kept = int((weights > 0).sum())
        if graph.setting != "transductive":
            rows = FeatureTable(graph.features, self.scaling).all()
            joined = torch.from_numpy(graph.evaluation_edges())
            edges, weights = self.sparsifier.settle(rows, joined, torch.from_numpy(self.seen_nodes))
        whole = seen if graph.setting == "transductive" else graph
        rows = self._inputs(self.fitted["inputs"], whole, edges.numpy(), weights.numpy())
        scores = np.asarray(rows @ self.fitted["weights"] + self.fitted["bias"], dtype=np.float32)
        return Outcome(
            kept=scored(self.kept(), self.task, graph, scores),
            scores=scores,
            seconds=self.seconds,
            epochs=self.epoch,
            edges_kept=kept,
            edges_total=seen.num_edges,
        )

    def deployed(self) -> DeployedModel:
        """Return the linear model of single rows; raises NeedsGraph if it averages over neighbours."""
        if self.kind.passes_messages:
            raise NeedsGraph(
                f"{self.config.model.name} averages over neighbours: it cannot be deployed without a graph"
            )
        layer = self.fitted["weights"].T.astype(np.float32), self.fitted["bias"].astype(np.float32)
        return deployed_mlp(self.graph, [layer], "relu", self.scaling)

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges and the keep probability of each, which is one without a sparsifier."""
        return self.seen_nodes[self.sparsifier.edges.numpy()], self.sparsifier.keep_probability().numpy()
