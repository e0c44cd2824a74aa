"""Scaling of feature columns, learned from a table and folded into the deployed model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

# Beyond this ratio of offset to spread, single precision leaves fewer than four digits to tell values apart.
FAR_FROM_ZERO = 1e3


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
