"""The training of each model, by the model's name; see :mod:`gssc.models.registry`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gssc.models.registry import model_entry


def training_class(model: str) -> Any:
    """Return the subclass of :class:`~gssc.train.training.Training` that trains a model.

    >>> training_class("gcn").__name__
    'SupervisedTraining'
    """
    module, _, name = model_entry(model).training.partition(":")
    return getattr(import_module(module), name)
