"""Helpers of all training loops: the optimiser, a gradient step, learning rate decay, averaged weights."""

from __future__ import annotations

import copy
import math
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)


def adam(parameters: Any, lr: float, weight_decay: float) -> torch.optim.Adam:
    """Return the paper's optimiser, Adam.

    The fused form is twice as fast on a CPU and equal up to rounding.
    """
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)


def falling(progress: float) -> float:
    """Return the factor of the learning rate, which decays from one to a hundredth as progress goes from 0 to 1."""
    return 0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2


def descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Take one gradient step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class AveragedModel(Generic[Model]):
    """Averages the weights of a model: after every step, ``average = decay * average + (1 - decay) * weights``.

    Early on the decay is smaller, so that the random initial weights lose influence quickly. With a decay of 0 there is
    no second model: :attr:`model` is the trained one.

    Args:
        trained: the trained model.
        decay: decay of the average.
    """

    def __init__(self, trained: Model, decay: float):
        self.trained, self.decay, self.steps = trained, decay, 0
        self.model = copy.deepcopy(trained) if decay else trained

    @torch.no_grad()
    def follow(self) -> None:
        """Update the average with the current weights, including the running statistics of batch norm."""
        if not self.decay:
            return
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        pairs = zip(self.model.state_dict().values(), self.trained.state_dict().values(), strict=True)
        for average, now in pairs:
            if average.is_floating_point():
                average.lerp_(now, 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        """Return the average and its number of steps; without an average, only the steps."""
        return {"steps": self.steps, "model": self.model.state_dict() if self.decay else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`."""
        self.steps = state["steps"]
        if self.decay:
            self.model.load_state_dict(state["model"])
