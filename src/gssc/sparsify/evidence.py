"""Evidence: keeps each edge with the probability that it is not a random pair, estimated without the edge itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gssc.features import Rows, SparseRows
from gssc.graph import Graph
from gssc.sparsify.base import Sparsifier
from gssc.trust.edges import edge_trust


class Evidence(Sparsifier):
    """Keeps each edge with the probability of :func:`gssc.trust.edges.edge_trust`, redrawn every epoch.

    It uses no labels and has nothing to learn: features and common neighbours of the two ends are compared with those
    of random pairs of nodes. Prediction keeps the edges with a probability above one half.

    Args:
        keep: keep probability of each edge, [E]; estimated by default.
    """

    reads_features = True

    def __init__(
        self, rows: Rows, edges: Tensor, config: Any, rng: np.random.Generator, keep: np.ndarray | None = None
    ):
        super().__init__(rows, edges, config, rng)
        self.keep = evidence_of(rows, edges) if keep is None else torch.from_numpy(keep)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Return weight one for the edges of this epoch, zero for the others."""
        return self._drawn(self.keep, rng)

    def sample_pairs(self, rng: np.random.Generator) -> Tensor:
        """Return weight one for the pairs of this epoch; the two directions of an edge are drawn independently."""
        return self._drawn(self.keep.repeat(2), rng)

    def keep_probability(self) -> Tensor:
        """Return the probability that each edge is not a random pair, [E]."""
        return self.keep

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges with a keep probability above one half."""
        keep = self.keep if rows is self.rows else evidence_of(rows, edges)
        kept = edges[:, keep > 0.5]
        return kept, torch.ones(kept.shape[1])

    def _drawn(self, keep: Tensor, rng: np.random.Generator) -> Tensor:
        return (torch.from_numpy(rng.random(len(keep), dtype=np.float32)) < keep).float()


def evidence_of(rows: Rows, edges: Tensor) -> Tensor:
    """Return the keep probability of each edge between these rows, [E]."""
    features = rows.matrix if isinstance(rows, SparseRows) else rows.numpy()
    return torch.from_numpy(edge_trust(Graph(features, edges.numpy())).keep)
