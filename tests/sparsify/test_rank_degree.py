"""Rank Degree on graphs where the walk can be followed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gssc.sparsify import rank_degree
from gssc.sparsify.rank_degree import IncidentEdges, RankDegree
from gssc.sparsify.settings import RankDegreeSettings

# Node 0 has neighbours 1, 2, 3; node 1 also 4 and 5; node 2 also 6. Degrees: 3, 3, 2, 1, 1, 1, 1.
TREE = np.array([[0, 0, 0, 1, 1, 2], [1, 2, 3, 4, 5, 6]])


def made(edges: np.ndarray, nodes: int, keep: float, seed: int = 0) -> RankDegree:
    config = RankDegreeSettings(keep=keep)
    return RankDegree(torch.zeros(nodes, 1), torch.from_numpy(edges), config, np.random.default_rng(seed))


def best(seeds: list[int], gone: tuple[int, ...] = ()) -> tuple[list[int], list[int]]:
    left = np.ones(6, dtype=bool)
    left[list(gone)] = False
    degree = np.bincount(TREE[:, left].reshape(-1), minlength=7)
    taken, reached = IncidentEdges(TREE, 7).best(np.array(seeds), left, degree)
    return taken.tolist(), reached.tolist()


def test_a_seed_goes_to_its_best_connected_neighbour():
    assert best([0]) == ([0], [1])
    assert best([6]) == ([5], [2])
    assert best([3, 4]) == ([2, 3], [0, 1])


def test_two_seeds_may_take_one_edge_and_meet_in_one_node():
    assert best([0, 1]) == ([0], [0, 1])
    assert best([4, 5]) == ([3, 4], [1])


def test_degrees_are_those_of_what_is_left():
    # Without 0-1 and 1-4 node 1 has degree 1, and node 2 (degree 2) is the best neighbour of 0.
    assert best([0], gone=(0, 3)) == ([1], [2])


def test_a_larger_share_takes_more_neighbours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rank_degree, "TOP_SHARE", 0.6)  # of 3 neighbours: 2
    assert best([0]) == ([0, 1], [1, 2])


def test_the_walk_from_a_leaf_keeps_the_inner_edges_first():
    """From any seed, three edges hold 0-1, the edge between the two best connected nodes."""
    for seed in range(20):
        kept = made(TREE, 7, keep=0.5, seed=seed).edges.T.tolist()
        assert len(kept) == 3
        assert [0, 1] in kept


def test_it_starts_again_elsewhere_when_stuck():
    pieces = np.array([[0, 2, 4], [1, 3, 5]])
    assert made(pieces, 9, keep=1.0).edges.shape[1] == 3
    assert {made(pieces, 9, keep=0.34, seed=seed).edges[0].item() for seed in range(20)} == {0, 2, 4}


def test_the_budget_is_met_exactly_and_the_seed_decides():
    rng = np.random.default_rng(0)
    edges = np.unique(np.sort(rng.integers(0, 60, (400, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]].T
    for keep in (0.2, 0.8):
        chosen = [made(edges, 70, keep, seed).edges for seed in (1, 1, 2)]
        assert chosen[0].shape[1] == round(keep * edges.shape[1])
        assert torch.equal(chosen[0], chosen[1])
        assert not torch.equal(chosen[0], chosen[2])
        assert len(chosen[0].unique(dim=1).T) == chosen[0].shape[1]


def test_prediction_uses_the_same_edges():
    sparsifier = made(TREE, 7, keep=0.5)
    edges, weights = sparsifier.settle(torch.zeros(7, 1), torch.from_numpy(TREE), torch.arange(7))
    assert torch.equal(edges, sparsifier.edges)
    assert weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize("count", [0, 1])
def test_no_edge_and_one_edge_among_lonely_nodes(count: int):
    assert made(TREE[:, :count], 9, keep=0.3).edges.shape[1] == count
