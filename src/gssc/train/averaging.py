"""A running average of a model's weights: steadier than any single step, and still one model."""

from __future__ import annotations

import copy
from typing import Any, Generic, TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


class AveragedModel(Generic[Model]):
    """Follows a model at a distance: after every step, ``average = decay * average + (1 - decay) * weights``.

    Early on the decay is smaller, so that the random start is soon forgotten. With a decay of 0 there is no second
    model: :attr:`model` is the one that is trained.

    Args:
        trained: the model that takes the steps.
        decay: of the average.
    """

    def __init__(self, trained: Model, decay: float):
        self.trained, self.decay, self.steps = trained, decay, 0
        self.model = copy.deepcopy(trained) if decay else trained

    @torch.no_grad()
    def follow(self) -> None:
        """Take in the weights as they are now, batch norm's running statistics included."""
        if not self.decay:
            return
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        pairs = zip(self.model.state_dict().values(), self.trained.state_dict().values(), strict=True)
        for average, now in pairs:
            if average.is_floating_point():
                average.lerp_(now, 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        """The average and the steps it has taken in; without an average, only the steps."""
        return {"steps": self.steps, "model": self.model.state_dict() if self.decay else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`state_dict`."""
        self.steps = state["steps"]
        if self.decay:
            self.model.load_state_dict(state["model"])
