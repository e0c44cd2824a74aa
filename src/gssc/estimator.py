"""GSSC as a scikit-learn classifier: it takes a table, and edges if there are any, and trains a plain MLP."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import log_softmax, softmax

from gssc.calibration import expected_calibration_error
from gssc.config import parse_config
from gssc.data.labels import encode_labels
from gssc.data.row_graph import RowGraph
from gssc.data.scaling import Scaling
from gssc.deploy import DeployedModel
from gssc.deploy.forward import in_double
from gssc.errors import GsscError
from gssc.estimator_parameters import as_json, check_parameters, from_json
from gssc.extras import require
from gssc.graph import Graph
from gssc.learner.learner import LearnerTraining
from gssc.learner.settings import Config
from gssc.model_selection import known_rows, warn_if_unknown_rows_are_scored
from gssc.progress import EpochProgress
from gssc.result import Result, finished
from gssc.text_tables import is_number
from gssc.train.training import Epoch

require("sklearn", extra="data")

from joblib import effective_n_jobs  # noqa: E402  # comes with scikit-learn
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin  # noqa: E402
from sklearn.metrics import accuracy_score  # noqa: E402
from sklearn.utils import check_random_state, compute_class_weight  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import (  # noqa: E402
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)


class InputError(GsscError, ValueError):
    """An invalid table, label or parameter; a ValueError, as scikit-learn expects."""


class GSSCClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classifier that learns from a graph over the rows and predicts from a row alone.

    Without edges, every row is connected to its nearest neighbours, so plain tables with a few labels work as they are.
    The method is GSSC (Wu, Lin, Zhao, Tan, Li: Graph Structure Self-Contrasting); see
    :class:`~gssc.learner.learner.LearnerTraining`.

    Args:
        n_neighbors: neighbours of a row when no edges are given.
        normalize: ``standard`` puts columns on one scale, ``asinh`` also compresses long tails as a logarithm
            does, ``row`` divides rows by their sums, ``none`` leaves them as they are; ``auto`` decides by the data.
            The scaling is part of the trained model, which takes raw rows.
        class_weight: None, ``balanced``, or a weight per class by its label. ``balanced`` makes every class
            count equally in training and in model selection, however few labels it has.
        max_rows: without edges, at most this many rows take part in training, all labelled ones among them; the others
            are drawn at random. It bounds time and memory on large tables.
        config: settings of :class:`gssc.Config` as a nested dict, such as ``{"teachers": {"rounds": 1}}``. Seed,
            threads, scaling and class weights stay with the parameters.
        random_state: seed or generator; with a seed, the same table gives the same model.
        n_jobs: threads of the matrix products; None is one, -1 as many as there are processors.
        verbose: show progress on standard error: a bar on a terminal, a line every ten seconds elsewhere.

    Attributes:
        classes_: the known labels, sorted.
        n_features_in_, feature_names_in_: columns of the table; their names, if it was a DataFrame.
        model_: the trained MLP, a :class:`~gssc.deploy.model.DeployedModel` that takes raw rows.
        transduction_: label of every row of ``fit``: the one given where known, the predicted one elsewhere.
        edge_index_: the edges of ``fit``, as given or found, [2, E].
        edge_keep_probability_: how far each column of ``edge_index_`` is trusted, from 0 to 1; NaN for self-loops.
        choices_: what was decided by the data and why: scaling, whether pairs help, which student was kept.
        history_: one dict per epoch: losses, scores, edges kept, homophily, seconds.
        calibration_: ``temperature``, ``rows`` it was fitted on, and ``error_before`` and ``error_after``, the expected
            calibration error on the same rows; NaN where there are none.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> few = np.where(np.arange(150) % 10 == 0, y, -1)  # 5 labels per class
        >>> classifier = GSSCClassifier(random_state=0).fit(X, few)
        >>> classifier.predict_proba(X[:2]).shape
        (2, 3)
    """

    def __init__(
        self,
        n_neighbors: int = 8,
        normalize: Literal["auto", "standard", "asinh", "row", "none"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_rows: int = 20_000,
        config: dict[str, dict[str, Any]] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ):
        self.n_neighbors = n_neighbors
        self.normalize = normalize
        self.class_weight = class_weight
        self.max_rows = max_rows
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, edge_index: Any = None, validation: Any = None, sample_weight: Any = None
    ) -> GSSCClassifier:
        """Learn from rows, the labels of some of them, and edges between them.

        Args:
            X: [N, d] numbers: array, SciPy sparse or DataFrame.
            y: [N] labels. Unknown: -1 (but -1 and 1 alone are two classes), None, NaN or "".
            edge_index: edges between rows: [2, E] row numbers, in any direction and repetition, or anything else that
                :func:`gssc.data.edges.as_edges` takes: pairs, a DataFrame, a NetworkX graph, a SciPy adjacency. If X is
                a DataFrame, its index names the rows. Left out, nearest neighbours are found.
            validation: row numbers, or a mask, of labelled rows that choose and calibrate and are not learned from.
                Left out, cross-validation over all labels chooses.
            sample_weight: weight of each row's label, [N], in training, model selection and calibration; all one if
                left out.
        """
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if X is None:
            raise InputError(
                "X is None: give one row of numbers per node; Graph(None, edges).features makes them from edges"
            )
        names = X.index if hasattr(X, "iloc") else None
        X = self._validated(X, ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        warn_if_unknown_rows_are_scored()
        with _as_value_error():
            check_parameters(self.get_params(deep=False))
            return self._fit(X, y, edge_index, names, validation, weight)

    def _fit(
        self,
        features: Any,
        y: np.ndarray,
        edge_index: Any,
        names: Any,
        validation: Any,
        sample_weight: np.ndarray | None,
    ) -> GSSCClassifier:
        rng = check_random_state(self.random_state)
        codes = self._learn_classes(y)
        scaling = Scaling.of(features, self.normalize)
        if edge_index is None:
            table = RowGraph.found(features, codes, scaling, self.n_neighbors, self.max_rows, rng)
        else:
            table = RowGraph.given(edge_index, names, len(codes))
        columns = getattr(self, "feature_names_in_", None)
        class_names = tuple(str(label) for label in self.classes_)
        graph = table.graph(features, codes, validation, class_names=class_names, feature_names=columns)
        self.edge_index_ = table.edge_index
        weight = None if sample_weight is None else sample_weight[table.rows]
        self._keep(self._train(graph, self._settings(rng), weight), table, features, codes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the likeliest class of every row."""
        best = self._logits(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the calibrated probability of each of ``classes_``, [rows, classes]."""
        return np.asarray(softmax(self._logits(X) / self.model_.temperature, axis=1))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of :meth:`predict_proba`, [rows, classes]."""
        return np.asarray(log_softmax(self._logits(X) / self.model_.temperature, axis=1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy over the rows whose label is known: rows that are marked as unknown are left out."""
        check_is_fitted(self)
        y = column_or_1d(y)
        known = known_rows(y, self.classes_)
        if not known.any():
            raise InputError("y holds no known label to compare with")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(y[known], self.predict(X)[known], sample_weight=weight))

    def transform(self, X: Any) -> np.ndarray:
        """Return the last hidden layer, [rows, hidden]: an embedding for other models.

        A linear model, which cross-validation may prefer, has no hidden layer; it returns its scores, [rows, classes].
        """
        check_is_fitted(self)
        layers = len(self.model_.layers)
        return self._forward(X, layers if self._is_linear else layers - 1)

    def save(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` and ``model.json``, which ``gssc predict``, ``export`` and ``serve`` take too.

        Attributes about the table of ``fit`` (``transduction_``, ``history_``, edges) are not written.
        """
        check_is_fitted(self)
        notes = {
            "classes": self.classes_.tolist(),
            "dtype": self.classes_.dtype.str,
            "parameters": as_json(self.get_params(deep=False)),
        }
        replace(self.model_, metadata={**self.model_.metadata, "estimator": notes}).save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> GSSCClassifier:
        """Read what :meth:`save` wrote, or any other model folder of classes; its labels are then the class names."""
        model = DeployedModel.load(folder)
        if model.task != "multiclass":
            raise InputError(f"{folder} holds a multi-label model: load it with gssc.DeployedModel.load")
        notes = model.metadata.get("estimator", {})
        known = inspect.signature(cls).parameters
        loaded = cls(**{name: value for name, value in from_json(notes.get("parameters", {})) if name in known})
        loaded.model_ = model
        loaded.classes_ = np.array(notes.get("classes", model.class_names), dtype=notes.get("dtype"))
        loaded.n_features_in_ = model.widths[0]
        if model.feature_names is not None:
            loaded.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return loaded

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.model_.widths[-1 if self._is_linear else -2]

    @property
    def _is_linear(self) -> bool:
        return len(self.model_.layers) == 1

    # Steps of fit

    def _learn_classes(self, y: np.ndarray) -> np.ndarray:
        """Set ``classes_`` and return the class number of every row, -1 where unknown."""
        codes, self.classes_ = encode_labels(y)
        if len(self.classes_) == 0:
            raise GsscError("y holds no label: every row is unknown (-1, NaN, None or empty); label some of each class")
        check_classification_targets(self.classes_[codes[codes >= 0]])
        if self.classes_[0] == -1:
            warnings.warn(
                "y holds only -1 and 1, which are taken as two classes; where -1 is to mean unknown, label some of "
                "another class too",
                stacklevel=5,
            )
        if len(self.classes_) == 1:
            raise GsscError(
                f"y holds one class only, {self.classes_.tolist()[0]!r}: label rows of at least one more class"
            )
        return codes

    def _settings(self, rng: np.random.RandomState) -> Config:
        """Return the parameters as settings."""
        config = parse_config(self.config or {})
        if not isinstance(config, Config):
            raise GsscError(f"config names the model {config.model.name}; this classifier trains {Config().model.name}")
        config.train.normalize = self.normalize
        config.train.seed = _seed(self.random_state, rng)
        config.train.threads = effective_n_jobs(self.n_jobs)
        config.check()
        return config

    def _train(self, graph: Graph, config: Config, node_weight: np.ndarray | None) -> Result:
        config.train.class_weight = "balanced" if self._is_balanced else "none"
        weights = None if self._is_balanced else self._class_weight(graph.labels[graph.train])
        training = LearnerTraining(graph, config, weights, node_weight)
        if not self.verbose:
            return finished(training, label_weight=node_weight)
        with EpochProgress(training) as progress:
            return finished(training, progress.show, node_weight)

    @property
    def _is_balanced(self) -> bool:
        return isinstance(self.class_weight, str) and self.class_weight == "balanced"

    def _class_weight(self, labels: np.ndarray) -> np.ndarray | None:
        """Return the weights of the classes, such that they are one on average over the labelled rows."""
        if self.class_weight is None:
            return None
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[labels])
        if not ((weights >= 0).all() and weights[labels].any()):
            raise GsscError(
                f"class_weight is {self.class_weight!r}; weights must be numbers of at least 0, and not all 0"
            )
        return np.asarray(weights / weights[labels].mean())

    def _keep(self, result: Result, table: RowGraph, features: Any, codes: np.ndarray) -> None:
        """Set the attributes of a fitted classifier."""
        assert isinstance(result.training, LearnerTraining)
        self.model_ = result.deployed()
        self.choices_ = dict(result.training.choices)
        self.history_ = [_without_test(record) for record in result.history]
        self.edge_keep_probability_ = table.by_column(*result.edge_trust())
        logits = in_double(self.model_, features, len(self.model_.layers))
        val = table.rows[result.graph.val]
        of_val = result.outcome.val_scores
        self._judge_calibration(logits[val] if of_val is None else of_val, codes[val])
        self.model_.metadata = self._facts(result)
        self.transduction_ = self.classes_[np.where(codes >= 0, codes, logits.argmax(axis=1))]
        for note in result.notes:
            warnings.warn(note, stacklevel=5)

    def _judge_calibration(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """Set ``calibration_`` from validation rows; its errors are NaN if there are none."""
        temperature = self.model_.temperature
        self.calibration_ = {
            "temperature": temperature,
            "rows": len(labels),
            "error_before": expected_calibration_error(softmax(logits, axis=1), labels),
            "error_after": expected_calibration_error(softmax(logits / temperature, axis=1), labels),
        }

    def _facts(self, result: Result) -> dict[str, Any]:
        """Return the facts for the model card."""
        graph = result.graph
        return {
            "dataset": "table",
            "split": f"{len(graph.val):,} labelled rows for validation" if len(graph.val) else "cross-validation",
            "setting": graph.setting,
            "training_labels": len(graph.train),
            "seed": result.config.train.seed,
            "val_score": result.val_score if len(graph.val) else None,
            "calibration": self.calibration_ if len(graph.val) else None,
            "choices": self.choices_,
            "scales_columns": result.scales_columns,
        }

    # Steps of prediction

    def _logits(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._forward(X, len(self.model_.layers))

    def _forward(self, X: Any, layers: int) -> np.ndarray:
        """Return the output of the first ``layers`` layers of the model."""
        return in_double(self.model_, self._validated(X, reset=False), layers)

    def _validated(self, X: Any, **options: Any) -> Any:
        """Return the rows as scikit-learn validates them; an error about cells of a DataFrame names its columns."""
        try:
            return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], **options)
        except (TypeError, ValueError):
            problems = _cells_that_are_not_numbers(X) if hasattr(X, "iloc") else ""
            if not problems:
                raise
            raise InputError(problems) from None


def _cells_that_are_not_numbers(table: Any) -> str:
    """Return which columns of a DataFrame hold text or empty cells, and what to do; empty if none does."""
    odd, empty = [], []
    for position, name in enumerate(table.columns):
        column = table.iloc[:, position]
        known = column[column.notna()].tolist()
        cell = next((each for each in known if not isinstance(each, Real) and not _is_number(each)), None)
        odd += [] if cell is None else [f"{name!r} ({cell!r})"]
        empty += [f"{name!r} ({len(column) - len(known):,})"] if len(known) < len(column) else []
    advice = [f"encode {', '.join(odd)}, as OneHotEncoder does"] if odd else []
    advice += [f"fill in the empty cells of {', '.join(empty)}, as SimpleImputer does"] if empty else []
    return f"X must hold numbers only: {'; '.join(advice)}; a pipeline holds such steps and the model" if advice else ""


def _is_number(cell: object) -> bool:
    return isinstance(cell, str) and is_number(cell)


def _seed(random_state: Any, rng: np.random.RandomState) -> int:
    """Return ``random_state`` if it is a seed, so that the command line trains the same model; else draw one."""
    is_seed = isinstance(random_state, int | np.integer)
    return int(random_state) if is_seed else int(rng.randint(2**31 - 1))


def _without_test(record: Epoch) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if not name.startswith("test")}


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Raise errors that the user can fix as ValueError, as scikit-learn expects."""
    try:
        yield
    except GsscError as error:
        raise InputError(str(error)) from None
