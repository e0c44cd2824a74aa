"""The spectral sparsifier on graphs whose resistances are known."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from gssc.sparsify import spectral
from gssc.sparsify.settings import SpectralSparsifierSettings
from gssc.sparsify.spectral import (
    SpectralSparsifier,
    draw_fixed_size,
    exact_resistance,
    inclusion_probabilities,
    projected_resistance,
)

CYCLE = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
CLIQUE = np.array(list(combinations(range(5), 2))).T
BARBELL = np.concatenate([CLIQUE, CLIQUE + 5, [[0], [5]]], axis=1)  # two cliques of five; the bridge 0-5 comes last
BRIDGE = BARBELL.shape[1] - 1


def made(edges: np.ndarray, nodes: int, keep: float, seed: int = 0) -> SpectralSparsifier:
    config = SpectralSparsifierSettings(keep=keep)
    return SpectralSparsifier(torch.zeros(nodes, 1), torch.from_numpy(edges), config, np.random.default_rng(seed))


def test_resistances_of_a_cycle():
    # one way round is 1 ohm, the other 3: 1 / (1 + 1/3)
    assert exact_resistance(CYCLE, 4).tolist() == pytest.approx([0.75] * 4)


def test_resistances_of_a_barbell():
    resistance = exact_resistance(BARBELL, 10)
    assert resistance[BRIDGE] == pytest.approx(1)
    assert resistance[:BRIDGE].tolist() == pytest.approx([2 / 5] * BRIDGE)  # 2 / n in a clique


def test_resistances_sum_to_nodes_less_components():
    rng = np.random.default_rng(0)
    pairs = np.array(list(combinations(range(12), 2))).T
    edges = pairs[:, rng.permutation(pairs.shape[1])[:20]]
    edges = np.concatenate([edges, CYCLE + 12], axis=1)  # and nodes 16 and 17 stand alone
    assert len(np.unique(edges[:, :20])) == 12
    assert exact_resistance(edges, 18).sum() == pytest.approx(18 - 4)


def test_the_projection_is_near_and_exact_on_bridges(monkeypatch: pytest.MonkeyPatch):
    edges = np.concatenate([BARBELL, CYCLE + 10], axis=1)  # node 14 stands alone
    monkeypatch.setattr(spectral, "PROJECTIONS", 2000)
    near, exact = projected_resistance(edges, 15, np.random.default_rng(0)), exact_resistance(edges, 15)
    assert near.tolist() == pytest.approx(exact.tolist(), rel=0.15)
    monkeypatch.setattr(spectral, "PROJECTIONS", 3)
    assert projected_resistance(edges, 15, np.random.default_rng(0))[BRIDGE] == pytest.approx(1, abs=1e-5)


def test_inclusion_probabilities_by_hand():
    # 4 of 1, 1, 1, 3, 6 (sum 12): 4/12 * 6 = 2 is cut to 1; then 3 of 1, 1, 1, 3: 1.5 is cut too; then 2 of 1, 1, 1
    found = inclusion_probabilities(np.array([1.0, 1, 1, 3, 6]), 4)
    assert found.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1, 1])


def test_draws_have_the_probabilities_asked_for_and_a_fixed_size():
    probability, rng = np.array([0.2, 0.3, 0.5, 1.0, 0.1, 0.9]), np.random.default_rng(0)
    counts = np.zeros(6)
    for _ in range(5000):
        drawn = draw_fixed_size(probability, rng)
        assert len(set(drawn.tolist())) == 3
        counts[drawn] += 1
    assert (counts / 5000).tolist() == pytest.approx(probability.tolist(), abs=0.03)


@pytest.mark.parametrize("exact_nodes", [0, 3000])
def test_the_bridge_always_stays(exact_nodes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spectral, "EXACT_NODES", exact_nodes)
    chosen = [made(BARBELL, 10, keep=0.5, seed=seed) for seed in range(20)]  # 10 edges; R sums to 9
    assert all([0, 5] in sparsifier.edges.T.tolist() for sparsifier in chosen)
    assert {sparsifier.edges.shape[1] for sparsifier in chosen} == {10}
    assert len({str(sparsifier.edges.tolist()) for sparsifier in chosen}) > 1


def test_it_is_drawn_once_and_by_the_seed():
    sparsifier, again = made(CYCLE, 4, keep=0.5), made(CYCLE, 4, keep=0.5)
    assert sparsifier.edges.shape[1] == 2
    assert torch.equal(sparsifier.edges, again.edges)
    assert sparsifier.sample(np.random.default_rng(1)).tolist() == [1, 1]
    assert not sparsifier.trains


def test_prediction_leaves_out_the_same_edges_and_keeps_unseen_ones():
    sparsifier = made(CYCLE, 4, keep=0.5)
    names = torch.tensor([5, 4, 3, 2])  # of nodes 0..3 in the larger graph
    larger = torch.cat([names[torch.from_numpy(CYCLE)], torch.tensor([[0, 1], [5, 0]])], dim=1)
    edges, weights = sparsifier.settle(torch.zeros(6, 1), larger, names)
    expected = [*names[sparsifier.edges].T.tolist(), [0, 5], [1, 0]]
    assert sorted(edges.T.tolist()) == sorted(expected)
    assert weights.tolist() == [1] * 4


@pytest.mark.parametrize("count", [0, 1])
def test_no_edge_and_one_edge_among_lonely_nodes(count: int):
    assert made(CYCLE[:, :count], 9, keep=0.3).edges.shape[1] == count
