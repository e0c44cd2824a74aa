"""The trained model as a plain MLP: it takes a feature row and returns class probabilities, without a graph."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gssc.deploy import store
from gssc.deploy.activations import ACTIVATIONS
from gssc.deploy.columns import wrong_width
from gssc.deploy.forward import EXP_IS_SAFE, LinearMap, forward, is_sparse, one_row, softmax_of_one, within
from gssc.errors import GsscError


@dataclass(eq=False)
class DeployedModel:
    """A trained classifier that needs one feature row per prediction and nothing else.

    Batch norm is folded into the linear maps, so prediction takes little longer than the matrix products. Works with
    NumPy alone; sparse rows need SciPy, or torch, which is faster, if it is imported already.

    Args:
        layers: ``(weight [out, in], bias [out])`` of each linear map, first to last.
        class_names: one name per output; for multi-label targets, one per task.
        activation: after every hidden layer: ``relu``, ``leaky_relu`` with slope 0.01, ``gelu``, ``standardize``,
            which puts each row on mean zero and variance one, or ``asinh``; or one for each, separated by commas.
        normalize: ``row`` divides each feature row by the sum of its absolute values (rows of zeros stay as they are).
        task: ``multiclass`` gives probabilities that sum to one, ``multilabel`` one for each task.
        temperature: logits are divided by it before they become probabilities.
        feature_names: columns of a table the features are taken from, in order, if they have names.
        metadata: anything JSON can hold: dataset, settings, versions.

    Example:
        >>> identity = np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32)
        >>> model = DeployedModel([identity, identity], class_names=["left", "right"])
        >>> model
        DeployedModel(2 -> 2 -> 2, relu, multiclass)
        >>> model.predict(np.array([[2.0, 1.0], [0.0, 3.0]]))
        array([0, 1])
    """

    layers: list[tuple[np.ndarray, np.ndarray]]
    class_names: list[str]
    activation: str = "relu"
    normalize: Literal["row", "none"] = "none"
    task: Literal["multiclass", "multilabel"] = "multiclass"
    temperature: float = 1.0
    feature_names: list[str] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layers = [
            (np.ascontiguousarray(weight, dtype=np.float32), np.ascontiguousarray(bias, dtype=np.float32))
            for weight, bias in self.layers
        ]
        self.class_names = [str(name) for name in self.class_names]
        if self.feature_names is not None:
            self.feature_names = [str(name) for name in self.feature_names]
        _check(self)
        self._layers = [LinearMap.of(weight, bias) for weight, bias in self.layers]

    def __repr__(self) -> str:
        widths = " -> ".join(map(str, self.widths))
        return f"DeployedModel({widths}, {self.activation}, {self.task})"

    @property
    def widths(self) -> list[int]:
        """Number of features, of hidden units in each layer, and of outputs."""
        return [self.layers[0][0].shape[1], *(len(bias) for _, bias in self.layers)]

    def logits(self, x: Any) -> np.ndarray:
        """Return the scores before softmax or sigmoid, float32 [rows, outputs]; not divided by the temperature.

        Args:
            x: feature rows, [rows, features]: an array (a memory map is read in blocks) or a SciPy sparse matrix.
        """
        scores = self._forward(x, len(self.layers))
        _refuse_infinite(scores)
        return scores

    def embed(self, x: Any) -> np.ndarray:
        """Return the last hidden layer after its activation, float32 [rows, width]."""
        if len(self.layers) == 1:
            raise GsscError("the model is a single linear map: it has no hidden layer to embed with")
        hidden = self._forward(x, len(self.layers) - 1)
        _refuse_infinite(hidden)
        return hidden

    def predict_proba(self, x: Any) -> np.ndarray:
        """Return the probability of each class (or task), float32 [rows, outputs]."""
        scores = self._forward(x, len(self.layers))
        scores /= self.temperature
        if len(scores) == 1 and self.task == "multiclass" and within(scores[0], EXP_IS_SAFE):
            return softmax_of_one(scores)
        _refuse_infinite(scores)
        return _softmax(scores) if self.task == "multiclass" else _sigmoid(scores)

    def predict(self, x: Any) -> np.ndarray:
        """Return the number of the likeliest class, int64 [rows]; for multi-label targets 0 or 1, [rows, tasks]."""
        scores = self.logits(x)
        return scores.argmax(axis=1) if self.task == "multiclass" else (scores >= 0).astype(np.int64)

    def save(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` and ``model.json`` into a folder, creating it if needed."""
        store.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> DeployedModel:
        """Read a model folder; raises :class:`GsscError` if any of it is missing, damaged or was changed."""
        return cls(**store.load(Path(folder)))

    def _forward(self, x: Any, depth: int) -> np.ndarray:
        """Pass rows through the first ``depth`` layers."""
        x, layers, embedding = self._rows(x), self._layers[:depth], depth < len(self.layers)
        through = one_row if x.shape[0] == 1 else forward
        return through(x, layers, self.activation, self.normalize == "row", embedding)

    def _rows(self, x: Any) -> Any:
        if is_sparse(x):
            x = x.tocsr()
        else:
            x = np.asanyarray(x)
            if x.dtype.kind not in "fiub":
                raise GsscError(f"features have dtype {x.dtype}; they must be numbers")
        inputs = self._layers[0].weight.shape[0]
        if x.ndim != 2:
            raise GsscError(f"features have shape {x.shape}; they must be a table of shape (rows, {inputs})")
        if x.shape[1] != inputs:
            raise GsscError(wrong_width(x.shape[1], inputs, self.feature_names))
        return x


def _refuse_infinite(scores: np.ndarray) -> None:
    if len(scores) == 1 and within(scores[0], math.inf):  # the same check, faster
        return
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite.all(axis=1)))
        raise GsscError(f"row {row} has a NaN, infinite or far too large feature: fix or drop it")


def _softmax(scores: np.ndarray) -> np.ndarray:
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    # 1 / (1 + exp(-x)) overflows for very negative x; half a tanh does not.
    scores *= np.float32(0.5)
    np.tanh(scores, out=scores)
    scores += np.float32(1)
    scores *= np.float32(0.5)
    return scores


def _check(model: DeployedModel) -> None:
    """Raise GsscError if the parts do not make a model, whether they come from training or from a file."""
    if not model.layers:
        raise GsscError("a model needs at least one layer")
    previous = None
    for number, (weight, bias) in enumerate(model.layers):
        if weight.ndim != 2 or bias.shape != weight.shape[:1] or 0 in weight.shape:
            raise GsscError(
                f"layer {number} has weight {weight.shape} and bias {bias.shape}; expected (out, in) and (out,)"
            )
        if previous not in (None, weight.shape[1]):
            raise GsscError(f"layer {number} takes {weight.shape[1]} inputs, but the one before gives {previous}")
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise GsscError(f"layer {number} has NaN or infinite weights")
        previous = weight.shape[0]
    names, hidden = model.activation.split(","), len(model.layers) - 1
    for name in names:
        _one_of("activation", name, ACTIVATIONS)
    if len(names) not in (1, hidden):
        raise GsscError(f"activation has {len(names)} names for {hidden} hidden layers")
    _one_of("normalize", model.normalize, ("row", "none"))
    _one_of("task", model.task, ("multiclass", "multilabel"))
    if not (math.isfinite(model.temperature) and model.temperature > 0):
        raise GsscError(f"temperature is {model.temperature}; it must be a positive number")
    _names("class_names", model.class_names, model.widths[-1], "outputs")
    if model.feature_names is not None:
        _names("feature_names", model.feature_names, model.widths[0], "features")


def _one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise GsscError(f"{what} is {value!r}; it must be one of {', '.join(known)}")


def _names(what: str, names: list[str], count: int, of_what: str) -> None:
    if len(names) != count:
        raise GsscError(f"{what} has {len(names)} names for {count} {of_what}")
    if len(set(names)) != count:
        raise GsscError(f"{what} has a name twice")
