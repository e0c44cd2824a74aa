"""NeuralSparse: scores by hand, the frequency of picks, the gradient, and the best k."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gssc.features import Rows, SparseRows
from gssc.sparsify import relaxed
from gssc.sparsify.neural_sparse import NeuralSparse
from gssc.sparsify.settings import NeuralSparseSettings

EDGES = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]])  # node 4 stands alone
ROWS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [1.0, 1.0]])


def made(rows: Rows = ROWS, edges: torch.Tensor = EDGES, **settings) -> NeuralSparse:
    config = NeuralSparseSettings(**settings)
    return NeuralSparse(rows, edges, config, np.random.default_rng(0))


def by_feature(neighbours: int = 1) -> NeuralSparse:
    """A net whose score of (u, v) is the second feature of v."""
    sparsifier = made(hidden=1, neighbours=neighbours)
    with torch.no_grad():
        for layer in (sparsifier.own, sparsifier.other):
            layer.weight.zero_()
            layer.bias.zero_()
        sparsifier.other.weight[1, 0] = 1.0
        sparsifier.out.fill_(1.0)
    return sparsifier


def chances() -> list[float]:
    """The chance of each edge of EDGES under one pick of :func:`by_feature`: 1 - (1 - pi_uv) (1 - pi_vu)."""
    total = exp(1) + exp(2) + exp(3)
    of_0 = [exp(value) / total for value in (1, 2, 3)]
    of_1 = [1 / (1 + exp(2)), exp(2) / (1 + exp(2))]  # of node 1: towards 0, towards 2
    of_2 = [1 / (1 + exp(1)), exp(1) / (1 + exp(1))]  # of node 2: towards 0, towards 1
    both = [(of_0[0], of_1[0]), (of_0[1], of_2[0]), (of_0[2], 1.0), (of_1[1], of_2[1])]
    return [1 - (1 - there) * (1 - back) for there, back in both]


def test_keep_probability_by_hand():
    assert by_feature().keep_probability().tolist() == pytest.approx(chances(), abs=1e-6)


def test_more_picks_keep_more():
    once, thrice = by_feature(1).keep_probability(), by_feature(3).keep_probability()
    assert torch.allclose(thrice, 1 - (1 - once) ** 3, atol=1e-6)


@pytest.mark.parametrize("neighbours", [1, 3])
def test_picks_have_the_probability_of_the_softmax(neighbours: int):
    sparsifier, rng = by_feature(neighbours), np.random.default_rng(0)
    samples = torch.stack([sparsifier.sample(rng).detach() for _ in range(1500)])
    assert set(samples.unique().tolist()) <= {0.0, 1.0}
    assert samples.mean(0).tolist() == pytest.approx(sparsifier.keep_probability().tolist(), abs=0.05)


def test_sparse_and_dense_rows_give_one_sample_and_one_gradient_that_reaches_every_parameter():
    gradients, samples = [], []
    for rows in (ROWS, SparseRows(sp.csr_matrix(ROWS.numpy()))):
        torch.manual_seed(0)
        sparsifier = made(rows, hidden=8, neighbours=2)
        weights = sparsifier.sample(np.random.default_rng(3))
        (weights * torch.tensor([1.0, -2.0, 3.0, 4.0])).sum().backward()
        samples.append(weights.detach())
        gradients.append([parameter.grad for parameter in sparsifier.parameters()])
    assert torch.equal(samples[0], samples[1])
    assert len(gradients[0]) == 5
    for dense, sparse in zip(*gradients, strict=True):
        assert dense.abs().sum() > 0
        assert torch.allclose(dense, sparse, atol=1e-6)


def test_the_gradient_favours_an_edge_that_is_worth_keeping():
    sparsifier = by_feature()
    optimizer = torch.optim.Adam(sparsifier.parameters(), lr=0.05)
    rng, before = np.random.default_rng(0), sparsifier.keep_probability()[0].item()
    for _ in range(100):
        optimizer.zero_grad()
        weights = sparsifier.sample(rng)
        (weights[1] + weights[2] - weights[0]).backward()  # 0-1 is worth keeping, 0-2 and 0-3 are not
        optimizer.step()
    assert before < 0.25
    assert sparsifier.keep_probability()[0].item() > 0.6


def test_chunks_change_neither_value_nor_gradient(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    sparsifier = made(hidden=6)
    pairs = torch.cat([EDGES, EDGES.flip(0)], dim=1)
    own, other = sparsifier.own(ROWS)[pairs[0]], sparsifier.other(ROWS)[pairs[1]]
    plain = (own + other).relu() @ sparsifier.out
    upstream = torch.arange(8.0)
    expected = torch.autograd.grad((plain * upstream).sum(), list(sparsifier.parameters()))
    for chunk in (1, 3, 100):
        monkeypatch.setattr(relaxed, "CHUNK", chunk)
        scores = sparsifier._scores(ROWS, EDGES)
        found = torch.autograd.grad((scores * upstream).sum(), list(sparsifier.parameters()))
        assert torch.allclose(scores, plain, atol=1e-6)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))


def test_prediction_takes_the_best_k_of_every_node():
    # One each: 0 takes 3; 1 takes 2 and 2 takes 1; 3 takes 0, its only neighbour.
    edges, weights = by_feature(1).settle(ROWS, EDGES, torch.arange(5))
    assert edges.tolist() == [[0, 1], [3, 2]]
    assert weights.tolist() == [1, 1]
    # On a larger graph the new node 5, with feature 9, is the best neighbour of 0 and takes it.
    rows = torch.cat([ROWS, torch.tensor([[0.0, 9.0]])])
    larger = torch.cat([EDGES, torch.tensor([[5], [0]])], dim=1)
    edges, _ = by_feature(1).settle(rows, larger, torch.arange(5))
    assert edges.tolist() == [[0, 1, 5], [3, 2, 0]]


def test_a_node_with_no_more_than_k_edges_keeps_them_in_prediction():
    edges, _ = by_feature(3).settle(ROWS, EDGES, torch.arange(5))
    assert torch.equal(edges, EDGES)


def test_the_seed_decides():
    sparsifier = made(hidden=4, neighbours=1)
    draws = [sparsifier.sample(np.random.default_rng(seed)) for seed in (1, 1, *range(2, 8))]
    assert torch.equal(draws[0], draws[1])
    assert any(not torch.equal(draws[0], other) for other in draws[2:])


@pytest.mark.parametrize("count", [0, 1])
def test_no_edge_and_one_edge(count: int):
    sparsifier = made(edges=EDGES[:, :count], hidden=4)
    weights = sparsifier.sample(np.random.default_rng(0))
    weights.sum().backward()
    assert weights.tolist() == [1] * count
    assert all(parameter.grad.isfinite().all() for parameter in sparsifier.parameters())
    assert sparsifier.settle(ROWS, EDGES[:, :count], torch.arange(5))[0].shape[1] == count
