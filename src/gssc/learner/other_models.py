"""Other models as teachers: which are asked, how their opinions are formed, and which of them join the pool."""

from __future__ import annotations

import torch

from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner.faculty import Faculty
from gssc.learner.pool import Pool, Views

MOST_EDGES = 50_000  # of a graph that GraphSAGE is asked about by default: it takes longer than a GCN


def models_to_ask(wanted: str, faculty: Faculty) -> list[str]:
    """Names of the models to ask: those that are set or, on a small graph, by default GraphSAGE.

    It learns what neighbours of other classes tell, which no linear teacher does, so it is not asked where averages
    over edges are best. Models that are trained in epochs do not weigh labels.

    Args:
        wanted: names separated by commas, ``auto`` or ``none``.
        faculty: the teachers that have been asked before.
    """
    if wanted == "auto":
        is_small = 0 < faculty.graph.num_edges <= MOST_EDGES and bool(faculty.pool.opinions)
        judged = not (faculty.jury.cross_validates or faculty.jury.weighs)
        return ["sage"] if is_small and judged and not faculty.neighbours_are_alike() else []
    names = [] if wanted == "none" else [name.strip() for name in wanted.split(",") if name.strip()]
    if names and faculty.jury.cross_validates:
        raise GsscError(f"teachers.models: {names[0]} needs validation labels to be judged by; the graph has too few")
    return names


def trained_opinion(name: str, graph: Graph, seen: Graph, seed: int) -> Views:
    """Train a model with its own settings and return its opinion.

    Args:
        name: of the model.
        graph: the problem, whose name and split select the settings.
        seen: what training may see of it.
        seed: of the training.
    """
    from gssc.recipes import config_for
    from gssc.train.registry import training_class

    config = config_for(name, graph.name, graph.split, {"train": {"seed": seed}})
    model = training_class(name)(seen.with_(test=None), config)
    for _ in model.epochs():
        pass
    return (graph.task.probabilities(torch.from_numpy(model.outcome().scores)).numpy(),)


def is_ahead(name: str, views: Views, pool: Pool) -> tuple[bool, str]:
    """Return whether an opinion is ahead of all in the pool by more than a standard error, and the scores.

    The model has chosen its epoch by the labels that judge it, so that a smaller lead means nothing.
    """
    score, best = pool.jury.score(views), pool.jury.score(pool.opinions[pool.best(1)[0]])
    ahead = score - best > pool.jury.standard_error(best)
    verdict = "joins the teachers" if ahead else "does not join the teachers"
    return ahead, f"{name} {verdict}: held-out score {score:.3f}, best of the others {best:.3f}"
