"""The operations between linear maps: batch norm by role, activation, dropout.

There are two implementations. The plain one is ordinary torch and runs on any device. The fast one, for CPUs, has
hand-written gradients, because otherwise these operations, not the matrix products, would take most of an epoch. A test
compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.deploy.forward import LEAKY_SLOPE
from gssc.models.dropout import dropout_mask

if TYPE_CHECKING:
    from gssc.models.settings import STRContrastSettings

NORM_EPS = 1e-5
NORM_MOMENTUM = 0.1


class RoleNorm(nn.Module):
    """Batch norm of rows grouped by role, [groups, rows, width], each group by its own statistics.

    Mixed points vary less than endpoints, and one set of statistics for both costs accuracy. Only the first
    ``tracked`` groups enter the running statistics, because prediction has only rows of that kind.
    """

    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor, tracked: int, plain: bool = False) -> Tensor:
        """Return rows normalised by their own statistics in training, by the running statistics otherwise.

        A single row has no statistics of its own: it is normalised by the running ones in training too.
        """
        if self.training and x.shape[1] > 1:
            return self._by_group(x, tracked) if plain else _RoleNorm.apply(x, tracked, *self.parts())
        return self._normalized(x.flatten(0, 1), self.running_mean, self.running_var, False).view_as(x)

    def _by_group(self, x: Tensor, tracked: int) -> Tensor:
        followed = [self._normalized(rows, self.running_mean, self.running_var, True) for rows in x[:tracked]]
        return torch.stack(followed + [self._normalized(rows, None, None, True) for rows in x[tracked:]])

    def _normalized(self, rows: Tensor, mean: Tensor | None, var: Tensor | None, training: bool) -> Tensor:
        return F.batch_norm(rows, mean, var, self.scale, self.shift, training, NORM_MOMENTUM, NORM_EPS)

    def parts(self) -> tuple[Tensor, ...]:
        """Return scale, shift and running statistics."""
        return self.scale, self.shift, self.running_mean, self.running_var

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return factor and offset of the norm at prediction, factor * x + offset, which deployment folds."""
        factor = self.scale / (self.running_var + NORM_EPS).sqrt()
        return factor, self.shift - factor * self.running_mean


class NoNorm(nn.Module):
    """Replaces :class:`RoleNorm` in models without batch norm."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, x: Tensor, tracked: int, plain: bool = False) -> Tensor:
        """Return the rows unchanged."""
        return x

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return factor one and offset zero."""
        return torch.ones(self.width), torch.zeros(self.width)


class _Norm:
    """Batch norm of each group by its own statistics, forward and backward; only the input array is kept."""

    def __init__(self, x: Tensor, scale: Tensor):
        self.x, self.scale = x, scale
        self.mean, self.inverse = x.new_empty(2, len(x), x.shape[2])  # mean and 1/std of each group

    def forward(self, tracked: int, shift: Tensor, running: tuple[Tensor, ...]) -> Tensor:
        """Return scale * (x - mean) / std + shift; each tracked group in turn updates the running statistics."""
        out = torch.empty_like(self.x, memory_format=torch.contiguous_format)
        for group, rows in enumerate(self.x):
            settings = (*(running if group < tracked else (None, None)), True, NORM_MOMENTUM, NORM_EPS)
            places = {"out": out[group], "save_mean": self.mean[group], "save_invstd": self.inverse[group]}
            torch.ops.aten.native_batch_norm.out(rows, self.scale, shift, *settings, **places)
        return out

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Turn the gradient of the output into that of the input, in place, and return those of scale and shift.

        With h = (x - mean) / std, s the sum of g over n rows and t that of g * h, the gradient of x is
        (scale / std) * (g - s / n - h * t / n): a multiple of g, one of x, and a constant.
        """
        to_shift = grad.sum(1)
        to_scale = (column_products(grad, self.x) - self.mean * to_shift) * self.inverse
        by_grad = self.scale * self.inverse
        share = by_grad / -grad.shape[1]
        by_rows = share * to_scale * self.inverse
        constant = share * to_shift - by_rows * self.mean
        spare = torch.empty_like(grad[0])
        for group, rows in enumerate(self.x):
            torch.addcmul(constant[group], rows, by_rows[group], out=spare)
            torch.addcmul(spare, grad[group], by_grad[group], out=grad[group])
        return to_scale.sum(0), to_shift.sum(0)


def column_products(first: Tensor, second: Tensor) -> Tensor:
    """Return the sum over rows of first * second, [groups, width]; unlike torch, NumPy needs no temporary array."""
    return torch.from_numpy(np.einsum("gnf,gnf->gf", first.numpy(), second.numpy()))


class _RoleNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, tracked: int, scale: Tensor, shift: Tensor, *running: Tensor) -> Tensor:
        ctx.norm = _Norm(x, scale)
        return ctx.norm.forward(tracked, shift, running)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        to_x = grad.clone(memory_format=torch.contiguous_format)
        norm, ctx.norm = ctx.norm, None
        return to_x, None, *norm.backward(to_x), None, None


class _NormActivateDrop(torch.autograd.Function):
    """Batch norm, leaky ReLU, and a dropout mask.

    Memory traffic dominates the time here, so the mask's array is reused: first for the factor of both result and
    gradient, and finally for the gradient itself. A second backward pass is therefore not possible.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mask: Tensor, slope: float, tracked: int, scale: Tensor, shift: Tensor, *running: Tensor
    ) -> Tensor:
        ctx.norm = _Norm(x, scale)
        out = ctx.norm.forward(tracked, shift, running)
        torch.ops.aten.leaky_relu_backward.grad_input(mask, out, slope, False, grad_input=mask)
        ctx.gate = mask
        return out.mul_(mask)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        to_x, norm = ctx.gate.mul_(grad), ctx.norm
        ctx.gate = ctx.norm = None  # the next batch needs the memory before Python frees this context
        return to_x, None, None, None, *norm.backward(to_x), None, None


class NormActivation(nn.Module):
    """Batch norm, activation and dropout between two linear maps, for rows grouped by role.

    As in any torch module, ``train()`` selects the statistics of the given rows and dropout, ``eval()`` the running
    statistics and no dropout.

    Args:
        width: number of columns of the rows.
        config: see :class:`gssc.models.settings.STRContrastSettings`.
        rng: draws dropout masks on a CPU; other devices use torch's generator.
        plain: compute everything with ordinary torch, as on devices other than a CPU.
    """

    def __init__(self, width: int, config: STRContrastSettings, rng: np.random.Generator, plain: bool = False):
        super().__init__()
        self.config, self.rng, self.plain = config, rng, plain
        self.norm = RoleNorm(width) if config.norm == "batch" else NoNorm(width)
        self.slope = LEAKY_SLOPE if config.activation == "leaky_relu" else 0.0

    def forward(self, x: Tensor, tracked: int = 0) -> Tensor:
        """Return the rows [groups, rows, width] after norm, activation and dropout.

        In training, the first ``tracked`` groups enter the running statistics.
        """
        plain = self.plain or x.device.type != "cpu"
        mask = self._mask(x) if self.training else None
        in_one_go = isinstance(self.norm, RoleNorm) and self.config.layer_order == "norm_first" and x.shape[1] > 1
        if self.training and not plain and in_one_go:
            assert isinstance(self.norm, RoleNorm)
            mask = torch.ones_like(x) if mask is None else mask
            return _NormActivateDrop.apply(x, mask, self.slope, tracked, *self.norm.parts())
        if self.config.layer_order == "norm_first":
            x = F.leaky_relu(self.norm(x, tracked, plain), self.slope)
        else:
            x = self.norm(F.leaky_relu(x, self.slope), tracked, plain)
        return x if mask is None else x * mask

    def _mask(self, x: Tensor) -> Tensor | None:
        rate = self.config.dropout
        if x.device.type == "cpu":
            return dropout_mask(x.shape, rate, self.rng)
        return F.dropout(torch.ones_like(x), rate) if rate else None
