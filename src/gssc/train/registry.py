"""The training of each model, by the model's name; see :mod:`gssc.models.registry`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gssc.models.registry import model_entry

if TYPE_CHECKING:
    from gssc.config import RunConfig
    from gssc.graph import Graph

# The trainings that stream a graph from disk, by model.
STREAMED = {
    "gssc": "gssc.learner.streamed:StreamedLearner",
    "str_contrast": "gssc.train.stream:StreamedTraining",
}


def training_class(model: str) -> Any:
    """Return the subclass of :class:`~gssc.train.training.Training` that trains a model.

    >>> training_class("gcn").__name__
    'SupervisedTraining'
    """
    return _named(model_entry(model).training)


def training_for(graph: Graph, config: RunConfig) -> Any:
    """Return the class that trains ``config.model`` on a graph; a graph on disk above ``train.memory`` is streamed."""
    name = config.model.name
    if name in STREAMED and graph.on_disk and gigabytes(graph) > config.train.memory:
        return _named(STREAMED[name])
    return training_class(name)


def gigabytes(graph: Graph) -> float:
    """Return the memory of a graph's features as float32 and of both directions of its edges as int64, in GB."""
    return (4 * graph.num_nodes * graph.num_features + 32 * graph.num_edges) / 1e9


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
