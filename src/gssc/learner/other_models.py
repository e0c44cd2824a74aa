"""Other models as teachers: which of them are trained, and which of their opinions join the pool.

An opinion is a teacher's class probabilities of every node. The pool holds the opinions of all teachers, and the
faculty fits the teachers that need no epochs.
"""

from __future__ import annotations

import numpy as np
import torch

from gssc.errors import GsscError
from gssc.features import stored_values
from gssc.graph import Graph
from gssc.learner.faculty import Faculty
from gssc.learner.pool import Pool, Views
from gssc.models.registry import model_entry
from gssc.models.settings import GsscSettings

MOST_EDGES = 50_000  # times fits, above which no other model is tried by default
MOST_NUMBERS = 2_000_000  # the same for the values of the rows


def models_to_ask(wanted: str, faculty: Faculty) -> list[str]:
    """Return the names of the models to train: those in the settings or, with ``auto``, the one that the graph suits.

    With enough validation labels that is GraphSAGE, unless averages over edges make the best linear teacher: it can
    learn from neighbours of other classes in ways that no linear teacher can. With fewer it is a GCN, if they do; with
    validation labels training on pairs adds as much. There is none on large graphs, without labels to judge by, or if
    labels have weights, which models trained in epochs do not use.

    Args:
        wanted: names separated by commas, ``auto`` or ``none``.
        faculty: the teachers that have been fitted before.
    """
    if wanted != "auto":
        return names_of(wanted)
    jury, graph, fits = faculty.jury, faculty.graph, len(faculty.jury.views)
    is_small = 0 < graph.num_edges * fits <= MOST_EDGES and stored_values(graph.features) * fits <= MOST_NUMBERS
    if not is_small or jury.weighs or not len(jury.truth) or not faculty.pool.opinions:
        return []
    if jury.cross_validates:
        return ["gcn"] if faculty.neighbours_are_alike() else []
    return [] if faculty.neighbours_are_alike() else ["sage"]


def check_names(wanted: str) -> None:
    """Refuse names of no model, and the learner's own."""
    for name in names_of(wanted):
        if name == GsscSettings.name:
            raise GsscError(f"teachers.models: {name} is the learner itself; name other models")
        model_entry(name)


def names_of(wanted: str) -> list[str]:
    """Return the model names in a setting of ``teachers.models``; none for ``auto`` and ``none``."""
    return [] if wanted in ("auto", "none") else [name.strip() for name in wanted.split(",") if name.strip()]


def opinion_name(model: str) -> str:
    """Return the name of a model's opinion, which says whether it uses edges (:func:`gssc.learner.pool.uses_edges`)."""
    return f"{model} on rows and edges" if model_entry(model).load().passes_messages else f"{model} on rows"


def trained_view(name: str, seen: Graph, train: np.ndarray, scaling: str, selects: bool, seed: int) -> np.ndarray:
    """Train a model with its general settings, not those for a dataset of this name; return its probabilities, [N, C].

    Args:
        name: name of the model.
        seen: the part of the graph that training may use.
        train: nodes whose labels it is fitted to.
        scaling: scaling of rows.
        selects: whether validation labels select its epoch; otherwise the last one is kept.
        seed: seed of the training.
    """
    from gssc.recipes import config_for
    from gssc.train.registry import training_class

    config = config_for(name, None, None, {"train": {"seed": seed, "normalize": scaling}})
    problem = seen.with_(train=train, val=seen.val if selects else None, test=None)
    model = training_class(name)(problem, config)
    for _ in model.epochs():
        pass
    return np.asarray(seen.task.probabilities(torch.from_numpy(model.outcome().scores)).numpy())


def joins_teachers(name: str, views: Views, pool: Pool) -> tuple[bool, str]:
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
