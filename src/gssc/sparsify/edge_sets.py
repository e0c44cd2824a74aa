"""Undirected edges as sets: look up edges in either direction, and draw non-edges."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def positions(wanted: Tensor, among: Tensor) -> Tensor:
    """Return the position of each edge of ``wanted`` [2, W] in ``among`` [2, E], -1 if it is not there, [W]."""
    if wanted.shape[1] == 0 or among.shape[1] == 0:
        return torch.full((wanted.shape[1],), -1)
    nodes = int(max(wanted.max(), among.max())) + 1
    keys, order = _keys(among, nodes).sort()
    sought = _keys(wanted, nodes)
    found = torch.searchsorted(keys, sought).clamp(max=len(keys) - 1)
    return torch.where(keys[found] == sought, order[found], -1)


def draw_non_edges(edges: Tensor, nodes: int, count: int, rng: np.random.Generator) -> Tensor:
    """Return uniformly drawn node pairs without an edge, from ``count`` draws; draws that hit an edge are dropped."""
    drawn = torch.from_numpy(rng.integers(0, nodes, (2, count)))
    return drawn[:, (drawn[0] != drawn[1]) & (positions(drawn, edges) < 0)]


def _keys(edges: Tensor, nodes: int) -> Tensor:
    return edges.min(dim=0).values * nodes + edges.max(dim=0).values
