"""LDS: where it starts, what a step does, and what prediction sees."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gssc.sparsify.lds import LDS
from gssc.sparsify.settings import LDSSettings

EDGES = torch.tensor([[0, 1, 2], [1, 2, 3]])


def made(edges: torch.Tensor = EDGES, theta: tuple[float, ...] | None = None) -> LDS:
    sparsifier = LDS(torch.zeros(5, 1), edges, LDSSettings(), np.random.default_rng(0))
    if theta is not None:
        with torch.no_grad():
            sparsifier.doubt.copy_(1 - torch.tensor(theta))
    return sparsifier


def test_it_starts_from_the_graph_as_given():
    sparsifier = made()
    assert sparsifier.keep_probability().tolist() == [1, 1, 1]
    assert sparsifier.sample(np.random.default_rng(0)).tolist() == [1, 1, 1]


def test_edges_are_drawn_with_their_probability():
    sparsifier, rng = made(theta=(0.2, 0.5, 1.0)), np.random.default_rng(0)
    samples = torch.stack([sparsifier.sample(rng).detach() for _ in range(4000)])
    assert set(samples.unique().tolist()) == {0.0, 1.0}
    assert samples.mean(0).tolist() == pytest.approx([0.2, 0.5, 1.0], abs=0.03)


def test_the_gradient_of_a_sample_is_that_of_its_parameter_even_where_it_is_certain():
    sparsifier = made(theta=(0.0, 0.5, 1.0))
    (sparsifier.sample(np.random.default_rng(0)) * torch.tensor([1.0, -2.0, 3.0])).sum().backward()
    assert sparsifier.doubt.grad.tolist() == [-1.0, 2.0, -3.0]


def test_steps_beyond_certainty_are_projected_back():
    sparsifier = made(theta=(-0.5, 0.5, 1.7))
    sparsifier.sample(np.random.default_rng(0))
    assert (1 - sparsifier.doubt).tolist() == pytest.approx([0.0, 0.5, 1.0])


def test_an_edge_without_a_loss_stays_in_spite_of_weight_decay():
    """Adam turns the smallest steady gradient into full steps, that of weight decay included."""
    sparsifier = made()
    optimizer = torch.optim.Adam(sparsifier.parameters(), lr=0.1, weight_decay=5e-4)
    for _ in range(5):
        optimizer.zero_grad()
        sparsifier.sample(np.random.default_rng(0))[0].backward()
        optimizer.step()
    assert sparsifier.keep_probability().tolist() == pytest.approx([0.5, 1.0, 1.0], abs=0.01)


def test_prediction_weighs_known_edges_and_trusts_unknown_ones():
    sparsifier = made(theta=(0.2, 0.5, 0.9))
    names = torch.tensor([6, 5, 4, 3, 2])
    larger = torch.tensor([[5, 0, 3, 6], [4, 6, 4, 5]])  # 1-2, new, 3-2, 0-1
    edges, weights = sparsifier.settle(torch.zeros(7, 1), larger, names)
    assert torch.equal(edges, larger)
    assert weights.tolist() == pytest.approx([0.5, 1.0, 0.9, 0.2])


@pytest.mark.parametrize("count", [0, 1])
def test_no_edge_and_one_edge(count: int):
    sparsifier = made(EDGES[:, :count])
    assert sparsifier.sample(np.random.default_rng(0)).shape == (count,)
    assert sparsifier.settle(torch.zeros(5, 1), EDGES, torch.arange(5))[1].tolist() == [1, 1, 1]
