"""Feature noise: values of all nodes masked or blurred. Sparse features stay sparse; memory maps are read whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gssc.errors import GsscError

if TYPE_CHECKING:
    from gssc.graph import Graph


@dataclass(frozen=True, eq=False)
class FeatureNoise:
    """A graph with noisy features.

    Args:
        graph: the noisy graph.
        changed: which values changed: [N, d] of dense features, [stored values] of sparse ones, in CSR order.
        realised_rate: as defined by the kind of noise.
    """

    graph: Graph
    changed: np.ndarray
    realised_rate: float

    def counts(self) -> dict[str, int]:
        """Return the number of changed values and of all values (of sparse features: stored ones)."""
        return {"changed": int(self.changed.sum()), "values": int(self.changed.size)}


def mask(graph: Graph, rate: float, rng: np.random.Generator) -> FeatureNoise:
    """Set each value to zero with probability `rate`.

    Zeros stay zeros, so draws are made for non-zero values only, row by row: dense and sparse features get the same
    noise. The realised rate is the share of non-zero values that were set to zero.
    """
    features: Any = graph.features
    if sp.issparse(features):
        changed = rng.random(features.nnz) < rate
        noisy = features.copy()
        noisy.data[changed] = 0  # the graph drops stored zeros
        return FeatureNoise(graph.with_(features=noisy), changed, _share(changed.sum(), len(changed)))
    filled = np.asarray(features) != 0
    changed = np.zeros_like(filled)
    changed[filled] = rng.random(int(filled.sum())) < rate
    noisy = np.where(changed, np.float32(0), features)
    return FeatureNoise(graph.with_(features=noisy), changed, _share(changed.sum(), filled.sum()))


def gaussian(graph: Graph, rate: float, rng: np.random.Generator) -> FeatureNoise:
    """Add normal noise whose standard deviation is `rate` times that of all feature values, zeros included.

    In sparse features only the stored values are blurred: noise on every zero would make them dense. The realised
    rate is the root mean square of the added noise, over the standard deviation of the features.
    """
    features: Any = graph.features
    sparse = sp.issparse(features)
    values = features.data if sparse else np.asarray(features)
    spread = _standard_deviation(values, graph.num_nodes * graph.num_features)
    if spread == 0:
        raise GsscError(f"all feature values of {graph.name} are equal, so gaussian noise has no scale: use mask noise")
    added = rng.standard_normal(values.shape, dtype=np.float32) * np.float32(rate * spread)
    blurred = values + added
    noisy = sp.csr_matrix((blurred, features.indices, features.indptr), features.shape) if sparse else blurred
    realised = float(np.sqrt(np.mean(np.square(added, dtype=np.float64))) / spread)
    return FeatureNoise(graph.with_(features=noisy), blurred != values, realised)


def _standard_deviation(values: np.ndarray, count: int) -> float:
    """Return the standard deviation of `count` values, of which those not given are zero."""
    mean = float(values.sum(dtype=np.float64)) / count
    squares = float(np.square(values - mean, dtype=np.float64).sum()) + (count - values.size) * mean**2
    return float(np.sqrt(squares / count))


def _share(part: int, whole: int) -> float:
    return float(part / whole) if whole else 0.0
