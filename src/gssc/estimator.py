"""GSSC as a scikit-learn classifier: a table (and edges, if there are any) in, a plain MLP out."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import softmax

from gssc.calibration import PRIOR_ROWS, expected_calibration_error, fit_temperature
from gssc.config import Config, parse_config
from gssc.data.neighbours import nearest_neighbour_edges
from gssc.data.plain_table import Scaling, encode_labels, held_out, is_empty, is_marked_unknown
from gssc.deploy import DeployedModel
from gssc.deploy.forward import in_double
from gssc.errors import GsscError
from gssc.estimator_parameters import as_json, check_parameters, from_json
from gssc.extras import require
from gssc.graph import Graph
from gssc.model_selection import warn_if_unknown_rows_are_scored
from gssc.train.bilevel import BilevelTraining

require("sklearn", extra="data")

from joblib import effective_n_jobs  # noqa: E402  # comes with scikit-learn
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin  # noqa: E402
from sklearn.metrics import accuracy_score  # noqa: E402
from sklearn.utils import check_random_state, compute_class_weight  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data  # noqa: E402


class InputError(GsscError, ValueError):
    """A table, label or parameter the user can mend; a ValueError, as scikit-learn wants it."""


class GSSCClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classifier that learns from a graph over the rows and predicts from a row alone.

    Without edges, every row is joined to its nearest neighbours, so plain tables with a few labels work as they are.
    The method is GSSC (Wu, Lin, Zhao, Tan, Li: Graph Structure Self-Contrasting); see :class:`gssc.config.Config`.

    Args:
        hidden: width of every hidden layer.
        layers: number of hidden layers.
        dropout: share of hidden units dropped in training.
        epochs: epochs of alternating updates of classifier and sparsifier.
        warmup_epochs: epochs before the sparsifier takes part.
        consolidate_epochs: cheap epochs at the end, towards what recent epochs and the neighbours of a row agree on.
        batch_size: edges a batch; an epoch has 20 batches at most.
        learning_rate: of the classifier.
        n_neighbors: neighbours of a row when no edges are given.
        normalize: ``standard`` puts columns on one scale, ``row`` divides rows by their sums, ``none`` does neither;
            ``auto`` is ``row`` for sparse tables without negative values, else ``standard``. The trained model takes
            rows as they come: the scaling is part of it.
        validation_fraction: share of the labelled rows of each class that calibration and early stopping look at
            and training does not, to the nearest whole number: with 0.1, a class of up to five labels spares none. 0
            trains on all labels; then there is neither.
        early_stopping: end a phase when validation accuracy has not risen for ``patience`` epochs.
        patience: see there.
        calibrate: divide logits by a temperature fitted on the validation rows. Classes do not change.
        class_weight: None, ``balanced``, or a weight a class by its label.
        config: settings of :class:`gssc.config.Config` as a nested dict, such as ``{"sparsifier": {"alpha": 0.2}}``;
            they go before the parameters above. Seed, threads and row normalisation stay with the parameters.
        random_state: seed or generator; with a seed, the same table gives the same model.
        n_jobs: threads of the matrix products; None is one, -1 as many as there are processors.
        verbose: show a progress bar on standard error.

    Attributes:
        classes_: the known labels, sorted.
        n_features_in_, feature_names_in_: columns of the table; their names, if it was a DataFrame.
        model_: the trained MLP, a :class:`~gssc.deploy.model.DeployedModel` that takes rows as they come.
        transduction_: label of every row of ``fit``: the one given where known, the predicted one elsewhere.
        edge_index_: the edges of ``fit``, as given or found, [2, E].
        edge_keep_probability_: how far each column of ``edge_index_`` is trusted, from 0 to 1; NaN for self-loops.
        history_: a dict an epoch: losses, scores, edges kept, homophily, seconds.
        calibration_: ``temperature``, ``rows`` it was fitted on, and ``error_before`` and ``error_after``, the expected
            calibration error on these very rows; NaN where there are none.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> few = np.where(np.arange(150) % 10 == 0, y, -1)  # 5 labels a class
        >>> classifier = GSSCClassifier(random_state=0).fit(X, few)
        >>> classifier.predict_proba(X[:2]).shape
        (2, 3)
    """

    def __init__(
        self,
        hidden: int = 64,
        layers: int = 2,
        dropout: float = 0.5,
        epochs: int = 20,
        warmup_epochs: int = 10,
        consolidate_epochs: int = 60,
        batch_size: int = 512,
        learning_rate: float = 0.01,
        n_neighbors: int = 8,
        normalize: Literal["auto", "standard", "row", "none"] = "auto",
        validation_fraction: float = 0.1,
        early_stopping: bool = False,
        patience: int = 20,
        calibrate: bool = True,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        config: dict[str, dict[str, Any]] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ):
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.epochs = epochs
        self.warmup_epochs = warmup_epochs
        self.consolidate_epochs = consolidate_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_neighbors = n_neighbors
        self.normalize = normalize
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.patience = patience
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, edge_index: Any = None) -> GSSCClassifier:
        """Learn from rows, the labels of some of them, and edges between them.

        Args:
            X: [N, d] numbers: array, SciPy sparse or DataFrame.
            y: [N] labels. Unknown: -1 (but -1 and 1 alone are two classes), None, NaN or "".
            edge_index: [2, E] row numbers, in any direction and repetition; left out, nearest neighbours are found.
        """
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        warn_if_unknown_rows_are_scored()
        with _as_value_error():
            check_parameters(self.get_params(deep=False))
            return self._fit(X, y, edge_index)

    def _fit(self, features: Any, y: np.ndarray, edge_index: Any) -> GSSCClassifier:
        rng = check_random_state(self.random_state)
        codes = self._learn_classes(y)
        scaling = Scaling.of(features, self.normalize)
        far = scaling.far_column()
        if far is not None:
            warnings.warn(
                f"column {self._column(far)} lies far from zero for its spread, and single precision blurs it: "
                "take its mean off first",
                stacklevel=4,
            )
        scaled = scaling.applied(features)
        self.edge_index_ = self._edges(scaling, scaled) if edge_index is None else np.asarray(edge_index)
        graph = self._graph(scaled, codes, rng)
        training = self._train(graph, self._settings(scaling, rng))
        self._keep(training, scaling, features, codes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every row."""
        best = self._pass(X, -1).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probability of each of ``classes_``, [rows, classes]."""
        logits = self._pass(X, -1)
        return np.asarray(softmax(logits / self.model_.temperature, axis=1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the rows whose label is known: whoever marks rows unknown in ``fit`` may do so here."""
        check_is_fitted(self)
        y = column_or_1d(y)
        known = ~is_empty(y) & (~is_marked_unknown(y) | np.isin("-1", self.classes_.astype(str)))
        if not known.any():
            raise InputError("y holds no known label to compare with")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(y[known], self.predict(X)[known], sample_weight=weight))

    def transform(self, X: Any) -> np.ndarray:
        """The last hidden layer, [rows, hidden]: an embedding for other models."""
        return self._pass(X, -2)

    def save(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` and ``model.json``, which ``gssc predict``, ``export`` and ``serve`` take too.

        What belongs to the table of ``fit`` (``transduction_``, ``history_``, edges) is not written.
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
        return self.model_.widths[-2]

    # What fit consists of ---------------------------------------------------------------------------------------

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

    def _edges(self, scaling: Scaling, scaled: Any) -> np.ndarray:
        return nearest_neighbour_edges(scaling.for_neighbours(scaled), min(self.n_neighbors, scaled.shape[0] - 1))

    def _graph(self, scaled: Any, codes: np.ndarray, rng: np.random.RandomState) -> Graph:
        needed = self.calibrate or self.early_stopping
        val = held_out(codes, self.validation_fraction if needed else 0.0, rng)
        return Graph(
            scaled,
            self.edge_index_,
            codes,
            train=np.setdiff1d(np.flatnonzero(codes >= 0), val),
            val=val,
            name="table",
            class_names=tuple(str(label) for label in self.classes_),
            feature_names=getattr(self, "feature_names_in_", None),
        )

    def _settings(self, scaling: Scaling, rng: np.random.RandomState) -> Config:
        """The parameters as a Config: what suits small tables, under what the user says."""
        config = Config()
        config.model.hidden, config.model.layers, config.model.dropout = self.hidden, self.layers, float(self.dropout)
        config.model.mix_by = "vector"
        config.sparsifier.hidden, config.sparsifier.pretrain_epochs = self.hidden, 50
        config.train.epochs, config.train.warmup_epochs = self.epochs, self.warmup_epochs
        config.consolidate.epochs = self.consolidate_epochs
        config.train.batch_size, config.train.max_batches = self.batch_size, 20
        config.train.lr = float(self.learning_rate)
        config.train.patience = self.patience if self.early_stopping else 10**9
        if self.config:
            parsed = parse_config(config.to_dict(), self.config)
            if not isinstance(parsed, Config):
                raise GsscError(
                    f"config names the model {parsed.model.name}; this classifier trains {config.model.name}"
                )
            config = parsed
        config.train.normalize = scaling.normalize
        config.train.seed = int(rng.randint(2**31 - 1))
        config.train.threads = effective_n_jobs(self.n_jobs)
        config.check()
        return config

    def _train(self, graph: Graph, config: Config) -> BilevelTraining:
        training = BilevelTraining(graph, config)
        training.class_weight = self._class_weight(graph.labels[graph.train])
        self.history_ = []
        with _progress(config.total_epochs if self.verbose else 0) as advance:
            for record in training.epochs():
                self.history_.append({name: value for name, value in asdict(record).items() if name[:4] != "test"})
                advance(record.epoch + 1)
        return training

    def _class_weight(self, labels: np.ndarray) -> torch.Tensor | None:
        """Weights of the classes, such that they are one on average over the labelled rows."""
        if self.class_weight is None:
            return None
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[labels])
        if not ((weights >= 0).all() and weights[labels].any()):
            raise GsscError(f"class_weight is {self.class_weight!r}; weights are numbers from 0 on, and not all 0")
        return torch.from_numpy(weights / weights[labels].mean()).float()

    def _keep(self, training: BilevelTraining, scaling: Scaling, features: Any, codes: np.ndarray) -> None:
        """Everything there is to know once training has ended."""
        model = training.deployed()
        self.model_ = replace(model, layers=[scaling.folded(model.layers[0]), *model.layers[1:]])
        self.edge_keep_probability_ = _by_column(training, self.edge_index_, features.shape[0])
        logits = in_double(self.model_, features, len(self.model_.layers))
        self._calibrate(logits[training.graph.val], codes[training.graph.val])
        self.model_.metadata = self._facts(training, scaling)
        self.transduction_ = self.classes_[np.where(codes >= 0, codes, logits.argmax(axis=1))]

    def _calibrate(self, logits: np.ndarray, labels: np.ndarray) -> None:
        temperature = fit_temperature(logits, labels, PRIOR_ROWS) if self.calibrate else 1.0
        self.model_ = replace(self.model_, temperature=temperature)
        self.calibration_ = {
            "temperature": temperature,
            "rows": len(labels),
            "error_before": expected_calibration_error(softmax(logits, axis=1), labels),
            "error_after": expected_calibration_error(softmax(logits / temperature, axis=1), labels),
        }

    def _facts(self, training: BilevelTraining, scaling: Scaling) -> dict[str, Any]:
        """What the model card tells of it."""
        graph, best = training.graph, training.best.record
        return {
            "dataset": "table",
            "split": f"{len(graph.val):,} labelled rows held out for calibration"
            if len(graph.val)
            else "none held out",
            "setting": "transductive",
            "training_labels": len(graph.train),
            "seed": training.config.train.seed,
            "val_score": best.val_score if best is not None and len(graph.val) else None,
            "calibration": self.calibration_ if len(graph.val) else None,
            "scales_columns": scaling.scale is not None,
        }

    # What prediction consists of --------------------------------------------------------------------------------

    def _pass(self, rows: Any, last: int) -> np.ndarray:
        check_is_fitted(self)
        rows = validate_data(self, rows, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return in_double(self.model_, rows, len(self.model_.layers) + last + 1)

    def _column(self, number: int) -> str:
        return repr(self.feature_names_in_[number]) if hasattr(self, "feature_names_in_") else str(number)


def _by_column(training: BilevelTraining, edge_index: np.ndarray, nodes: int) -> np.ndarray:
    """Keep probability of every column of an edge list as the user gave it.

    The graph holds each edge once; a sparsifier may rule edges out (they are trusted by 0) or propose others.
    """
    edges, known = training.edge_trust()
    ends, seen = np.sort(edge_index.astype(np.int64), axis=0), np.sort(edges, axis=0)
    wanted, keys = ends[0] * nodes + ends[1], seen[0] * nodes + seen[1]
    order = np.argsort(keys)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    trust = np.where(keys[place] == wanted, known[place], 0.0).astype(np.float64)
    trust[ends[0] == ends[1]] = np.nan
    return trust


@contextmanager
def _as_value_error() -> Iterator[None]:
    """What the user can mend is a ValueError to scikit-learn and its tools."""
    try:
        yield
    except GsscError as error:
        raise InputError(str(error)) from None


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """A progress bar over epochs on standard error, or nothing when there is nothing to count."""
    if not total:
        yield lambda epoch: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("training GSSC", total=total)
        yield lambda epoch: bar.update(task, completed=epoch)
        bar.update(task, completed=total)
