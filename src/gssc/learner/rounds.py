"""Rounds of students: who teaches each, and which kinds of students it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gssc.learner.pool import Pool
from gssc.learner.student import CLOSE

PARTNERS = 3  # best opinions that a new one is combined with
MORE_STEPS = 4  # times as many for students of the round after one whose students were behind their teacher
WORTH_A_NOTE = 0.05  # difference of scores between teacher and student from which the user is told
TOO_FAR = 0.1  # share of rows by which a student may agree less with its teacher than the close one does
LEAST_GAIN = 1.0  # log-likelihood of all held-out labels that a new teacher must gain to be worth another round


class Rounds:
    """Plans rounds: the teacher is the mean of the best opinions in the pool, which students join.

    The first round has every kind of student, later ones the close kind and the one that was best so far. Rounds end
    early where the next teacher has hardly more to teach. Where rows hardly tell the classes but the graph does, a
    student has to tell many single rows apart: if the best is behind its teacher, the next is a close one that takes
    more steps.

    Args:
        pool: opinions; its jury has the held-out labels.
        most: number of rounds at most.
        best: number of opinions whose mean is the teacher.
        kinds: kinds of students, for the first round.
        seen_rows: whether students will be used on the rows that they learn from, which they may learn one by one.
        most_effort: how many times the usual number of gradient steps students may take.

    Attributes:
        number: of the round, from 0.
        position: of the next student among the kinds of the round.
        effort: how many times the usual number of gradient steps students take.
        teacher: soft labels of the round, [N, C], once chosen.
        partners: names of opinions that those of the students are combined with.
        best_kind, best_score: of the student that is kept so far.
        agreement: share of rows that the close student predicts as its teacher does.
    """

    def __init__(self, pool: Pool, most: int, best: int, kinds: list[str], seen_rows: bool, most_effort: int):
        self.pool, self.jury, self.most, self.best, self.seen_rows = pool, pool.jury, most, best, seen_rows
        self.number = self.position = 0
        self.kinds, self.effort, self.most_effort = kinds, 1, most_effort
        self.teacher: np.ndarray | None = None
        self.partners: list[str] = []
        self.best_kind, self.best_score, self.agreement = "", 0.0, 0.0

    @property
    def memorizes(self) -> bool:
        """Whether held-out labels tell how well students have learned rows one by one."""
        return self.seen_rows and not self.jury.cross_validates

    @property
    def are_over(self) -> bool:
        """Whether no round is left."""
        return self.number >= self.most

    def choose_teacher(self) -> np.ndarray:
        """Return the teacher of this round, chosen when it is first asked for."""
        if self.teacher is None:
            self.teacher = self.pool.teacher(self.best)[-1]
            self.partners = self.pool.best(PARTNERS)
        return self.teacher

    def cannot_follow(self, kind: str, opinion: np.ndarray) -> bool:
        """Return whether a student disagrees with its teacher on many more of the rows it is for than the close one.

        Where held-out labels are few, students are ranked by their fidelity on held-out rows, which stand in for new
        ones. On a graph whose rows hardly tell the classes the best of these may have learned hardly anything.
        """
        agreement = float((opinion.argmax(axis=1) == self.choose_teacher().argmax(axis=1)).mean())
        if kind == CLOSE:
            self.agreement = agreement
        return self.seen_rows and self.jury.cross_validates and self.agreement - agreement > TOO_FAR

    def student_ended(self, opinion: np.ndarray, kept: bool) -> None:
        """Go on to the next student, to the next round, or to the end.

        Args:
            opinion: of the student.
            kept: whether it is the one that is kept from now on.
        """
        kind, self.position = self.kinds[self.position], self.position + 1
        score = 0.0 if self.jury.cross_validates else self.jury.score((opinion,))
        if kept:
            self.best_kind, self.best_score = kind, score
        # Kinds after the close one are regularised: if rows have to be learned one by one, none of them can follow.
        hopeless = self._is_behind(score, None if kind == CLOSE else self.best_score)
        if hopeless or self.position == len(self.kinds):
            self._plan_next()

    def note(self) -> str | None:
        """Return a note if the kept student is far behind its teacher, because rows alone tell too little."""
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
        if self.are_over:
            return
        behind = self._is_behind(self.best_score)
        last = self.jury.loss((self.choose_teacher(),))
        self.pool.prune(self.best)
        self.teacher = None
        gain = len(self.jury.truth) * (last - self.jury.loss((self.choose_teacher(),)))
        if behind and self.effort < self.most_effort:
            self.kinds, self.effort = [CLOSE], min(self.effort * MORE_STEPS, self.most_effort)
        elif gain < LEAST_GAIN or self.effort > 1:  # rows learned one by one gain nothing from another round
            self.number = self.most
        else:
            self.kinds = list(dict.fromkeys([CLOSE, self.best_kind]))

    def _is_behind(self, score: float, other: float | None = None) -> bool:
        """Return whether a student's score on seen rows is below another's by more than a standard error.

        Args:
            score: of the student.
            other: score to compare with; the teacher's if left out.
        """
        if not self.memorizes:
            return False
        other = self.jury.score((self.choose_teacher(),)) if other is None else other
        return other - score > self.jury.standard_error(other)

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        names = ("number", "position", "kinds", "effort", "partners", "best_kind", "best_score", "agreement")
        teacher = {} if self.teacher is None else {"teacher": torch.from_numpy(self.teacher)}
        return {**{name: getattr(self, name) for name in names}, **teacher}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`."""
        for name, value in state.items():
            setattr(self, name, value.numpy() if name == "teacher" else value)
