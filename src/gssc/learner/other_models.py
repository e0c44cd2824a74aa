"""Other models as teachers: which of them are trained, and which of their opinions join the pool.

An opinion is a teacher's class probabilities of every node. The pool holds the opinions of all teachers, and the
faculty fits the teachers that need no epochs.
"""

from __future__ import annotations

import torch

from gssc.errors import GsscError
from gssc.features import stored_values
from gssc.graph import Graph
from gssc.learner.faculty import Faculty
from gssc.learner.jury import Jury
from gssc.learner.pool import Pool, Views
from gssc.models.registry import model_entry
from gssc.models.settings import GsscSettings

MOST_EDGES = 50_000  # times fits, above which no other model is tried by default
MOST_NUMBERS = 2_000_000  # the same for the values of the rows


def models_to_ask(wanted: str, faculty: Faculty) -> list[str]:
    """Return the names of the models to train: those in the settings or, with ``auto``, the one that the graph suits.

    If opinions are cross-validated, that is a GCN where averages over edges make the best linear teacher; with enough
    validation labels, training on pairs adds as much. Elsewhere and with validation labels it is GraphSAGE, which can
    learn from neighbours of other classes in ways that no linear teacher can. There is none if it would take longer
    than all other teachers, or if labels have weights, which models trained in epochs do not use.

    Args:
        wanted: names separated by commas, ``auto`` or ``none``.
        faculty: the teachers that have been fitted before.
    """
    if wanted != "auto":
        return names_of(wanted)
    jury, graph, fits = faculty.jury, faculty.graph, len(faculty.jury.views)
    is_small = 0 < graph.num_edges * fits <= MOST_EDGES and stored_values(graph.features) * fits <= MOST_NUMBERS
    if not is_small or jury.weighs or not faculty.pool.opinions:
        return []
    suited = "gcn" if faculty.neighbours_are_alike() else "sage"
    return [suited] if jury.cross_validates == (suited == "gcn") else []


def check_names(wanted: str) -> None:
    """Refuse names of no model, and the learner's own."""
    for name in names_of(wanted):
        if name == GsscSettings.name:
            raise GsscError(f"teachers.models: {name} is the learner itself; name other models")
        model_entry(name)


def names_of(wanted: str) -> list[str]:
    """Return the model names in a setting of ``teachers.models``; none for ``auto`` and ``none``."""
    return [] if wanted in ("auto", "none") else [name.strip() for name in wanted.split(",") if name.strip()]


def trained_opinion(name: str, seen: Graph, scaling: str, jury: Jury, seed: int) -> Views:
    """Train a model in every view with its general settings, not those for a dataset of this name.

    Validation labels select its epoch if there are enough of them; with fewer, the last one is kept.

    Args:
        name: name of the model.
        seen: the part of the graph that training may use.
        scaling: scaling of rows.
        jury: has the views of the training labels.
        seed: seed of the training.
    """
    from gssc.recipes import config_for
    from gssc.train.registry import training_class

    config = config_for(name, None, None, {"train": {"seed": seed, "normalize": scaling}})
    seen = seen.with_(val=None if jury.cross_validates else seen.val, test=None)
    views: Views = ()
    for train in jury.views:
        model = training_class(name)(seen.with_(train=train), config)
        for _ in model.epochs():
            pass
        views += (seen.task.probabilities(torch.from_numpy(model.outcome().scores)).numpy(),)
    return views


def is_ahead(name: str, views: Views, pool: Pool) -> tuple[bool, str]:
    """Return whether an opinion joins the teachers, and a sentence on it.

    With cross-validation it always does. Otherwise its epoch was selected on the labels that rank it, which biases its
    score upwards, so it joins only if it is ahead of all others by more than a standard error.
    """
    if pool.jury.cross_validates:
        return True, f"{name} joins the teachers: held-out score {pool.jury.score(views):.3f}"
    score, best = pool.jury.score(views), pool.jury.score(pool.opinions[pool.best(1)[0]])
    ahead = score - best > pool.jury.standard_error(best)
    verdict = "joins the teachers" if ahead else "does not join the teachers"
    return ahead, f"{name} {verdict}: held-out score {score:.3f}, best of the others {best:.3f}"
