"""The students of a run: their settings, the rows that they are trained on, and how they are ranked.

A student is an MLP that learns a teacher's soft labels; its opinion is its class probabilities of every node. The jury
is the held-out labels, see :mod:`gssc.learner.jury`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax

from gssc.calibration import best_temperature
from gssc.graph import Graph
from gssc.learner.jury import MANY, TINY, Jury
from gssc.learner.multinomial import NARROW, are_counts
from gssc.learner.student import StudentTraining, batches_and_passes, student_variants
from gssc.models.settings import GsscSettings
from gssc.models.student import all_logits

VISITS_PER_EDGE = 8  # limit on rows in all batches of a student, per edge; about the cost of 200 epochs of a GCN
VISITS = 4_000_000  # limit on rows in all batches of a student on small graphs; takes less than a minute
SCALE_COLUMNS = "standard", "asinh"  # scalings after which counts are no counts
HELD_OUT = 0.1, 2000  # share and maximum number of rows held out to rank students by fidelity if labels are few

Merit = tuple[float, float]  # ranking key: two figures, greater is better


class Students:
    """Creates and ranks the students of a run.

    Args:
        graph: the part of the graph that training may use.
        jury: the held-out labels.
        model: settings of the model.
        seed: seed of weights, order of rows, dropout and held-out rows.
        unseen: whether students will be used on rows that are not in training.
        normalize: scaling of rows, as in ``train.normalize``.

    Attributes:
        held_out: rows that a student is not trained on before it is ranked, in place of unseen rows.
        taught: all other rows.
        counts: whether rows are counts, also after scaling.
        settings: settings of each kind of student.
    """

    def __init__(self, graph: Graph, jury: Jury, model: GsscSettings, seed: int, unseen: bool, normalize: str):
        self.graph, self.jury, self.seed, self.unseen = graph, jury, seed, unseen
        self.held_out = self._held_out(unseen)
        self.counts = are_counts(graph.features) and normalize not in SCALE_COLUMNS
        self.settings = student_variants(
            model, graph.num_nodes, graph.num_features, judged=len(self.held_out) > 0, counts=self.counts and unseen
        )
        self.taught = np.setdiff1d(np.arange(graph.num_nodes), self.held_out)

    def _held_out(self, unseen: bool) -> np.ndarray:
        if not self.jury.cross_validates:
            return self.graph.val if unseen else np.empty(0, dtype=np.int64)
        share, most = HELD_OUT
        count = min(most, int(share * self.graph.num_nodes))
        return np.sort(np.random.default_rng([self.seed, 3]).choice(self.graph.num_nodes, count, replace=False))

    @property
    def most_schedules(self) -> int:
        """Maximum number of schedules of a student; it grows with the number of edges, as the cost of a GCN does."""
        _, passes = batches_and_passes(next(iter(self.settings.values())), self.graph.num_nodes)
        visits = max(VISITS, VISITS_PER_EDGE * self.graph.num_edges)
        return max(1, visits // (passes * max(1, self.graph.num_nodes)))

    def make(self, kind: str, rows: Any, teacher: np.ndarray, number: int, all_rows: bool = False) -> StudentTraining:
        """Return the training of a student.

        Args:
            kind: kind of student, which determines its settings.
            rows: scaled rows, dense or CSR, [N, d].
            teacher: soft labels, [N, C].
            number: number of the round.
            all_rows: whether it is also trained on the held-out rows.
        """
        nodes = np.arange(self.graph.num_nodes) if all_rows else self.taught
        return StudentTraining(rows, teacher, nodes, self.settings[kind], self.seed + 1000 * number)

    def judge(self, kind: str, opinion: np.ndarray, teacher: np.ndarray) -> tuple[Merit, float]:
        """Return a student's merit, and the difference of first figures up to which the second one decides.

        The figures are score and loss on validation labels or, if these are few, fidelity and the kind's number.
        Fidelity is the negative cross entropy with the teacher's soft labels on the rows held out from the student, at
        the student's best temperature: being too sure does not make a student worse. On wide unseen rows students
        within a standard error count as equal, and the later kind, which is more regularised, is better.

        Args:
            kind: kind of student.
            opinion: its class probabilities of all nodes, [N, C].
            teacher: soft labels that it was trained on, [N, C].
        """
        if not self.jury.cross_validates:
            merit = self.jury.merit(self.jury.tempered((opinion,)))
            return merit, self.jury.standard_error(merit[0]) if len(self.jury.truth) >= MANY else 0.0
        nodes = self.held_out if len(self.held_out) else np.arange(len(opinion))
        logs, soft = np.log(opinion[nodes] + TINY), teacher[nodes]
        logs = log_softmax(logs / best_temperature(logs, soft)[0], axis=1)
        divergence = (soft * (np.log(soft + TINY) - logs)).sum(axis=1)  # the part of the cross entropy that can be zero
        wide = self.graph.num_features > NARROW
        error = float(divergence.std() / np.sqrt(len(nodes))) if self.unseen and wide else 0.0
        return (float((soft * logs).sum(axis=1).mean()), list(self.settings).index(kind)), error


def opinion_of(student: StudentTraining) -> np.ndarray:
    """Return a student's class probabilities of all rows, float32 [N, C]."""
    return np.asarray(torch.from_numpy(all_logits(student.model, student.rows)).softmax(1).numpy())
