"""DropEdge: how many edges, which, and what prediction sees."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gssc.sparsify.drop_edge import DropEdge
from gssc.sparsify.settings import DropEdgeSettings

EDGES = torch.tensor([[0, 1, 2, 0, 1], [1, 2, 3, 2, 3]])


def made(edges: torch.Tensor = EDGES, keep: float = 0.6) -> DropEdge:
    return DropEdge(torch.eye(5), edges, DropEdgeSettings(keep=keep), np.random.default_rng(0))


def test_every_epoch_keeps_the_same_number_and_other_edges():
    sparsifier, rng = made(), np.random.default_rng(0)
    samples = torch.stack([sparsifier.sample(rng) for _ in range(4000)])
    assert samples.sum(1).unique().tolist() == [3]  # 0.6 of 5
    assert samples.mean(0).tolist() == pytest.approx([0.6] * 5, abs=0.03)
    assert len(samples.unique(dim=0)) == 10  # 5 choose 3


def test_a_seed_gives_the_same_sample():
    sparsifier = made()
    assert torch.equal(sparsifier.sample(np.random.default_rng(4)), sparsifier.sample(np.random.default_rng(4)))


def test_there_is_nothing_to_learn_and_prediction_uses_every_edge():
    sparsifier = made()
    assert not sparsifier.trains
    assert list(sparsifier.parameters()) == []
    assert sparsifier.keep_probability().tolist() == pytest.approx([0.6] * 5)
    edges, weights = sparsifier.settle(torch.eye(5), EDGES, torch.arange(5))
    assert torch.equal(edges, EDGES)
    assert weights.tolist() == [1] * 5


@pytest.mark.parametrize("count", [0, 1])
def test_no_edge_and_one_edge(count: int):
    assert made(EDGES[:, :count], keep=0.1).sample(np.random.default_rng(0)).sum() == count
