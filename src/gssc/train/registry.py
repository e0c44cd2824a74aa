"""The training of each model, by the model's name, and how each sparsifier is trained under it.

See :mod:`gssc.models.registry` and :mod:`gssc.sparsify.registry`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gssc.errors import GsscError
from gssc.models.registry import model_entry
from gssc.sparsify.registry import sparsifier_class

if TYPE_CHECKING:
    from gssc.config import RunConfig
    from gssc.graph import Graph

# The trainings that stream a graph from disk, by model.
STREAMED = {
    "gssc": "gssc.learner.streamed:StreamedLearner",
    "str_contrast": "gssc.train.stream:StreamedTraining",
}
# Ways that need a loss that depends on edges; a model that only trains on pairs has no such loss (Sec. III-D).
THROUGH_MESSAGES = ("loss", "validation")
WITHOUT_GRADIENT = ("gssc.train.spread", "gssc.learner.closed_form")  # modules of trainings without a gradient


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
    """Return the memory that a graph's features as float32 and its edges in both directions as int64 take, in GB."""
    return (4 * graph.num_nodes * graph.num_features + 32 * graph.num_edges) / 1e9


def training_way(model: str, sparsifier: str) -> str | None:
    """Return how a sparsifier learns under a model: ``loss``, ``validation``, ``homophily``, or None for not at all.

    >>> training_way("gcn", "str_sparse"), training_way("str_contrast", "str_sparse"), training_way("gcn", "drop_edge")
    ('loss', 'homophily', None)

    Raises:
        GsscError: if the combination is impossible, with the reason.
    """
    entry, ways = model_entry(model), sparsifier_class(sparsifier).trained_by
    kind = entry.load()
    if sparsifier == "none":
        return None
    if not kind.learns_from_edges:
        raise GsscError(f"{model} does not use edges, so {sparsifier} cannot change it: use {model} with none")
    if not ways:
        return None
    if entry.loop in WITHOUT_GRADIENT:
        raise GsscError(
            f"{model} has no gradient and no epochs, so {sparsifier} has nothing to learn from: use a sparsifier that "
            "is not trained, such as drop_edge or spectral"
        )
    if kind.passes_messages:
        return next(way for way in ways if way in THROUGH_MESSAGES)
    return "homophily"


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
