"""Helpers of all training loops: the optimiser, a gradient step, learning rate decay."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from torch import Tensor


def without_compiler() -> None:
    """Prevent torch from importing its compiler with the first optimiser, which takes a second or two.

    For our own processes, the command line and the workers of a sweep: it stays off for the whole process. Methods that
    torch excludes from compilation are then called directly, which is equivalent if nothing is compiled.
    """
    if "torch._dynamo" in sys.modules:
        return
    for method in vars(torch.optim.Optimizer).values():
        plain = getattr(method, "__wrapped__", None)
        if plain is not None:
            plain.__dict__.setdefault("__dynamo_disable", plain)  # torch checks this before it imports


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
