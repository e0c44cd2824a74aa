"""Distillation: train a teacher that passes messages, then an MLP on its answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gssc.config import SparsifierConfig
from gssc.graph import Graph
from gssc.models.base import Recipe
from gssc.models.glnn import GLNN
from gssc.train import supervised
from gssc.train.outcome import Outcome
from gssc.train.supervised import OnEpoch, SupervisedTraining


def fit_model(
    name: str,
    graph: Graph,
    sparsifier: SparsifierConfig | None = None,
    seed: int = 0,
    recipe: Recipe | None = None,
    on_epoch: OnEpoch | None = None,
    max_epochs: int = 0,
) -> Outcome:
    """Train the model's teacher under the sparsifier, then the model.

    Args:
        name: of the student, see :mod:`gssc.models.registry`.
        graph: the problem. Teacher and student see only :meth:`~gssc.graph.Graph.training_view` of it.
        sparsifier: settings of the sparsifier, which acts on the teacher; none if left out.
        seed: of both.
        recipe: settings of the student; the teacher has those of its own paper.
        on_epoch: called with every epoch of the student.
        max_epochs: at most this many for each of the two, if not 0.

    Returns:
        The student's outcome, with the seconds of both and the edges of the teacher.
    """
    recipe = (recipe or supervised.recipe_for(name, graph.name, graph.split)).at_most(max_epochs)
    student = SupervisedTraining(name, graph, None, seed, recipe)
    assert isinstance(student.model, GLNN)
    # The teacher is given what training may see as its whole graph: else, in the inductive setting, its answers about
    # seen nodes would carry features of test nodes over their edges.
    seen, _ = graph.training_view()
    teacher = supervised.fit_model(student.model.teacher, seen, sparsifier, seed, max_epochs=max_epochs)
    student.model.learn_from(torch.from_numpy(teacher.scores))
    outcome = student.fit(on_epoch)
    return replace(
        outcome,
        seconds=teacher.seconds + outcome.seconds,
        edges_kept=teacher.edges_kept,
        edges_total=teacher.edges_total,
    )


def settings_of(name: str, dataset: str, split: str, sparsifier: SparsifierConfig, seed: int) -> dict[str, Any]:
    """Everything but data and code that determines the result, as plain values: the student's, and the teacher's."""
    student = supervised.settings_of(name, dataset, split, sparsifier, seed)
    teacher = student["recipe"]["model"].get("teacher", GLNN.teacher)
    return {**student, "teacher": supervised.settings_of(teacher, dataset, split, sparsifier, seed)["recipe"]}
