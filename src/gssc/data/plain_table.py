"""Preparation of a plain table for training: encode labels, scale columns, hold out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from gssc.data.labels import is_missing
from gssc.errors import GsscError

LabelKind = Literal["number", "name", "truth value"]
# Beyond this ratio of offset to spread, single precision leaves fewer than four digits to tell values apart.
FAR_FROM_ZERO = 1e3


def encode_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers, int64 [N] with -1 for unknown, and the sorted classes they stand for.

    A label is unknown if it is -1 (the number, or the text ``-1``, which NumPy makes of it in an array of names), NaN,
    None or empty. If -1 and 1 are the only labels, they are two classes, as for many binary classifiers: with -1 as
    unknown there would be a single class, and nothing to learn.

    >>> encode_labels(np.array(["b", "", "a", "b"]))
    (array([ 1, -1,  0,  1]), array(['a', 'b'], dtype='<U1'))
    >>> encode_labels(np.array([5, -1, 2]))
    (array([ 1, -1,  0]), array([2, 5]))
    """
    if labels.dtype.kind not in "OUiufb":
        raise GsscError(f"y has dtype {labels.dtype}: give class numbers or class names")
    known, marked, one = ~is_empty(labels), is_marked_unknown(labels), _equals(labels, 1)
    alone = one.any() and (marked | one)[known].all()
    known &= ~marked | alone
    values = _of_one_kind(labels[known]) if labels.dtype.kind in "OU" else labels[known]
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise GsscError("y holds an infinite number: give class numbers, or NaN where unknown")
    codes = np.full(len(labels), -1, dtype=np.int64)
    classes, codes[known] = np.unique(values, return_inverse=True)
    return codes, classes


def is_empty(labels: np.ndarray) -> np.ndarray:
    """Return whether each label is NaN, None or empty, bool [N]."""
    if labels.dtype.kind in "OU":
        missing = [is_missing(label) for label in labels.tolist()]
        return np.array(missing, dtype=bool)
    return np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=bool)


def is_marked_unknown(labels: np.ndarray) -> np.ndarray:
    """Return whether each label is -1, as a number or as text, bool [N]."""
    return _equals(labels, -1)


def _equals(labels: np.ndarray, value: int) -> np.ndarray:
    if labels.dtype.kind in "OU":
        found = [isinstance(label, str | int | float) and label in (value, str(value)) for label in labels.tolist()]
        return np.array(found, dtype=bool)
    return np.zeros(len(labels), dtype=bool) if labels.dtype.kind == "b" else labels == value


def _of_one_kind(labels: np.ndarray) -> np.ndarray:
    """Return Python objects as an array of text, numbers or booleans. Raises GsscError if they are mixed."""
    kinds: set[LabelKind | str] = set()
    for label in labels.tolist():
        if isinstance(label, str):
            kinds.add("name")
        elif isinstance(label, bool | np.bool_):
            kinds.add("truth value")
        else:
            kinds.add("number" if isinstance(label, int | float | np.number) else type(label).__name__)
    if len(kinds) > 1 or not kinds <= {"name", "truth value", "number"}:
        raise GsscError(f"y holds {' and '.join(sorted(kinds))} labels: give class numbers or class names, not both")
    return np.array(labels.tolist())


def held_out(codes: np.ndarray, share: float, rng: np.random.RandomState) -> np.ndarray:
    """Return a random share of the labelled rows of every class; at least one per class stays for training."""
    drawn = []
    for code in range(codes.max() + 1):
        rows = np.flatnonzero(codes == code)
        count = min(round(share * len(rows)), len(rows) - 1)
        drawn.append(rng.permutation(rows)[:count])
    return np.sort(np.concatenate(drawn))


@dataclass
class Scaling:
    """Scaling of the rows of a table, which can be folded into a first linear layer that takes raw rows.

    Args:
        normalize: ``row`` divides every row by the sum of its absolute values, ``none`` does not.
        mean, scale: of every column, to subtract and then to divide by; None for neither.
    """

    normalize: Literal["row", "none"]
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    @classmethod
    def of(cls, features: Any, normalize: str) -> Scaling:
        """Return the scaling of a table.

        Args:
            features: [N, d], dense or CSR.
            normalize: ``standard`` gives columns mean zero and standard deviation one (a sparse table keeps its zeros:
                its columns get mean square one); ``row``; ``none``; ``auto`` is ``row`` for a sparse table without
                negative values, which usually holds counts, and ``standard`` for anything else.
        """
        sparse = sp.issparse(features)
        if normalize == "auto":
            normalize = "row" if sparse and features.min() >= 0 else "standard"
        if normalize != "standard":
            return cls("row" if normalize == "row" else "none")
        if sparse:
            square = np.asarray(features.multiply(features).mean(axis=0), dtype=np.float64).ravel()
            return cls("none", None, np.where(square > 0, np.sqrt(square), 1.0))
        mean = features.mean(axis=0, dtype=np.float64)
        scale = features.std(axis=0, dtype=np.float64)
        constant = scale <= 1e-12 * np.abs(mean)  # rounding errors give a constant column a small deviation
        return cls("none", mean, np.where(constant | (scale == 0), 1.0, scale))

    def applied(self, features: Any) -> Any:
        """Return the table with scaled columns; row normalisation is left to training."""
        if self.scale is None:
            return features
        if sp.issparse(features):
            return sp.csr_matrix(features @ sp.diags(1 / self.scale))
        return (features - self.mean) / self.scale

    def for_neighbours(self, scaled: Any) -> Any:
        """Return the rows to compute distances from: rows of counts are scaled to unit length."""
        if self.normalize == "none":
            return scaled
        square = scaled.multiply(scaled).sum(axis=1) if sp.issparse(scaled) else (scaled**2).sum(axis=1)
        length = np.sqrt(np.asarray(square, dtype=np.float64)).ravel()
        return sp.csr_matrix(sp.diags(1 / np.where(length > 0, length, 1.0)) @ scaled)

    def folded(self, layer: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return a linear layer that maps raw rows to what the given layer makes of scaled rows."""
        if self.scale is None:
            return layer
        weight, bias = layer[0] / self.scale, layer[1].astype(np.float64)
        return weight, bias if self.mean is None else bias - weight @ self.mean

    def far_column(self) -> int | None:
        """Return a column too far from zero, relative to its spread, for float32 to tell its values apart, or None."""
        if self.mean is None or self.scale is None:
            return None
        distance = np.abs(self.mean) / self.scale
        distance[self.scale == 1.0] = 0  # constant columns are not divided by a spread
        worst = int(distance.argmax())
        return worst if distance[worst] > FAR_FROM_ZERO else None
