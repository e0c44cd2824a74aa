"""SS/RD: both halves take part, and together they meet the budget."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from gssc.sparsify import ss_rd
from gssc.sparsify.settings import SpectralRankDegreeSettings
from gssc.sparsify.ss_rd import SpectralRankDegree

CLIQUE = np.array(list(combinations(range(5), 2))).T
BARBELL = np.concatenate([CLIQUE, CLIQUE + 5, [[0], [5]]], axis=1)


def made(edges: np.ndarray, nodes: int, keep: float, seed: int = 0) -> SpectralRankDegree:
    config = SpectralRankDegreeSettings(keep=keep)
    return SpectralRankDegree(torch.zeros(nodes, 1), torch.from_numpy(edges), config, np.random.default_rng(seed))


def test_the_budget_is_met_and_the_spectral_half_keeps_the_bridge():
    for seed in range(10):
        sparsifier = made(BARBELL, 10, keep=0.9, seed=seed)  # 19 edges, 10 of them spectral; R sums to 9
        assert sparsifier.edges.shape[1] == 19
        assert [0, 5] in sparsifier.edges.T.tolist()


def test_the_other_half_walks_over_what_is_left(monkeypatch: pytest.MonkeyPatch):
    # Node 0 has neighbours 1, 2, 3; node 1 also 4, 5; node 2 also 6. Without 0-3 and 2-6 the degrees of 0, 1, 2 are
    # 2, 3, 1, and two steps from anywhere go along 0-1.
    edges = np.array([[0, 0, 0, 1, 1, 2], [1, 2, 3, 4, 5, 6]])
    asked = []

    def take_two(edges: np.ndarray, nodes: int, count: int, rng: np.random.Generator) -> np.ndarray:
        asked.append(count)
        return np.array([2, 5])

    monkeypatch.setattr(ss_rd, "draw_by_resistance", take_two)
    for seed in range(10):
        kept = made(edges, 7, keep=4 / 6, seed=seed).edges.T.tolist()
        assert len(kept) == 4
        assert all(edge in kept for edge in ([0, 3], [2, 6], [0, 1]))
    assert set(asked) == {2}


def test_the_seed_decides():
    chosen = [made(BARBELL, 10, 0.5, seed).edges for seed in (1, 1, 2)]
    assert torch.equal(chosen[0], chosen[1])
    assert not torch.equal(chosen[0], chosen[2])


@pytest.mark.parametrize("count", [0, 1, 2])
def test_very_few_edges_among_lonely_nodes(count: int):
    assert made(BARBELL[:, :count], 12, keep=1.0).edges.shape[1] == count
