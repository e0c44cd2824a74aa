"""Eq. 13 for pairs that are mixed at the outputs, with its gradient in closed form.

Where ``model.mix_at`` is ``output``, a row passes the network once per batch. Terms of one row are computed once
per row, terms of both ends of a pair once per pair, and the gradient uses the same arrays.
The value is that of :mod:`gssc.train.losses` on :meth:`gssc.models.str_contrast.RowLogits.pairs`, up to rounding.

Shapes: U rows in a batch, B pairs, C classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gssc.models.str_contrast import RowLogits


def weighted_targets(
    out: RowLogits,
    labels: Tensor,
    soft: Tensor | None,
    class_weight: Tensor | None,
    of_pairs: float = 1.0,
    of_labels: float = 1.0,
) -> Tensor:
    """Return the training target of every row, times the weight of one end, [U, C].

    Targets are known labels, weighted as in Eq. 12, plus the probabilities of a teacher.

    Args:
        out: outputs of the batch.
        labels: class of both ends, -1 where unknown, [2, B]; all ends of the same row have the same label.
        soft: the teacher's probabilities of rows, [U, C]; None without a teacher.
        class_weight: weight of each class, [C].
        of_pairs, of_labels: factors of the means over pairs and over labels.
    """
    empty = torch.zeros(out.y.shape, device=out.y.device)
    targets = empty if soft is None else soft * (of_pairs / out.ends.numel())
    known = labels >= 0
    classes = labels[known]
    if len(classes):
        weights = targets.new_ones(len(classes)) if class_weight is None else class_weight[classes]
        of_known = torch.zeros_like(targets)
        of_known[out.ends[known], classes] = 2 * of_labels / weights.sum() * weights
        targets += of_known
    return targets


def row_losses(
    out: RowLogits, targets: Tensor, smoothness_weight: float, negative_weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the total loss, and without gradient its classification part and l_ij of every pair, [B].

    The classification loss of an end with target t and prediction y, whose pair mixes to z (Eq. 8), is the cross
    entropy of t with softmax(y) plus that with softmax(z).

    Args:
        out: outputs of the batch.
        targets: weighted targets of rows, [U, C], see :func:`weighted_targets`.
        smoothness_weight: weight of l_ij of one pair.
        negative_weight: weight of the negative term within l_ij.
    """
    logits = (out.y.float(), out.z.float(), out.beta.float())
    found: tuple[Tensor, Tensor, Tensor] = _RowLosses.apply(
        *logits, out.ends, out.negative, targets, smoothness_weight, negative_weight
    )
    return found


class _RowLosses(torch.autograd.Function):
    """Computes the gradient in the forward pass, which has every array it needs."""

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        z: Tensor,
        beta: Tensor,
        ends: Tensor,
        negative: Tensor | None,
        targets: Tensor,
        smoothness_weight: float,
        negative_weight: float,
    ) -> tuple[Tensor, ...]:
        step = 2 * smoothness_weight / y.shape[1]
        mass, times = _row_sums(targets), torch.bincount(ends.flatten(), minlength=len(y)).to(y.dtype)
        log_sum, y_share = _log_sum_and_softmax(y)
        classified = times @ (mass * log_sum - _row_sums(targets * y))
        to_y, to_z, to_beta = _scaled(_scaled(y_share, mass) - targets, times), torch.zeros_like(z), []

        first, second = (z.index_select(0, end) for end in ends)
        apart, to_mixed, distance = second - first, [], torch.zeros_like(beta[0])
        for end, start, share, side in zip(ends, (first, second), beta, (1, -1), strict=True):
            mixed = torch.addcmul(start, apart, share.unsqueeze(1), value=side)
            log_sum, grad = _log_sum_and_softmax(mixed)
            target, end_mass = targets.index_select(0, end), mass.index_select(0, end)
            classified += end_mass @ log_sum - target.flatten() @ mixed.flatten()
            pull = y.index_select(0, end).sub_(mixed)
            distance += _row_sums(pull.square())
            pull *= step
            to_y.index_add_(0, end, pull)
            to_mixed.append(grad.mul_(end_mass.unsqueeze(1)).sub_(target).sub_(pull))
            to_beta.append(side * _row_sums(grad * apart))
        # A mixed point is (1 - beta) of its own end plus beta of the other, and so is its gradient.
        moved = _scaled(to_mixed[1], beta[1]) - _scaled(to_mixed[0], beta[0])
        to_z.index_add_(0, ends[0], to_mixed[0].add_(moved)).index_add_(0, ends[1], to_mixed[1].sub_(moved))

        if negative is not None and negative_weight:
            _, z_share = _log_sum_and_softmax(z)
            drawn = z_share.index_select(0, negative)
            to_y_share, to_z_share, gaps = torch.zeros_like(y), torch.zeros_like(z), torch.zeros_like(drawn)
            for end in ends:
                gap = y_share.index_select(0, end).sub_(drawn)
                distance -= negative_weight * _row_sums(gap.square())
                to_y_share.index_add_(0, end, gap)
                gaps += gap
            to_z_share.index_add_(0, negative, gaps)
            to_y -= negative_weight * step * _through_softmax(y_share, to_y_share)
            to_z += negative_weight * step * _through_softmax(z_share, to_z_share)

        ctx.save_for_backward(to_y, to_z, torch.stack(to_beta))
        smoothness = distance / y.shape[1]
        total = classified + smoothness_weight * smoothness.sum()
        ctx.mark_non_differentiable(classified, smoothness)
        return total, classified, smoothness

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        to_y, to_z, to_beta = ctx.saved_tensors
        return grad * to_y, grad * to_z, grad * to_beta, *[None] * 5


def _row_sums(rows: Tensor) -> Tensor:
    """Return the sum of each row, [n]; as a product it is fast for few columns too."""
    return rows @ rows.new_ones(rows.shape[1])


def _scaled(rows: Tensor, factors: Tensor) -> Tensor:
    """Return every row times its factor."""
    return rows * factors.unsqueeze(1)


def _log_sum_and_softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logarithm of the sum of exponentials of each row, [n], and its softmax, [n, C]."""
    top = logits.amax(1)
    powers = (logits - top.unsqueeze(1)).exp_()
    total = _row_sums(powers)
    return total.log() + top, powers.div_(total.unsqueeze(1))


def _through_softmax(share: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient of logits from that of their softmax, both [n, C]."""
    return share * (grad - _row_sums(share * grad).unsqueeze(1))
