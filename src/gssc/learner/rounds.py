"""Rounds of students: the soft labels of each round, and the kinds of students that learn them.

In a round, students are trained on the mean of the best opinions in the pool, and their own opinions join the pool. An
opinion is the class probabilities of every node. The unregularised student follows its teacher as closely as it can.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gssc.learner.pool import Pool
from gssc.learner.student import UNREGULARISED

PARTNERS = 3  # best opinions that a new one is combined with
WORTH_A_NOTE = 0.05  # minimum difference between the scores of teacher and student for a note
TOO_FAR = 0.1  # share of rows by which the agreement with the teacher may be below that of the unregularised student
LEAST_GAIN = 1.0  # in total log-likelihood of the held-out labels by the next teacher, for another round
STATE = (  # what a checkpoint stores, in addition to the soft labels
    *("number", "most", "position", "kinds", "continues", "schedules"),
    *("partners", "best_kind", "best_score", "best_number", "agreement"),
)
SOFT_LABELS = "teacher", "best_teacher"


class Rounds:
    """Plans the rounds: chooses the teacher and the kinds of students of each, and decides when to stop.

    The first round has every kind of student, later ones the first kind and the kind that was best so far. Rounds end
    early if the next teacher is hardly better than the last.

    If the classes depend on the graph more than on the rows, a student has to memorise many single rows, and one
    schedule of gradient steps is too short. If the kept student is behind its teacher, it continues: it is the only
    student of the next round, which begins at its weights and takes another schedule. There are as many such rounds as
    it takes to catch up, unless one of them does not improve it or the limit is reached.

    Args:
        pool: the opinions; its jury has the held-out labels.
        most: maximum number of rounds.
        best: number of opinions whose mean is the teacher.
        kinds: kinds of students in the first round.
        seen_rows: whether students will be used on the rows that they are trained on, which they may memorise.
        most_schedules: maximum of ``schedules``.

    Attributes:
        number: number of the round, from 0.
        position: index of the next student in the kinds of the round.
        continues: whether the student of this round begins at the weights of the kept one.
        schedules: number of schedules of gradient steps that the student of this round has begun.
        teacher: soft labels of the round, [N, C], once chosen.
        partners: names of the opinions that those of the students are combined with.
        best_kind, best_score, best_number, best_teacher: kind, score, round and soft labels of the student kept so far.
        agreement: share of rows for which the unregularised student predicts the same class as its teacher.
    """

    def __init__(self, pool: Pool, most: int, best: int, kinds: list[str], seen_rows: bool, most_schedules: int):
        self.pool, self.jury, self.most, self.best, self.seen_rows = pool, pool.jury, most, best, seen_rows
        self.number = self.position = 0
        self.first_kind = kinds[0]
        self.kinds, self.continues, self.schedules, self.most_schedules = kinds, False, 1, most_schedules
        self.teacher: np.ndarray | None = None
        self.partners: list[str] = []
        self.best_kind, self.best_score, self.best_number, self.agreement = "", 0.0, 0, 0.0
        self.best_teacher: np.ndarray | None = None

    @property
    def memorizes(self) -> bool:
        """Whether students may memorise rows, and validation labels show how well they do."""
        return self.seen_rows and not self.jury.cross_validates

    @property
    def are_over(self) -> bool:
        """Whether no round is left."""
        return self.number >= self.most

    @property
    def begins(self) -> bool:
        """Whether a round begins with a new student."""
        return self.position == 0 and not self.continues

    def choose_teacher(self) -> np.ndarray:
        """Return the soft labels of this round, [N, C]; they are computed on the first call."""
        if self.teacher is None:
            self.teacher = self.pool.teacher(self.best)[-1]
            self.partners = self.pool.best(PARTNERS)
        return self.teacher

    def cannot_follow(self, kind: str, opinion: np.ndarray) -> bool:
        """Return whether a student agrees with its teacher on far fewer rows than the unregularised student does.

        This matters with few labels only: then students are ranked by fidelity to the teacher on held-out rows. If the
        classes hardly depend on the rows, the best student by that measure may have learned hardly anything, although
        it will be used on the rows that it was trained on.
        """
        agreement = float((opinion.argmax(axis=1) == self.choose_teacher().argmax(axis=1)).mean())
        if kind == UNREGULARISED:
            self.agreement = agreement
        return self.seen_rows and self.jury.cross_validates and self.agreement - agreement > TOO_FAR

    def student_ended(self, opinion: np.ndarray, kept: bool) -> None:
        """Advance to the next student, the next round, or the end.

        Args:
            opinion: opinion of the student that has finished.
            kept: whether that student is now the kept one.
        """
        kind, self.position = self.kinds[self.position], self.position + 1
        score = 0.0 if self.jury.cross_validates else self.jury.score((opinion,))
        if kept:
            self.best_kind, self.best_score = kind, score
            self.best_number, self.best_teacher = self.number, self.teacher
        # All other kinds are regularised: if this one cannot memorise the rows, they cannot either.
        hopeless = self._is_behind(score, None if kind == UNREGULARISED else self.best_score)
        if self.continues and not kept:
            self.number = self.most = self.number + 1
        elif hopeless or self.position == len(self.kinds):
            self._plan_next()

    def note(self) -> str | None:
        """Return a note if the kept student is much less accurate than its teacher: rows alone do not suffice."""
        if not self.memorizes:
            return None
        score = self.jury.score((self.choose_teacher(),))
        if score - self.best_score < WORTH_A_NOTE:
            return None
        return (
            f"feature rows alone tell too little: {score:.1%} of the validation nodes are right with the graph, "
            f"{self.best_score:.1%} without; if the graph is there at prediction time, use --model gcn"
        )

    def _plan_next(self) -> None:
        self.number, self.position = self.number + 1, 0
        if self._is_behind(self.best_score) and self.schedules < self.most_schedules:
            self.kinds, self.continues, self.schedules = [self.best_kind], True, self.schedules + 1
            self.most = max(self.most, self.number + 1)
            self._gain_of_next_teacher()
        elif self.continues:  # a student that memorises rows gains nothing from another round
            self.most = self.number
        elif not self.are_over:
            if self._gain_of_next_teacher() < LEAST_GAIN:
                self.most = self.number
            self.kinds = list(dict.fromkeys([self.first_kind, self.best_kind]))

    def _gain_of_next_teacher(self) -> float:
        """Choose the next teacher; return by how much it raises the total log-likelihood of the held-out labels."""
        last = self.jury.loss((self.choose_teacher(),))
        self.pool.prune(self.best)
        self.teacher = None
        return len(self.jury.truth) * (last - self.jury.loss((self.choose_teacher(),)))

    def _is_behind(self, score: float, other: float | None = None) -> bool:
        """Return whether a student's score on seen rows is below another's by more than a standard error.

        Args:
            score: score of the student.
            other: score to compare with; that of the teacher if left out.
        """
        if not self.memorizes:
            return False
        other = self.jury.score((self.choose_teacher(),)) if other is None else other
        return other - score > self.jury.standard_error(other)

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        known = {name: getattr(self, name) for name in SOFT_LABELS if getattr(self, name) is not None}
        soft_labels = {name: torch.from_numpy(values) for name, values in known.items()}
        return {**{name: getattr(self, name) for name in STATE}, **soft_labels}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`; raises ValueError if it has other kinds of students."""
        if not set(state["kinds"]) <= set(self.kinds):
            raise ValueError(f"its students are {', '.join(state['kinds'])}")
        for name in STATE:
            setattr(self, name, state[name])
        for name in SOFT_LABELS:
            setattr(self, name, state[name].numpy() if name in state else None)
