"""Losses of pairs mixed at the outputs: equal to the general ones, and right where they can be computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gssc.models.str_contrast import RowLogits
from gssc.tasks import Classes
from gssc.train import losses
from gssc.train.row_losses import row_losses, weighted_targets

ROWS, PAIRS, CLASSES = 6, 9, 4


def outputs(negatives: bool = True) -> RowLogits:
    generator = torch.Generator().manual_seed(0)
    y, z = (3 * torch.randn(ROWS, CLASSES, generator=generator) for _ in range(2))
    beta = torch.rand(2, PAIRS, generator=generator)
    ends = torch.randint(0, ROWS, (2, PAIRS), generator=generator)
    negative = torch.randint(0, ROWS, (PAIRS,), generator=generator) if negatives else None
    return RowLogits(*(part.requires_grad_() for part in (y, z, beta)), ends, negative)


def in_general(
    out: RowLogits, labels: Tensor, soft: Tensor | None, weight: Tensor | None, scales: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor]:
    """The same losses by the functions that every way of mixing uses."""
    task, pairs = Classes(CLASSES), out.pairs()
    smoothness = losses.pair_smoothness(task, pairs.endpoints, pairs.mixed, pairs.negatives, 0.7)
    classified = scales[1] * losses.classification(task, pairs.endpoints, pairs.mixed, labels, weight)
    if soft is not None:
        ends, mixed = (task.soft_loss(part.mT, soft[out.ends].mT) for part in (pairs.endpoints, pairs.mixed))
        classified = classified + scales[0] * (ends + mixed)
    return 0.3 * scales[0] * smoothness.mean() + classified, classified, smoothness


@pytest.mark.parametrize("known", ["some", "all", "none"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("taught", [True, False])
@pytest.mark.parametrize("negatives", [True, False])
def test_values_and_gradients_are_those_of_the_general_losses(
    negatives: bool, taught: bool, weighted: bool, known: str
) -> None:
    of_rows = {"some": [0, -1, 2, 2, -1, 1], "all": [0, 3, 2, 2, 1, 1], "none": [-1] * ROWS}[known]
    soft = torch.rand(ROWS, CLASSES, generator=torch.Generator().manual_seed(1)).softmax(1) if taught else None
    weight = torch.tensor([0.5, 1.0, 2.0, 0.25]) if weighted else None
    scales, found = (0.9, 1.2), []
    for closed in (True, False):
        out = outputs(negatives)
        labels = torch.tensor(of_rows)[out.ends]
        if closed:
            targets = weighted_targets(out, labels, soft, weight, *scales)
            values = row_losses(out, targets, 0.3 * scales[0] / PAIRS, 0.7)
        else:
            values = in_general(out, labels, soft, weight, scales)
        (2 * values[0]).backward()
        found.append([*values, out.y.grad, out.z.grad, out.beta.grad])
    for closed_form, general in zip(*found, strict=True):
        torch.testing.assert_close(closed_form, general, rtol=1e-4, atol=1e-5)


def test_one_pair_by_hand() -> None:
    """Ends with y = 0 and z = (2, 0) and (0, 0), mixed half and half to (1, 0); the first has class 0."""
    z = torch.tensor([[2.0, 0.0], [0.0, 0.0]], requires_grad=True)
    y, beta, ends = torch.zeros(2, 2, requires_grad=True), torch.full((2, 1), 0.5), torch.tensor([[0], [1]])
    out = RowLogits(y, z, beta, ends, torch.tensor([1]))
    targets = weighted_targets(out, torch.tensor([[0], [-1]]), None, None)
    assert targets.tolist() == [[2.0, 0.0], [0.0, 0.0]]
    total, classified, smoothness = row_losses(out, targets, 1.0, 1.0)
    cross_entropy = math.log(2) + math.log(1 + math.exp(-1))
    assert classified.item() == pytest.approx(2 * cross_entropy, rel=1e-6)
    # Both ends are at distance (1, 0) from their mixed point; all probabilities that are pushed apart are 1/2.
    assert smoothness.tolist() == [pytest.approx(1.0)]
    assert total.item() == pytest.approx(2 * cross_entropy + 1, rel=1e-6)
    total.backward()
    # Of y: twice softmax minus class at the first end; at both ends, the mean square of 0 - (1, 0).
    torch.testing.assert_close(y.grad, torch.tensor([[-1.0, 1.0], [0.0, 0.0]]) + torch.tensor([-1.0, 0.0]))
    # Of both mixed points: +1 from the mean square; of the first, twice softmax minus class too. Half to each end.
    slope = 2 * (1 / (1 + math.exp(-1)) - 1)
    torch.testing.assert_close(z.grad, torch.tensor([[1 + slope / 2, -slope / 2]]).expand(2, 2))


def test_large_logits_stay_finite() -> None:
    out = outputs()
    big = RowLogits(
        *((1000 * part).detach().requires_grad_() for part in (out.y, out.z)), out.beta, out.ends, out.negative
    )
    total, *_ = row_losses(big, weighted_targets(big, torch.zeros(2, PAIRS, dtype=torch.long), None, None), 0.0, 1.0)
    total.backward()
    assert math.isfinite(total.item())
    assert big.y.grad is not None
    assert big.y.grad.isfinite().all()
