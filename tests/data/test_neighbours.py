from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gssc.data import neighbours
from gssc.data.neighbours import nearest_neighbour_edges


def test_ties_go_to_the_first_rows() -> None:
    # Row 0 is as far from 1 as from 2 and 3.
    star = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert nearest_neighbour_edges(star, 1).tolist() == [[0, 0, 0], [1, 2, 3]]
    same = np.zeros((4, 1))
    assert nearest_neighbour_edges(same, 1).tolist() == [[0, 0, 0], [1, 2, 3]]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(0, 1000), st.data())
def test_every_row_has_its_k_nearest(count: int, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, count - 1))
    rows = np.random.default_rng(seed).integers(0, 3, (count, 2)).astype(float)
    expected = set()
    for row in range(count):
        others = [other for other in range(count) if other != row]
        nearest = sorted(others, key=lambda other: (((rows[row] - rows[other]) ** 2).sum(), other))[:k]
        expected |= {(min(row, other), max(row, other)) for other in nearest}
    assert nearest_neighbour_edges(rows, k).T.tolist() == [list(edge) for edge in sorted(expected)]


def test_sparse_rows_and_small_blocks_change_nothing(monkeypatch) -> None:
    rows = np.random.default_rng(0).poisson(0.3, (50, 20)).astype(np.float32)
    expected = nearest_neighbour_edges(rows, 4)
    np.testing.assert_array_equal(nearest_neighbour_edges(sparse.csr_matrix(rows), 4), expected)
    monkeypatch.setattr(neighbours, "_DISTANCES_AT_A_TIME", 150)
    np.testing.assert_array_equal(nearest_neighbour_edges(sparse.csr_array(rows), 4), expected)
