"""Evidence: edges are kept by how much they look like edges and not like random pairs, judged without the edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gssc.features import Rows, SparseRows
from gssc.graph import Graph
from gssc.sparsify.base import Sparsifier, SparsifierSettings
from gssc.trust.edges import edge_trust


@dataclass
class EvidenceSettings(SparsifierSettings):
    """Settings of the sparsifier evidence; it has none but its name."""

    name: str = "evidence"


class Evidence(Sparsifier):
    """Keeps each edge with the probability of :func:`gssc.trust.edges.edge_trust`, drawn afresh every epoch.

    No labels and nothing to learn: features and common neighbours of the two ends are compared with those of random
    pairs of nodes. Prediction keeps the edges that are more likely right than wrong.
    """

    Settings = EvidenceSettings
    reads_features = True

    def __init__(self, rows: Rows, edges: Tensor, config: Any, rng: np.random.Generator):
        super().__init__(rows, edges, config, rng)
        self.keep = evidence_of(rows, edges)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """One for the edges of this epoch."""
        return self._drawn(self.keep, rng)

    def sample_pairs(self, rng: np.random.Generator) -> Tensor:
        """One for the pairs of this epoch, the two directions of an edge drawn on their own."""
        return self._drawn(self.keep.repeat(2), rng)

    def keep_probability(self) -> Tensor:
        """The probability that each edge is no random pair, [E]."""
        return self.keep

    @torch.no_grad()
    def settle(self, rows: Rows, edges: Tensor, seen_nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The edges that are more likely right than wrong."""
        keep = self.keep if rows is self.rows else evidence_of(rows, edges)
        kept = edges[:, keep > 0.5]
        return kept, torch.ones(kept.shape[1])

    def _drawn(self, keep: Tensor, rng: np.random.Generator) -> Tensor:
        return (torch.from_numpy(rng.random(len(keep), dtype=np.float32)) < keep).float()


def evidence_of(rows: Rows, edges: Tensor) -> Tensor:
    """Keep probability of each edge between these rows, [E]."""
    features = rows.matrix if isinstance(rows, SparseRows) else rows.numpy()
    return torch.from_numpy(edge_trust(Graph(features, edges.numpy())).keep)
