"""STR-Sparse: Eq. 5 by hand, what it learns first, what it samples, and the edges that prediction uses."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.features import Rows, SparseRows
from gssc.sparsify.settings import STRSparseSettings
from gssc.sparsify.str_sparse import STRSparse

EDGES = torch.tensor([[0, 1, 2], [1, 2, 3]])
ROWS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, -1.0]])


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


def made(rows: Rows = ROWS, edges: Tensor = EDGES, **settings) -> STRSparse:
    return STRSparse(rows, edges, STRSparseSettings(**settings), rng())


def one_map(alpha: float, edges: Tensor = EDGES) -> STRSparse:
    sparsifier = made(edges=edges, hidden=2, maps=1, alpha=alpha, score="dot")
    with torch.no_grad():
        sparsifier.first.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        sparsifier.first.bias.zero_()
    return sparsifier


def test_keep_probability_by_hand():
    # z = (1, 0), (0, 2), (1, 2), (2, -2); dots 0, 4, 2 - 4 = -2
    lambdas = [1 / 2, 1 / (1 + exp(-4)), 1 / (1 + exp(2))]
    expected = [0.7 * value + 0.3 for value in lambdas]
    assert one_map(0.3).keep_probability().tolist() == pytest.approx(expected, abs=1e-6)


def test_keep_probability_does_not_depend_on_the_direction():
    assert torch.equal(one_map(0.3).keep_probability(), one_map(0.3, EDGES.flip(0)).keep_probability())


@pytest.mark.parametrize("maps", [1, 2])
def test_sparse_and_dense_rows_give_one_probability_and_one_gradient(maps: int):
    gradients, values = [], []
    for rows in (ROWS, SparseRows(sp.csr_matrix(ROWS.numpy()))):
        torch.manual_seed(0)
        sparsifier = made(rows, hidden=3, maps=maps)
        probability = sparsifier.keep_probability()
        (probability * torch.tensor([1.0, -2.0, 3.0])).sum().backward()
        values.append(probability.detach())
        gradients.append([parameter.grad.clone() for parameter in sparsifier.parameters()])
    assert torch.allclose(values[0], values[1], atol=1e-6)
    assert len(gradients[0]) == 2 * maps
    for dense, sparse in zip(*gradients, strict=True):
        assert dense.abs().sum() > 0
        assert torch.allclose(dense, sparse, atol=1e-6)


def test_two_maps_in_a_row_are_what_their_name_says():
    sparsifier = made(hidden=3, maps=2, alpha=0.0, score="dot")
    z = sparsifier.second(sparsifier.first(ROWS))
    expected = torch.sigmoid((z[EDGES[0]] * z[EDGES[1]]).sum(1))
    assert torch.allclose(sparsifier.keep_probability(), expected, atol=1e-6)


def test_alpha_one_leaves_no_room_for_the_score():
    assert one_map(1.0).keep_probability().tolist() == [1, 1, 1]


def test_the_mean_score_is_the_dot_over_the_width():
    rows, edges = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[0], [1]])
    models = [made(rows, edges, hidden=4, maps=1, alpha=0.0, score=score) for score in ("dot", "mean")]
    models[1].load_state_dict(models[0].state_dict())
    dot, mean = (torch.logit(model.keep_probability()).item() for model in models)
    assert abs(mean - dot / 4) < 1e-5


def test_it_starts_from_torchs_generator_and_leaves_the_given_one_alone():
    """Runs that were measured before there was a common interface can be repeated to the bit."""
    torch.manual_seed(3)
    weight = torch.empty(2, 4).uniform_(-(2**-0.5), 2**-0.5)
    torch.manual_seed(3)
    untouched = rng()
    sparsifier = STRSparse(ROWS, EDGES, STRSparseSettings(hidden=4), untouched)
    assert torch.equal(sparsifier.first.weight, weight)
    assert untouched.random() == rng().random()


# Sampling, training, prediction ---------------------------------------------------------------------------------


def test_a_sample_has_a_gradient_and_follows_the_seed():
    sparsifier = made(hidden=4, alpha=0.3)
    first, second = sparsifier.sample(rng(1)), sparsifier.sample(rng(1))
    assert torch.equal(first, second)
    assert set(first.tolist()) <= {0.0, 1.0}
    first.sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in sparsifier.parameters())


def test_the_two_directions_of_an_edge_are_drawn_on_their_own():
    edges = torch.zeros(2, 20_000, dtype=torch.int64)
    sparsifier = made(torch.zeros(1, 2), edges, alpha=0.4, hidden=2)  # z = bias, so that all edges are alike
    probability = sparsifier.keep_probability()[0].item()
    there, back = sparsifier.sample_pairs(rng()).detach().view(2, -1)
    assert there.mean().item() == pytest.approx(probability, abs=0.02)
    assert (there * back).mean().item() == pytest.approx(probability**2, abs=0.02)


def test_pretraining_teaches_it_to_keep_every_edge():
    torch.manual_seed(0)
    sparsifier = made(hidden=8, alpha=0.1, pretrain_epochs=60)
    before = sparsifier.keep_probability().min().item()
    sparsifier.pretrain(torch.optim.Adam(sparsifier.parameters(), lr=0.05))
    assert before < 0.7
    assert sparsifier.keep_probability().min().item() > 0.8


def test_pretraining_without_edges_leaves_the_weights_finite():
    sparsifier = made(edges=torch.empty(2, 0, dtype=torch.int64), hidden=2)
    sparsifier.pretrain(torch.optim.Adam(sparsifier.parameters(), lr=0.05))
    assert all(parameter.isfinite().all() for parameter in sparsifier.parameters())


def test_prediction_keeps_what_is_likelier_kept_on_unseen_edges_too():
    # M of the dots 0, 4, -2 at alpha = 0.1: 0.55, 0.98, 0.21; the new edge 0-3 has dot 2, M 0.89
    sparsifier = one_map(0.1)
    edges, weights = sparsifier.settle(ROWS, torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]]), torch.arange(4))
    assert edges.tolist() == [[0, 1, 0], [1, 2, 3]]
    assert weights.tolist() == [1, 1, 1]


def test_one_edge_and_nodes_without_edges():
    sparsifier = made(edges=torch.tensor([[0], [2]]), hidden=2)
    assert sparsifier.sample(rng()).shape == (1,)
    assert sparsifier.sample_pairs(rng()).shape == (2,)
