"""Other models as teachers: which of them are trained, and which of their opinions join the pool.

An opinion is a teacher's class probabilities of every node. The pool holds the opinions of all teachers, and the
faculty fits the teachers that need no epochs.
"""

from __future__ import annotations

import torch

from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner.faculty import Faculty
from gssc.learner.jury import ENOUGH, Jury
from gssc.learner.pool import Pool, Views
from gssc.models.registry import model_entry
from gssc.models.settings import GsscSettings

MOST_EDGES = 50_000  # above, GraphSAGE is not tried by default: it takes longer than a GCN


def models_to_ask(wanted: str, faculty: Faculty) -> list[str]:
    """Return the names of the models to train: those in the settings or, with ``auto``, GraphSAGE on small graphs.

    GraphSAGE can learn from neighbours of other classes in ways that no linear teacher can, so it is left out where
    averages over edges make the best linear teacher. It is also left out if labels are weighted, since models that are
    trained in epochs do not use label weights.

    Args:
        wanted: names separated by commas, ``auto`` or ``none``.
        faculty: the teachers that have been fitted before.
    """
    if wanted == "auto":
        is_small = 0 < faculty.graph.num_edges <= MOST_EDGES and bool(faculty.pool.opinions)
        judged = not (faculty.jury.cross_validates or faculty.jury.weighs)
        return ["sage"] if is_small and judged and not faculty.neighbours_are_alike() else []
    return names_of(wanted)


def check_names(wanted: str, jury: Jury) -> None:
    """Refuse names of no model, the learner's own, and all names if there are too few validation labels to judge by."""
    for name in names_of(wanted):
        if name == GsscSettings.name:
            raise GsscError(f"teachers.models: {name} is the learner itself; name other models")
        model_entry(name)
        if jury.cross_validates:
            raise GsscError(f"teachers.models: {name} needs {ENOUGH} validation labels to be judged by")


def names_of(wanted: str) -> list[str]:
    """Return the model names in a setting of ``teachers.models``; none for ``auto`` and ``none``."""
    return [] if wanted in ("auto", "none") else [name.strip() for name in wanted.split(",") if name.strip()]


def trained_opinion(name: str, seen: Graph, scaling: str, seed: int) -> Views:
    """Train a model with its general settings, not those for a dataset of this name, and return its opinion.

    Args:
        name: name of the model.
        seen: the part of the graph that training may use.
        scaling: scaling of rows.
        seed: seed of the training.
    """
    from gssc.recipes import config_for
    from gssc.train.registry import training_class

    config = config_for(name, None, None, {"train": {"seed": seed, "normalize": scaling}})
    model = training_class(name)(seen.with_(test=None), config)
    for _ in model.epochs():
        pass
    return (seen.task.probabilities(torch.from_numpy(model.outcome().scores)).numpy(),)


def is_ahead(name: str, views: Views, pool: Pool) -> tuple[bool, str]:
    """Return whether an opinion's score exceeds all in the pool by more than a standard error, and a sentence on it.

    The model's epoch was selected on the same held-out labels, which biases its score upwards, so a smaller lead is not
    evidence of a better model.
    """
    score, best = pool.jury.score(views), pool.jury.score(pool.opinions[pool.best(1)[0]])
    ahead = score - best > pool.jury.standard_error(best)
    verdict = "joins the teachers" if ahead else "does not join the teachers"
    return ahead, f"{name} {verdict}: held-out score {score:.3f}, best of the others {best:.3f}"
