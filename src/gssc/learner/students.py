"""The students of a run: their settings, the rows that each learns from, and how it is judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gssc.graph import Graph
from gssc.learner.jury import MANY, TINY, Jury
from gssc.learner.student import StudentTraining, batches_and_passes, student_variants
from gssc.models.settings import GsscSettings
from gssc.models.student import StudentSettings, all_logits

VISITS_PER_EDGE = 8  # that a student may pay to rows: about the work of 200 epochs of a GCN
VISITS = 4_000_000  # that a student may pay to rows on any graph: less than a minute
HELD_OUT = 0.1, 2000  # share and greatest number of rows that judge students by fidelity where labels are few

Merit = tuple[float, float]  # two figures, greater is better


class Students:
    """Makes and judges the students of a run.

    Args:
        graph: what training may see.
        jury: the held-out labels.
        model: settings of students, as set.
        seed: of weights, order, dropout and held-out rows.
        unseen: whether students will be used on rows that training does not see.

    Attributes:
        held_out: rows that a student does not learn from before it is judged; they stand in for unseen rows.
        taught: the other rows.
    """

    def __init__(self, graph: Graph, jury: Jury, model: GsscSettings, seed: int, unseen: bool):
        self.graph, self.jury, self.seed = graph, jury, seed
        self.held_out = self._held_out(unseen)
        self.settings = student_variants(model, graph.num_nodes, graph.num_features, len(self.held_out) > 0)
        self.taught = np.setdiff1d(np.arange(graph.num_nodes), self.held_out)

    def _held_out(self, unseen: bool) -> np.ndarray:
        if not self.jury.cross_validates:
            return self.graph.val if unseen else np.empty(0, dtype=np.int64)
        share, most = HELD_OUT
        count = min(most, int(share * self.graph.num_nodes))
        return np.sort(np.random.default_rng([self.seed, 3]).choice(self.graph.num_nodes, count, replace=False))

    @property
    def most_effort(self) -> int:
        """How many times the usual steps students may take; the limit grows with the graph, as a GCN's work."""
        _, passes = batches_and_passes(next(iter(self.settings.values())), self.graph.num_nodes)
        visits = max(VISITS, VISITS_PER_EDGE * self.graph.num_edges)
        return max(1, visits // (passes * max(1, self.graph.num_nodes)))

    def variant(self, kind: str, effort: int) -> StudentSettings:
        """Return the settings of a kind of student that takes this many times the usual steps."""
        return replace(self.settings[kind], effort=effort)

    def make(
        self, settings: StudentSettings, rows: Any, teacher: np.ndarray, number: int, everything: bool = False
    ) -> StudentTraining:
        """Return the training of a student.

        Args:
            settings: of the student.
            rows: scaled rows, dense or CSR, [N, d].
            teacher: soft labels, [N, C].
            number: of the round.
            everything: whether it learns from held-out rows, too.
        """
        nodes = np.arange(self.graph.num_nodes) if everything else self.taught
        return StudentTraining(rows, teacher, nodes, settings, self.seed + 1000 * number)

    def merit(self, opinion: np.ndarray, teacher: np.ndarray) -> Merit:
        """Return what students are ranked by: score and loss on held-out labels or, if these are few, fidelity.

        Fidelity is the mean log-likelihood of the teacher's soft labels on rows that the student did not learn from.
        """
        if not self.jury.cross_validates:
            return self.jury.merit(self.jury.tempered((opinion,)))
        nodes = self.held_out if len(self.held_out) else np.arange(len(opinion))
        return float((teacher[nodes] * np.log(opinion[nodes] + TINY)).sum(axis=1).mean()), 0.0

    def merit_error(self, merit: Merit) -> float:
        """Return how far the first figures of two students may differ by chance; 0 if the first is not the score."""
        return self.jury.standard_error(merit[0]) if len(self.jury.truth) >= MANY else 0.0


def opinion_of(student: StudentTraining) -> np.ndarray:
    """Class probabilities of all rows that a student may see, float32 [N, C]."""
    return np.asarray(torch.from_numpy(all_logits(student.model, student.rows)).softmax(1).numpy())
