"""Which sparsifier can be trained how under which model, and which pairs make no sense."""

from __future__ import annotations

from gssc.errors import GsscError
from gssc.models.registry import model_entry
from gssc.sparsify.registry import sparsifier_class

# Through a loss that the edges take part in; a model that only trains on pairs has no such loss (Sec. III-D).
THROUGH_MESSAGES = ("loss", "validation")
WITHOUT_GRADIENT = ("gssc.train.spread", "gssc.learner.closed_form")  # trainings that have none


def training_way(model: str, sparsifier: str) -> str | None:
    """How this sparsifier learns under this model: ``loss``, ``validation``, ``homophily``, or not at all.

    >>> training_way("gcn", "str_sparse"), training_way("str_contrast", "str_sparse"), training_way("gcn", "drop_edge")
    ('loss', 'homophily', None)

    Raises:
        GsscError: if the pair is impossible, with the reason.
    """
    entry, ways = model_entry(model), sparsifier_class(sparsifier).trained_by
    kind = entry.load()
    if sparsifier == "none":
        return None
    if not kind.learns_from_edges:
        raise GsscError(f"{model} never looks at edges, so {sparsifier} cannot change it: use {model} with none")
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
