"""The parts between linear maps: batch norm by role, activation, dropout.

They are written out with their gradients because they, and not the matrix products, would otherwise take most of an
epoch on a CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.config import ModelConfig

LEAKY_SLOPE = 0.01
NORM_EPS = 1e-5
NORM_MOMENTUM = 0.1


class RoleNorm(nn.Module):
    """Batch norm of rows grouped by role, [groups, rows, width], each group by its own statistics.

    Mixed points vary less than endpoints, and one set of statistics for both costs accuracy. Only the first
    ``tracked`` groups enter the running statistics, because rows met at prediction are rows of that kind.
    """

    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor, training: bool, tracked: int) -> Tensor:
        """Normalise by the statistics of these rows in training, by the running ones otherwise."""
        if training and x.shape[1] > 1:
            return _RoleNorm.apply(x, self.scale, self.shift, self.running_mean, self.running_var, tracked)
        return F.batch_norm(
            x.flatten(0, 1), self.running_mean, self.running_var, self.scale, self.shift, eps=NORM_EPS
        ).view_as(x)

    def affine(self) -> tuple[Tensor, Tensor]:
        """At prediction the norm is factor * x + offset; the deployed model folds it into a linear map."""
        factor = self.scale / (self.running_var + NORM_EPS).sqrt()
        return factor, self.shift - factor * self.running_mean


class _RoleNorm(torch.autograd.Function):
    """One native batch norm a group, written straight into one result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, var: Tensor, tracked: int) -> Tensor:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        stats = x.new_empty(2, len(x), x.shape[2])  # mean and 1/std of each group
        for group, rows in enumerate(x):
            running = (mean, var) if group < tracked else (None, None)
            settings = (scale, shift, *running, True, NORM_MOMENTUM, NORM_EPS)
            torch.ops.aten.native_batch_norm.out(
                rows, *settings, out=out[group], save_mean=stats[0, group], save_invstd=stats[1, group]
            )
        ctx.save_for_backward(x, scale, stats)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, stats = ctx.saved_tensors
        backward = torch.ops.aten.native_batch_norm_backward
        parts = [
            backward(g, rows, scale, None, None, m, s, True, NORM_EPS, [True, True, True])
            for g, rows, m, s in zip(grad, x, stats[0], stats[1], strict=True)
        ]
        rows, scales, shifts = (torch.stack(part) for part in zip(*parts, strict=True))
        return rows, scales.sum(0), shifts.sum(0), None, None, None


class _ActivateAndDrop(torch.autograd.Function):
    """Leaky ReLU times a dropout mask. The sign of the result is all the gradient needs to know of the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, slope: float) -> Tensor:
        out = F.leaky_relu(x, slope).mul_(mask)
        ctx.save_for_backward(out, mask)
        ctx.slope = slope
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, mask = ctx.saved_tensors
        return torch.ops.aten.leaky_relu_backward(grad * mask, out, ctx.slope, True), None, None


class _MixEnds(torch.autograd.Function):
    """Both directions at once, with no flipped copies on the way there or back."""

    @staticmethod
    def forward(ctx: Any, ends: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(ends, beta)
        mixed = torch.empty_like(ends)
        for near, far in ((0, 1), (1, 0)):
            torch.lerp(ends[near], ends[far], beta[near].unsqueeze(1), out=mixed[near])
        return mixed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ends, beta = ctx.saved_tensors
        to_ends = grad * (1 - beta).unsqueeze(2)
        for near, far in ((0, 1), (1, 0)):
            to_ends[far].addcmul_(grad[near], beta[near].unsqueeze(1))
        if not ctx.needs_input_grad[1]:
            return to_ends, None
        step = ends[1] - ends[0]
        to_beta = torch.einsum("bf,dbf->db", step, grad)
        return to_ends, to_beta * to_beta.new_tensor([[1.0], [-1.0]])


def mix_ends(ends: Tensor, beta: Tensor) -> Tensor:
    """(1 - beta) * end + beta * other end, for both ends of every pair, [2, B, width] with beta [2, B]."""
    return _MixEnds.apply(ends, beta)


class Block(nn.Module):
    """Batch norm, activation and dropout between two linear maps, for rows grouped by role."""

    def __init__(self, width: int, config: ModelConfig):
        super().__init__()
        self.config = config
        self.norm = RoleNorm(width)
        self.slope = LEAKY_SLOPE if config.activation == "leaky_relu" else 0.0

    def forward(self, x: Tensor, rng: np.random.Generator | None = None, tracked: int = 0) -> Tensor:
        """Training when a generator is given (statistics of these rows, dropout), prediction otherwise."""
        if self.config.norm_over == "batch":
            # All rows as one group; they are tracked together or not at all.
            whole = self._grouped(x.flatten(0, 1).unsqueeze(0), rng, min(tracked, 1))
            return whole.view_as(x)
        return self._grouped(x, rng, tracked)

    def _grouped(self, x: Tensor, rng: np.random.Generator | None, tracked: int) -> Tensor:
        mask = None if rng is None else dropout_mask(x.shape, self.config.dropout, rng)
        if self.config.block == "activation_first":
            x = self.norm(F.leaky_relu(x, self.slope), rng is not None, tracked)
            return x if mask is None else x * mask
        x = self.norm(x, rng is not None, tracked)
        return F.leaky_relu(x, self.slope) if mask is None else _ActivateAndDrop.apply(x, mask, self.slope)


def dropout_mask(shape: torch.Size, rate: float, rng: np.random.Generator) -> Tensor | None:
    """A dropout mask cut from random bytes: many times cheaper than drawing one float a unit.

    The rate is rounded to the nearest 1/256; kept units are scaled so that the expectation stays.
    """
    cut = round(rate * 256)
    if cut <= 0:
        return None
    words = rng.integers(0, 2**64, -(-shape.numel() // 8), dtype=np.uint64)
    mask = torch.from_numpy(words.view(np.uint8)[: shape.numel()]).float()
    return mask.ge_(cut).mul_(256 / (256 - cut)).view(shape)
