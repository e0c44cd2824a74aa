"""Pairs two steps apart, by hand."""

from __future__ import annotations

import pytest
import torch

from gssc.errors import GsscError
from gssc.models import two_hop
from gssc.models.two_hop import two_hop_pairs

# A square 0 - 1 - 2 - 3 - 0 with a tail 3 - 4, and a triangle's worth of edges nowhere.
SQUARE = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 4]])
BOTH = torch.cat([SQUARE, SQUARE.flip(0)], dim=1)


def as_dict(pairs: torch.Tensor, weight: torch.Tensor) -> dict[tuple[int, int], float]:
    return {(int(s), int(t)): round(float(w), 6) for s, t, w in zip(*pairs, weight, strict=True)}


def test_a_square_with_a_tail() -> None:
    found = as_dict(*two_hop_pairs(BOTH, None, 5))
    assert found == dict.fromkeys([(0, 2), (2, 0), (1, 3), (3, 1), (0, 4), (4, 0), (2, 4), (4, 2)], 1.0)


def test_neighbours_are_not_two_steps_apart() -> None:
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    assert two_hop_pairs(triangle, None, 3)[0].shape == (2, 0)


def test_a_triangle_that_loses_an_edge() -> None:
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    assert as_dict(*two_hop_pairs(triangle, weight, 3)) == {(0, 2): 1.0, (2, 0): 1.0}


def test_a_pair_weighs_what_its_paths_weigh_on_average() -> None:
    weight = torch.tensor([0.5, 0.4, 1.0, 0.8, 0.3]).repeat(2)
    found = as_dict(*two_hop_pairs(BOTH, weight, 5))
    assert found[(0, 2)] == pytest.approx((0.5 * 0.4 + 0.8 * 1.0) / 2)
    assert found[(0, 4)] == pytest.approx(0.8 * 0.3)


def test_the_gradient_reaches_both_steps() -> None:
    weight = torch.tensor([0.5, 0.4, 1.0, 0.8, 0.3], requires_grad=True)
    pairs, weights = two_hop_pairs(BOTH, weight.repeat(2), 5)
    weights[(pairs[0] == 0) & (pairs[1] == 2)].sum().backward()
    torch.testing.assert_close(weight.grad, torch.tensor([0.2, 0.25, 0.4, 0.5, 0.0]))


def test_too_many_paths_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_hop, "MOST_PATHS", 10)
    with pytest.raises(GsscError, match="22 paths of two steps"):
        two_hop_pairs(BOTH, None, 5)
