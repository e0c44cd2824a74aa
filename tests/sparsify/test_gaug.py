"""GAUG-O: the predictor by hand, what it proposes, what it samples, and what prediction sees."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gssc.features import Rows, SparseRows
from gssc.sparsify import gaug
from gssc.sparsify.gaug import GAUG, normalized_adjacency
from gssc.sparsify.settings import GAUGSettings

PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])  # node 4 stands alone
ROWS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, -1.0], [1.0, 0.5]])


def made(rows: Rows = ROWS, edges: torch.Tensor = PATH, seed: int = 0, **settings) -> GAUG:
    torch.manual_seed(seed)
    config = GAUGSettings(**{"hidden": 16, "pretrain_epochs": 3, **settings})
    return GAUG(rows, edges, config, np.random.default_rng(seed))


def with_embedding(sparsifier: GAUG, z: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> GAUG:
    monkeypatch.setattr(sparsifier, "embed", lambda: z)
    return sparsifier


def two_cliques() -> tuple[torch.Tensor, torch.Tensor, set[tuple[int, int]]]:
    """Two groups of eight with features of their own: all edges inside but some, and these."""
    groups = [list(combinations(range(start, start + 8), 2)) for start in (0, 8)]
    missing = {pair for group in groups for pair in group[::7]}
    edges = [pair for group in groups for pair in group if pair not in missing]
    return torch.eye(2).repeat_interleave(8, dim=0), torch.tensor(edges).T, missing


def test_the_adjacency_by_hand():
    # With self-loops the degrees of 0, 1, 2, 3, 4 are 2, 3, 3, 2, 1.
    found = normalized_adjacency(PATH.numpy(), 5).toarray()
    assert found[0].tolist() == pytest.approx([1 / 2, 6**-0.5, 0, 0, 0])
    assert found[1].tolist() == pytest.approx([6**-0.5, 1 / 3, 1 / 3, 0, 0])
    assert found[4].tolist() == [0, 0, 0, 0, 1]


def test_the_embedding_is_two_steps_of_a_graph_network():
    sparsifier = made()
    adjacency = torch.from_numpy(normalized_adjacency(PATH.numpy(), 5).toarray())
    hidden = (adjacency @ (ROWS @ sparsifier.first)).relu()
    expected = adjacency @ hidden @ sparsifier.second
    assert torch.allclose(sparsifier.embed(), expected, atol=1e-6)
    assert expected.shape == (5, 2)  # a half of a quarter of 16


def test_the_mix_by_hand(monkeypatch: pytest.MonkeyPatch):
    sparsifier = made(proposals=0.34, predicted=0.25)
    assert sparsifier.given == 3
    sparsifier.edges[:, 3] = torch.tensor([0, 3])
    z = torch.tensor([[0.0], [1.0], [2.0], [3.0], [0.0]])
    found = with_embedding(sparsifier, z, monkeypatch).keep_probability()
    likely = torch.sigmoid(torch.tensor([0.0, 2.0, 6.0, 0.0])) / 4
    assert found.tolist() == pytest.approx((likely + torch.tensor([0.75, 0.75, 0.75, 0.0])).tolist())


def test_its_own_loss_by_hand(monkeypatch: pytest.MonkeyPatch):
    sparsifier = made(predictor_weight=3.0)
    sparsifier._non_edges = torch.tensor([[0], [3]])
    z = torch.tensor([[1.0], [1.0], [2.0], [3.0], [0.0]])
    edges = torch.nn.functional.softplus(-torch.tensor([1.0, 2.0, 6.0])).mean()
    expected = 3 * (edges + torch.nn.functional.softplus(torch.tensor(3.0))) / 2
    assert with_embedding(sparsifier, z, monkeypatch).own_loss().item() == pytest.approx(expected.item())


@pytest.mark.parametrize("block", [1, 3, 512])
def test_proposals_are_the_likeliest_pairs_that_are_no_edges(block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gaug, "BLOCK", block)
    z = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]])
    sparsifier = with_embedding(made(proposals=0.0), z, monkeypatch)
    # Non-edges by product: 2-4 15, 3-4 20, 1-4 10, 1-3 8, 0-4 5, 0-3 4, 0-2 3; 2-3 and others are edges.
    assert sparsifier._propose(3).T.tolist() == [[3, 4], [2, 4], [1, 4]]
    assert sparsifier._propose(100).shape == (2, 7)


def test_the_predictor_learns_the_groups_and_proposes_their_missing_edges():
    rows, edges, missing = two_cliques()
    sparsifier = made(rows, edges, hidden=32, pretrain_epochs=150, proposals=len(missing) / edges.shape[1])
    assert {tuple(pair) for pair in sparsifier.edges[:, sparsifier.given :].T.tolist()} == missing
    assert torch.equal(sparsifier.edges[:, : sparsifier.given], edges)


def test_edges_are_drawn_with_their_probability():
    sparsifier, rng = made(predicted=0.5, proposals=1.0), np.random.default_rng(0)
    samples = torch.stack([sparsifier.sample(rng).detach() for _ in range(500)])
    assert set(samples.unique().tolist()) == {0.0, 1.0}
    chances = sparsifier.keep_probability().detach()
    assert samples.mean(0).tolist() == pytest.approx(chances.tolist(), abs=0.1)
    assert chances[: sparsifier.given].min() >= 0.5


def test_sparse_and_dense_rows_give_one_sample_and_one_gradient_that_reaches_every_parameter():
    gradients, samples = [], []
    for rows in (ROWS, SparseRows(sp.csr_matrix(ROWS.numpy()))):
        sparsifier = made(rows)
        weights = sparsifier.sample(np.random.default_rng(3))
        weights.sum().backward()
        samples.append(weights.detach())
        gradients.append([parameter.grad for parameter in sparsifier.parameters()])
    assert torch.equal(samples[0], samples[1])
    assert len(gradients[0]) == 2
    for dense, sparse in zip(*gradients, strict=True):
        assert dense.abs().sum() > 0
        assert torch.allclose(dense, sparse, atol=1e-5)


def test_its_own_loss_reaches_the_parameters_and_follows_the_latest_sample():
    rows, edges, _ = two_cliques()
    sparsifier = made(rows, edges)
    losses = []
    for seed in (1, 1, 2):
        sparsifier.sample(np.random.default_rng(seed))
        losses.append(sparsifier.own_loss())
    assert losses[0].item() == losses[1].item()
    assert losses[0].item() != losses[2].item()
    losses[2].backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in sparsifier.parameters())


def test_the_seed_decides():
    one, again, other = made(seed=1), made(seed=1), made(seed=2)
    assert torch.equal(one.first, again.first)
    assert torch.equal(one.edges, again.edges)
    assert not torch.equal(one.first, other.first)


def test_prediction_uses_the_graph_as_given():
    sparsifier = made()
    edges, weights = sparsifier.settle(ROWS, PATH, torch.arange(5))
    assert torch.equal(edges, PATH)
    assert weights.tolist() == [1, 1, 1]


def test_without_edges_there_is_nothing_to_learn_or_propose():
    sparsifier = made(edges=PATH[:, :0])
    assert sparsifier.sample(np.random.default_rng(0)).shape == (0,)
    assert sparsifier.own_loss().item() == 0


def test_one_edge():
    sparsifier = made(edges=PATH[:, :1], proposals=2.0)
    assert sparsifier.edges.shape == (2, 3)
    assert sparsifier.sample(np.random.default_rng(0)).shape == (3,)
    assert sparsifier.own_loss().isfinite()


def test_a_complete_graph_leaves_nothing_to_propose():
    sparsifier = made(torch.eye(2), torch.tensor([[0], [1]]), proposals=1.0)
    assert sparsifier.edges.tolist() == [[0], [1]]
    sparsifier.sample(np.random.default_rng(0))
    assert sparsifier.own_loss().isfinite()
