"""How feature rows are scaled before a student sees them; the scaling is part of the deployed model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.features import row_normalized


@dataclass(frozen=True)
class InputScaling:
    """What is done to a feature row before the student sees it; part of the deployed model.

    Args:
        normalize: ``row`` divides each row by the sum of its absolute values first, ``none`` does not.
        shift, scale: the student sees (row - shift) * scale. Sparse rows stay sparse: they have no shift, and one
            number for a scale.
    """

    normalize: str
    shift: np.ndarray | None
    scale: np.ndarray | float

    def applied(self, features: Any) -> Any:
        """Scaled rows: a dense float32 array or a CSR matrix."""
        rows = row_normalized(features) if self.normalize == "row" else features
        if sp.issparse(rows):
            return sp.csr_matrix(rows.astype(np.float32) * np.float32(self.scale))
        shift = 0.0 if self.shift is None else self.shift
        return np.ascontiguousarray((np.asarray(rows, dtype=np.float64) - shift) * self.scale, dtype=np.float32)

    def folded(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A first layer (weight [out, in], bias) that takes rows before the scaling and gives the same."""
        scaled = weight.astype(np.float64) * self.scale
        moved = bias.astype(np.float64) if self.shift is None else bias - scaled @ self.shift
        return scaled.astype(np.float32), moved.astype(np.float32)


def scalings(features: Any) -> dict[str, InputScaling]:
    """The ways to scale feature rows that may suit them, by name.

    Sparse rows and rows of counts: divided by their sums, or as they are; in both cases times one number that gives
    them a length of about one. Dense measurements: columns to mean 0 and deviation 1; non-negative ones by row, too.
    """
    found = {}
    negative = features.min() < 0
    if sp.issparse(features):
        if not negative:
            found["row"] = InputScaling("row", None, 1 / _mean_length(row_normalized(features)))
        found["none"] = InputScaling("none", None, 1 / _mean_length(features))
        return found
    dense = np.asarray(features, dtype=np.float64)
    spread = dense.std(axis=0)
    found["standard"] = InputScaling("none", dense.mean(axis=0), 1 / np.where(spread > 1e-12, spread, 1.0))
    if not negative and features.shape[1] > 32:
        found["row"] = InputScaling("row", None, 1 / _mean_length(row_normalized(features)))
    return found


def _mean_length(rows: Any) -> float:
    squares = rows.multiply(rows).sum(axis=1) if sp.issparse(rows) else (np.asarray(rows, dtype=np.float64) ** 2).sum(1)
    length = float(np.sqrt(np.asarray(squares, dtype=np.float64)).mean())
    return length if length > 0 else 1.0
