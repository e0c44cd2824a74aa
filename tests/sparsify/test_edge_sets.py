"""Edges among edges, by hand."""

from __future__ import annotations

import numpy as np
import torch

from gssc.sparsify.edge_sets import draw_non_edges, positions

EDGES = torch.tensor([[3, 0, 1], [1, 2, 0]])  # 3-1, 0-2, 1-0


def test_an_edge_is_found_either_way_round():
    wanted = torch.tensor([[0, 1, 3, 2, 2], [1, 3, 1, 0, 3]])  # 0-1, 1-3, 3-1, 2-0, 2-3
    assert positions(wanted, EDGES).tolist() == [2, 0, 0, 1, -1]


def test_nodes_beyond_the_known_ones_are_in_no_edge():
    assert positions(torch.tensor([[9, 0], [0, 7]]), EDGES).tolist() == [-1, -1]


def test_empty_on_either_side():
    nothing = torch.empty(2, 0, dtype=torch.int64)
    assert positions(nothing, EDGES).tolist() == []
    assert positions(EDGES, nothing).tolist() == [-1, -1, -1]


def test_non_edges_are_neither_edges_nor_nodes_with_themselves():
    drawn = draw_non_edges(EDGES, 4, 3000, np.random.default_rng(0))
    found, times = drawn.sort(dim=0).values.unique(dim=1, return_counts=True)
    assert found.T.tolist() == [[0, 3], [1, 2], [2, 3]]
    assert (times > 300).all()  # 2 / 16 of the draws each


def test_a_complete_graph_has_no_non_edges():
    assert draw_non_edges(torch.tensor([[0], [1]]), 2, 50, np.random.default_rng(0)).shape == (2, 0)
