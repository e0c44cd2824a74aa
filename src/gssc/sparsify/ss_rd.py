"""SS/RD: the spectral sparsifier and Rank Degree together."""

from __future__ import annotations

import numpy as np

from gssc.sparsify.fixed import FixedSubset
from gssc.sparsify.rank_degree import walk_by_degree
from gssc.sparsify.spectral import draw_by_resistance


class SpectralRankDegree(FixedSubset):
    """Keeps half of the edges by effective resistance and half by Rank Degree on the remaining graph.

    The GSSC paper has a row "SS/RD, the combinational method of Spectral Sparsifier and Rank Degree" without further
    details; this is the simplest reading. The spectral half is chosen first, so that bridges stay.
    See :class:`gssc.sparsify.spectral.SpectralSparsifier` and :class:`gssc.sparsify.rank_degree.RankDegree`.
    """

    def choose(self, edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return the positions of the edges of both halves."""
        spectral = draw_by_resistance(edges, self.num_nodes, (count + 1) // 2, rng)
        rest = np.setdiff1d(np.arange(edges.shape[1]), spectral)
        walked = walk_by_degree(edges[:, rest], self.num_nodes, count - len(spectral), rng)
        return np.concatenate([spectral, rest[walked]])
