"""Small things every loop needs: the optimiser, a step, a falling learning rate."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from torch import Tensor


def without_compiler() -> None:
    """Keep torch from importing its compiler when the first optimiser is made, which takes a second or two.

    For processes of our own, the command line and the workers of a sweep: it stays off for all of the process. Methods
    that torch excludes from compilation are then called as they are, which is the same where nothing is compiled.
    """
    if "torch._dynamo" in sys.modules:
        return
    for method in vars(torch.optim.Optimizer).values():
        plain = getattr(method, "__wrapped__", None)
        if plain is not None:
            plain.__dict__.setdefault("__dynamo_disable", plain)  # what torch looks for before it imports


def adam(parameters: Any, settings: Any) -> torch.optim.Adam:
    """The paper's optimiser, by ``settings.lr`` and ``settings.weight_decay``.

    The fused form is twice as fast on a CPU and equal up to rounding.
    """
    return torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)


def falling(progress: float) -> float:
    """A share of the learning rate that falls from one to a hundredth as progress goes from 0 to 1."""
    return 0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2


def descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """One step down the gradient."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
