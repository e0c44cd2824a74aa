"""Dropout of feature values."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from gssc.features import SparseRows, product
from gssc.models.dropout import drop, drop_entries


def rows() -> SparseRows:
    matrix = sp.random(40, 30, density=0.3, format="csr", random_state=0, dtype=np.float32)
    matrix.data[:] = 1
    return SparseRows(matrix)


def test_nothing_is_dropped_in_prediction_or_at_a_share_of_zero() -> None:
    full = rows()
    assert drop_entries(full, 0.5, training=False) is full
    assert drop_entries(full, 0.0, training=True) is full


def test_kept_values_are_scaled_up_and_the_input_stays_whole() -> None:
    torch.manual_seed(0)
    full = rows()
    values = drop_entries(full, 0.75, training=True).matrix.data
    assert set(values.tolist()) == {0.0, 4.0}
    assert 0.15 < (values > 0).mean() < 0.35
    assert (full.matrix.data == 1).all()


def test_the_gradient_sees_the_same_entries_dropped() -> None:
    torch.manual_seed(0)
    full = rows()
    for _ in range(2):  # every step draws anew
        dropped = drop_entries(full, 0.5, training=True)
        weight = torch.randn(30, 4, requires_grad=True)
        sent = torch.randn(40, 4)
        (product(dropped, weight) * sent).sum().backward()
        dense = torch.from_numpy(dropped.matrix.toarray())
        torch.testing.assert_close(weight.grad, dense.T @ sent)


def test_dense_rows() -> None:
    torch.manual_seed(0)
    assert set(drop_entries(torch.ones(50, 4), 0.5, training=True).unique().tolist()) == {0.0, 2.0}


def test_units_are_dropped_at_the_share_asked_for_and_scaled_up() -> None:
    torch.manual_seed(0)
    ones = torch.ones(1001, 101, requires_grad=True)  # not a multiple of eight
    dropped = drop(ones, 0.75, training=True)
    assert set(dropped.unique().tolist()) == {0.0, 4.0}
    assert abs(float(dropped.detach().mean()) - 1) < 0.03
    halves = (dropped.detach() > 0).float().flatten()[: 8 * 12000].view(-1, 8).mean(0)
    assert (halves - 0.25).abs().max() < 0.02  # every byte of a word is as random as the others
    dropped.sum().backward()
    assert torch.equal(ones.grad, dropped.detach())
    assert drop(ones, 0.75, training=False) is ones
