"""Distillation: train a message-passing teacher, then an MLP on its predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gssc.config import DistillConfig, RivalConfig, parse_config
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.models.glnn import GLNN
from gssc.models.registry import recipe_of
from gssc.sparsify.registry import sparsifier_settings
from gssc.train.checkpoint import State
from gssc.train.supervised import SupervisedTraining
from gssc.train.training import Epoch, Outcome, Step, Training


class DistillTraining(Training):
    """Trains a student on the predictions of a teacher; both are supervised. The sparsifier acts on the teacher.

    The teacher has the settings of its own paper for this dataset. It gets only the training view: otherwise, in the
    inductive setting, its predictions for seen nodes would depend on the features of test nodes.

    Args:
        graph: the problem. Teacher and student use only :meth:`~gssc.graph.Graph.training_view` of it.
        config: settings of the student, of the sparsifier, and the seed of both.
    """

    config: DistillConfig

    def __init__(self, graph: Graph, config: DistillConfig):
        super().__init__(graph, config)
        alone = replace(config, sparsifier=sparsifier_settings("none")())
        self.student = SupervisedTraining(graph, alone)
        self.teacher = SupervisedTraining(self.seen, teacher_config(graph, config))
        self.scaling = self.student.scaling

    def epochs(self) -> Iterator[Epoch]:
        """Yield the teacher's epochs, then the student's, numbered consecutively."""
        if not self.student.epoch:
            for record in self.teacher.epochs():
                self._count_epochs()
                yield replace(record, phase="teacher", best=False)
        self._teach()
        for record in self.student.epochs():
            self._count_epochs()
            yield self._numbered(record)

    def _count_epochs(self) -> None:
        self.epoch = self.teacher.epoch + self.student.epoch

    def epochs_ahead(self) -> dict[str, int]:
        """Return the number of epochs still to come by phase, for progress bars."""
        teacher, student = (part.config.train.epochs - part.epoch for part in (self.teacher, self.student))
        return {"teacher": 0 if self.student.epoch else teacher, "student": student}

    def _teach(self) -> None:
        assert isinstance(self.student.model, GLNN)
        self.student.model.learn_from(torch.from_numpy(self.teacher.outcome().scores))

    def _numbered(self, record: Epoch) -> Epoch:
        seconds = self.teacher.seconds + record.seconds
        return replace(record, phase="student", epoch=self.teacher.epoch + record.epoch, seconds=seconds)

    def state_dict(self) -> State:
        """Return the state of both trainings."""
        return {name: part.state_dict() for name, part in self.components().items()}

    def load_state_dict(self, state: State) -> None:
        """Restore a state of :meth:`state_dict`."""
        for name, part in self.components().items():
            part.load_state_dict(state[name])
        self._count_epochs()
        if self.student.epoch:  # then the teacher is finished
            self.teacher.restore_best(self.teacher.best.weights)

    def components(self) -> dict[str, Any]:
        """Return both trainings."""
        return {"teacher": self.teacher, "student": self.student}

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the student."""
        return self.student.steps()

    def kept_weights(self) -> State:
        """Return the kept weights of the student."""
        return self.student.kept_weights()

    def restore_best(self, weights: State) -> None:
        """Load the kept weights of the student."""
        self.student.restore_best(weights)

    def outcome(self) -> Outcome:
        """Return the student's result, with the seconds of both and the edges of the teacher."""
        teacher, student = self.teacher.outcome(), self.student.outcome()
        return replace(
            student,
            kept=self._numbered(student.kept),
            seconds=teacher.seconds + student.seconds,
            edges_kept=teacher.edges_kept,
            edges_total=teacher.edges_total,
        )

    def deployed(self) -> DeployedModel:
        """Return the student as a plain MLP."""
        return self.student.deployed()

    @property
    def weighs_edges(self) -> bool:
        """Whether the teacher's sparsifier learns."""
        return self.teacher.weighs_edges

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges the teacher was trained on and the keep probability of each."""
        edges, trust = self.teacher.edge_trust()
        return self.seen_nodes[edges], trust


def teacher_config(graph: Graph, config: DistillConfig) -> RivalConfig:
    """Return the settings of the teacher: its recipe, with the student's sparsifier, seed and limit of epochs."""
    name = config.teacher.name
    recipe = recipe_of(name, graph.name, graph.split)
    made = parse_config({"model": {"name": name}}, recipe.settings() if recipe else {})
    if not isinstance(made, RivalConfig):
        raise GsscError(f"teacher.name is {name!r}, which cannot be a teacher: name a model that passes messages")
    train = replace(made.train, seed=config.train.seed, threads=config.train.threads)
    return replace(made, sparsifier=config.sparsifier, train=train).shortened(config.teacher.max_epochs)
