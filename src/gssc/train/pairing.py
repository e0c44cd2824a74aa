"""How each sparsifier is trained under each model, and which combinations are impossible."""

from __future__ import annotations

from gssc.errors import GsscError
from gssc.models.registry import model_entry
from gssc.sparsify.registry import sparsifier_class

# Through a loss that depends on edges; a model that only trains on pairs has no such loss (Sec. III-D).
THROUGH_MESSAGES = ("loss", "validation")
WITHOUT_GRADIENT = ("gssc.train.spread", "gssc.learner.closed_form")  # trainings without a gradient


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
