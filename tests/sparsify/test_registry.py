"""What every sparsifier of the registry must do, so that any of them runs under any model."""

from __future__ import annotations

from dataclasses import fields

import docstring_parser
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gssc.errors import GsscError
from gssc.features import Rows, SparseRows
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.edge_sets import positions
from gssc.sparsify.registry import (
    SPARSIFIERS,
    every_setting,
    relevant_settings,
    sparsifier_class,
    sparsifier_settings,
)

NODES = 12  # the last two stand alone
FEATURES = np.random.default_rng(0).random((NODES, 4), dtype=np.float32)
PAIRS = np.stack(np.triu_indices(NODES - 2, 1))
EDGES = torch.from_numpy(PAIRS[:, np.random.default_rng(1).permutation(PAIRS.shape[1])[:20]])


def made(name: str, rows: Rows | None = None, edges: torch.Tensor = EDGES, seed: int = 0) -> Sparsifier:
    torch.manual_seed(seed)
    config = sparsifier_settings(name)(**relevant_settings(name, {"hidden": 8, "pretrain_epochs": 3, "neighbours": 2}))
    rows = torch.from_numpy(FEATURES) if rows is None else rows
    return sparsifier_class(name)(rows, edges, config, np.random.default_rng(seed))


def test_settings_carry_the_name_they_are_registered_under_and_explain_every_option():
    for name in SPARSIFIERS:
        kind = sparsifier_settings(name)
        assert kind().name == name
        explained = {entry.arg_name for entry in docstring_parser.parse(kind.__doc__).params}
        assert explained == {option.name for option in fields(kind)}


def test_settings_of_all_sparsifiers_together():
    options = {option.name for option in fields(every_setting())}
    assert options == {option.name for name in SPARSIFIERS for option in fields(sparsifier_settings(name))}
    assert relevant_settings("drop_edge", {"keep": 0.5, "alpha": 0.2}) == {"keep": 0.5}


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(GsscError, match="drop_edge"):
        sparsifier_class("dropedge")


@pytest.mark.parametrize("name", SPARSIFIERS)
class TestEvery:
    def test_weights_are_zeros_and_ones_over_its_edges(self, name: str):
        sparsifier = made(name)
        count = sparsifier.edges.shape[1]
        weights, pairs = sparsifier.sample(np.random.default_rng(2)), sparsifier.sample_pairs(np.random.default_rng(2))
        assert weights.shape == (count,)
        assert pairs.shape == (2 * count,)
        assert set(torch.cat([weights, pairs]).tolist()) <= {0.0, 1.0}
        probability = sparsifier.keep_probability()
        assert probability.shape == (count,)
        assert ((probability >= 0) & (probability <= 1)).all()

    def test_the_first_edges_are_edges_of_the_graph_and_no_pair_comes_twice(self, name: str):
        sparsifier = made(name)
        place = positions(sparsifier.edges, EDGES)
        assert (place[: sparsifier.given] >= 0).all()
        assert (place[sparsifier.given :] < 0).all()
        assert sparsifier.edges.sort(dim=0).values.unique(dim=1).shape == sparsifier.edges.shape

    def test_the_seed_decides_everything(self, name: str):
        outcomes = []
        for _ in range(2):
            sparsifier = made(name)
            outcomes.append((sparsifier.edges, sparsifier.sample(np.random.default_rng(2)).detach()))
        assert all(torch.equal(one, other) for one, other in zip(*outcomes, strict=True))

    def test_sparse_rows_do_as_well_as_dense_ones(self, name: str):
        sparse = made(name, SparseRows(sp.csr_matrix(FEATURES)))
        dense = made(name)
        assert torch.equal(sparse.edges, dense.edges)
        assert torch.allclose(sparse.keep_probability(), dense.keep_probability(), atol=1e-5)

    def test_what_trains_has_parameters_that_a_sample_reaches(self, name: str):
        sparsifier = made(name)
        parameters = list(sparsifier.parameters())
        weights = sparsifier.sample(np.random.default_rng(2))
        assert bool(parameters) == sparsifier.trains == weights.requires_grad
        if parameters:
            optimizer = torch.optim.Adam(parameters, lr=0.01)
            sparsifier.pretrain(optimizer)
            optimizer.zero_grad()
            own = sparsifier.own_loss()
            loss = (sparsifier.sample(np.random.default_rng(2)) * torch.rand(len(weights))).sum()
            (loss if own is None else loss + own).backward()
            assert all(parameter.grad.abs().sum() > 0 for parameter in parameters)
        else:
            sparsifier.pretrain(None)

    def test_prediction_gets_edges_of_the_larger_graph_and_their_weights(self, name: str):
        sparsifier = made(name)
        names = torch.arange(NODES) + 1  # node 0 is new
        larger = torch.cat([EDGES + 1, torch.tensor([[0], [4]])], dim=1)
        rows = torch.from_numpy(np.concatenate([np.ones((1, 4), dtype=np.float32), FEATURES]))
        edges, weights = sparsifier.settle(rows, larger, names)
        assert (positions(edges, larger) >= 0).all()
        assert weights.shape == (edges.shape[1],)
        assert ((weights >= 0) & (weights <= 1)).all()
        assert not weights.requires_grad

    def test_its_state_goes_to_a_new_one_made_the_same_way(self, name: str):
        sparsifier, other = made(name), made(name)
        with torch.no_grad():
            for parameter in sparsifier.parameters():
                parameter.mul_(0.5).add_(0.1)
        other.load_state_dict(sparsifier.state_dict())
        assert torch.equal(other.keep_probability(), sparsifier.keep_probability())
