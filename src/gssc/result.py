"""The result of a finished training, and fit(graph), which trains in memory and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import softmax

from gssc.calibration import GREATEST, LEAST, PRIOR_ROWS, expected_calibration_error, fit_temperature
from gssc.config import DEFAULT_MODEL, RunConfig, parse_config
from gssc.data.scaling import column_spread, some_rows
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.train.registry import training_for
from gssc.train.training import Epoch, NeedsGraph, Outcome, Training

__all__ = ["Result", "finished", "fit", "make_training"]

UNLIKE = 100.0  # ratio of the largest to the smallest standard deviation of columns from which a note is added
CALIBRATED = 200_000  # validation and test nodes used for calibration, each at most twice this number
SAME_TRUST = 0.01  # keep probabilities closer than this count as equal


@dataclass(repr=False)
class Result:
    """A finished training.

    Args:
        training: the training, with the weights of the kept epoch in place.
        history: one record per epoch.
        label_weight: weight of each node's label, [N], in calibration; all one if left out. Weights of classes do not
            belong here: probabilities are calibrated for the class frequencies of the data.

    Attributes:
        outcome: the kept epoch, scores, seconds and edges.
        calibration: temperature, and calibration errors of test nodes before and after; None where there is nothing
            to calibrate: no validation nodes, several targets per node, or a model that needs the graph.
        notes: one line per problem that raised no error but may have harmed the result.
    """

    training: Training
    history: list[Epoch] = field(default_factory=list)
    label_weight: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.outcome: Outcome = self.training.outcome()
        self.calibration: dict[str, float] | None = None
        self.notes: list[str] = []
        self._model: DeployedModel | None = None
        self._needs_graph: NeedsGraph | None = None
        try:
            self._model = self.training.deployed()
        except NeedsGraph as reason:
            self._needs_graph = reason
        else:
            self._calibrate(self._model)
        notes = (
            *(self._scale_note(), self._far_note(), self._trust_note(), self._temperature_note()),
            self.training.note(),
        )
        self.notes = list(filter(None, notes))

    def __repr__(self) -> str:
        graph, outcome = self.graph, self.outcome
        return (
            f"Result({self.config.model.name} on {graph.name}: {graph.task.metric} {outcome.val_score:.4f} validation, "
            f"{outcome.test_score:.4f} test; {outcome.edges_kept} of {outcome.edges_total} edges kept, "
            f"{outcome.seconds:.1f} s)"
        )

    @property
    def graph(self) -> Graph:
        """The graph it was trained on."""
        return self.training.graph

    @property
    def config(self) -> RunConfig:
        """All settings."""
        return self.training.config

    @property
    def best(self) -> Epoch:
        """The record of the kept epoch."""
        return self.outcome.kept

    @property
    def choices(self) -> dict[str, str]:
        """Choices that the settings leave to the training, each with its reason; empty for most models."""
        return dict(getattr(self.training, "choices", {}))

    @property
    def scales_columns(self) -> bool:
        """Whether the deployed model puts columns on one scale."""
        scaling = getattr(self.training, "scaling", None)
        return scaling is not None and scaling.scale is not None and scaling.normalize == "none"

    @property
    def kept_because(self) -> str:
        """Why that epoch was kept."""
        kind, _, reason = self.choices.get("student", "").rpartition(", ")
        return f"the student that is {reason} (kind: {kind})" if kind else self.training.best.reason()

    @property
    def scores(self) -> np.ndarray:
        """Logits of every node, in the graph's setting, [N, C]."""
        return self.outcome.scores

    @property
    def val_score(self) -> float:
        """Validation score of the kept epoch, by the metric of the graph's task."""
        return self.outcome.val_score

    @property
    def test_score(self) -> float:
        """Test score of the kept epoch; nothing was chosen by it."""
        return self.outcome.test_score

    @property
    def seconds(self) -> float:
        """Time of training."""
        return self.outcome.seconds

    def deployed(self) -> DeployedModel:
        """Return the model as a plain MLP, calibrated. Raises GsscError with the reason if it needs the graph."""
        if self._model is None:
            assert self._needs_graph is not None
            raise self._needs_graph
        return self._model

    @property
    def needs_graph(self) -> str | None:
        """Why the model cannot be deployed, if it cannot."""
        return str(self._needs_graph) if self._needs_graph else None

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the undirected edges that were weighed, by node ids, [2, E], and their keep probabilities."""
        return self.training.edge_trust()

    def _scale_note(self) -> str | None:
        """Return a note if columns have very different scales and were not standardised."""
        features, scaling = self.graph.features, getattr(self.training, "scaling", None)
        if scaling is None or scaling.scale is not None or issparse(features):
            return None
        if "normalize" in getattr(self.training, "choices", {}) and self.config.train.normalize == "auto":
            return None  # the scalings that suit these features were compared
        spread = column_spread(some_rows(features))
        if len(spread) == 0 or spread.max() <= UNLIKE * spread.min():
            return None
        return (
            f"columns have very different scales (standard deviations {spread.min():.3g} to {spread.max():.3g}), so "
            "the largest ones dominate: consider --train.normalize standard"
        )

    def _far_note(self) -> str | None:
        """Return a note if a column lies so far from zero that the scaling cancels the digits of its values."""
        scaling = getattr(self.training, "scaling", None)
        far = None if scaling is None else scaling.far_column()
        if far is None:
            return None
        names = self.graph.feature_names
        return (
            f"column {far if names is None else repr(names[far])} lies far from zero compared with its spread, so "
            "single precision loses digits: subtract its mean first"
        )

    def _trust_note(self) -> str | None:
        """Return a note if all edges have about the same keep probability."""
        if not self.training.weighs_edges:
            return None
        trust = self.edge_trust()[1]
        from_evidence = self.config.model.name == DEFAULT_MODEL or self.config.sparsifier.name == "evidence"
        if from_evidence and len(trust) and trust.min() > 1 - SAME_TRUST:
            return None  # no edge looks like a random pair
        if len(trust) < 2 or trust.max() - trust.min() >= SAME_TRUST:
            return None
        return (
            f"the keep probabilities of all edges lie between {trust.min():.4f} and {trust.max():.4f}: the sparsifier "
            "does not distinguish edges; scale the features, or use --sparsifier none"
        )

    def _temperature_note(self) -> str | None:
        """Return a note if the temperature ended at a bound of its range."""
        temperature = self.calibration["temperature"] if self.calibration else 1.0
        if 1.01 * LEAST < temperature < GREATEST / 1.01:
            return None
        return f"the temperature ended at its bound ({temperature:.3g}): probabilities are not calibrated"

    def _calibrate(self, model: DeployedModel) -> None:
        """Fit the model's temperature on validation nodes, by the logits of the training."""
        graph, logits = self.graph, self.outcome.scores
        if not graph.task.has_classes or len(graph.val) == 0:
            return
        val, test = (part[:: max(1, len(part) // CALIBRATED)] for part in (graph.val, graph.test))
        val_scores, weight = self.outcome.val_scores, None
        of_val = logits[val] if val_scores is None else val_scores[:: max(1, len(graph.val) // CALIBRATED)]
        if self.label_weight is not None:
            counts = self.label_weight[val] > 0  # a label of weight zero does not count
            val, of_val = val[counts], of_val[counts]
            weight = self.label_weight[val]
        model.temperature = fit_temperature(of_val, graph.labels[val], PRIOR_ROWS, weight)
        before, after = (softmax(logits[test] / t, axis=1) for t in (1.0, model.temperature))
        truth = graph.labels[test]
        self.calibration = {
            "temperature": model.temperature,
            "test_error_before": expected_calibration_error(before, truth),
            "test_error_after": expected_calibration_error(after, truth),
        }


def make_training(graph: Graph, config: RunConfig) -> Any:
    """Return the training of the model that ``config.model.name`` names; streamed for a large graph on disk."""
    if not isinstance(graph, Graph):
        raise GsscError(f"graph is a {type(graph).__name__}: make a gssc.Graph of features, edges and labels")
    if not isinstance(config, RunConfig):
        raise GsscError(f"config is a {type(config).__name__}: make settings of a dict by gssc.parse_config")
    kind = training_for(graph, config)
    return kind(kind.loaded(graph), config)


def fit(graph: Graph, config: RunConfig | None = None, on_epoch: Callable[[Epoch], None] | None = None) -> Result:
    """Train a model on a graph and return the result.

    Args:
        graph: the problem.
        config: all settings; the defaults of GSSC if left out. :func:`gssc.recipes.config_for` has those of other
            models and of published datasets.
        on_epoch: called with the record of every epoch.

    >>> from gssc import Config
    >>> from gssc.data import load_dataset
    >>> config = Config()
    >>> config.teachers.pair_epochs = config.teachers.rounds = 2
    >>> result = fit(load_dataset("csbm", nodes=60, degree=4), config)
    >>> result.deployed().predict(result.graph.features).shape
    (60,)
    """
    return finished(make_training(graph, config or parse_config()), on_epoch)


def finished(
    training: Training, on_epoch: Callable[[Epoch], None] | None = None, label_weight: np.ndarray | None = None
) -> Result:
    """Run a training to its end and return the result.

    Args:
        training: a new one, or one restored from a checkpoint.
        on_epoch: called with the record of every epoch.
        label_weight: weight of each node's label in calibration, see :class:`Result`.
    """
    history = []
    for record in training.epochs():
        history.append(record)
        if on_epoch:
            on_epoch(record)
    return Result(training, history, label_weight)
