"""Rows of a batch by role: both ends of every pair, the mixed point between them (Eq. 8), and negatives.

Gradients are hand-written so that each row is written once in the forward and once in the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _MixEnds(torch.autograd.Function):
    """Mix both directions at once, without flipped copies in the forward or backward pass."""

    @staticmethod
    def forward(ctx: Any, ends: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(ends, beta)
        return write_mixed(ends, beta, torch.empty_like(ends))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ends, beta = ctx.saved_tensors
        to_ends = add_to_ends(torch.zeros_like(ends), grad, beta)
        return to_ends, gradient_of_beta(ends, grad) if ctx.needs_input_grad[1] else None


class _GatherAndMix(torch.autograd.Function):
    """Write the rows of both ends, of the mixed points, and of any negatives to one array."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, positions: Tensor, beta: Tensor) -> Tensor:
        pairs, width = beta.shape[1], rows.shape[1]
        out = rows.new_empty(len(positions) // pairs + 2, pairs, width)
        for part, places in ((out[:2], positions[: 2 * pairs]), (out[4:], positions[2 * pairs :])):
            torch.index_select(rows, 0, places, out=part.view(-1, width))
        write_mixed(out[:2], beta, out[2:4])
        ctx.save_for_backward(out, positions, beta)
        ctx.count = len(rows)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, positions, beta = ctx.saved_tensors
        ends, mixed, drawn = grad.split([2, 2, len(grad) - 4])
        to_ends = add_to_ends(ends, mixed, beta).flatten(0, 1)
        to_rows = grad.new_zeros(ctx.count, grad.shape[2]).index_add_(0, positions[: len(to_ends)], to_ends)
        if len(drawn):
            to_rows.index_add_(0, positions[len(to_ends) :], drawn[0])
        return to_rows, None, gradient_of_beta(out[:2], mixed) if ctx.needs_input_grad[2] else None


def write_mixed(ends: Tensor, beta: Tensor, out: Tensor) -> Tensor:
    """Write (1 - beta) * end + beta * other end to ``out`` and return it."""
    for near, far in ((0, 1), (1, 0)):
        torch.lerp(ends[near], ends[far], beta[near].unsqueeze(1), out=out[near])
    return out


def add_to_ends(grad: Tensor, mixed_grad: Tensor, beta: Tensor) -> Tensor:
    """Return the gradient of both ends: their own, plus their shares of the gradient of the mixed points."""
    total = torch.addcmul(grad, mixed_grad, (1 - beta).unsqueeze(2))
    for near, far in ((0, 1), (1, 0)):
        total[far].addcmul_(mixed_grad[near], beta[near].unsqueeze(1))
    return total


def gradient_of_beta(ends: Tensor, mixed_grad: Tensor) -> Tensor:
    """Return the gradient of beta, [2, B]: the product of (other end - end) with that of the mixed point."""
    to_beta = torch.einsum("bf,dbf->db", ends[1] - ends[0], mixed_grad)
    to_beta[1].neg_()
    return to_beta


def in_single(x: Tensor) -> Tensor:
    """Return a tensor of half precision (from mixed precision training) in single precision; others unchanged."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def mix_ends(ends: Tensor, beta: Tensor) -> Tensor:
    """Return (1 - beta) * end + beta * other end for both ends of every pair, [2, B, width] with beta [2, B]."""
    return _MixEnds.apply(in_single(ends), in_single(beta))


def gather_and_mix(rows: Tensor, positions: Tensor, beta: Tensor) -> Tensor:
    """Return rows by role: sources, targets, the mixed point of each, and drawn negatives, [4 or 5, B, width].

    Args:
        rows: one row per node, [U, width].
        positions: positions of sources, targets and, if there are any, negatives among the rows, [2 * B or 3 * B].
        beta: mixing weights of both directions, [2, B].
    """
    return _GatherAndMix.apply(in_single(rows), positions, in_single(beta))


class _Windows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, stop: int, start: int) -> tuple[Tensor, Tensor]:
        ctx.bounds = stop, start
        return x[:stop], x[start:]

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> tuple[Tensor | None, ...]:
        stop, start = ctx.bounds
        both, rest = second.split([stop - start, len(second) - (stop - start)])
        grad = torch.cat([first, rest])
        grad[start:stop].add_(both)
        return grad, None, None


def windows(x: Tensor, stop: int, start: int) -> tuple[Tensor, Tensor]:
    """Return x[:stop] and x[start:], which may overlap, without a copy; the backward pass makes one."""
    return _Windows.apply(x, stop, start)
