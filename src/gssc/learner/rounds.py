"""Rounds of students: who teaches each, and which kinds of students it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gssc.learner.pool import Pool
from gssc.learner.student import CLOSE

PARTNERS = 3  # best opinions that a new one is combined with
MORE_STEPS = 4  # times as many for students of the round after one whose students were behind their teacher
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
        memorizes: whether a student may learn the rows it will be used on one by one; not so for unseen rows.

    Attributes:
        number: of the round, from 0.
        position: of the next student among the kinds of the round.
        effort: how many times the usual number of gradient steps students take.
        teacher: soft labels of the round, [N, C], once chosen.
        partners: names of opinions that those of the students are combined with.
        best_kind, best_score: of the student that is kept so far.
    """

    def __init__(self, pool: Pool, most: int, best: int, kinds: list[str], memorizes: bool):
        self.pool, self.jury, self.most, self.best, self.memorizes = pool, pool.jury, most, best, memorizes
        self.number = self.position = 0
        self.kinds, self.effort = kinds, 1
        self.teacher: np.ndarray | None = None
        self.partners: list[str] = []
        self.best_kind, self.best_score = "", 0.0

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

    def keep(self, kind: str, opinion: np.ndarray) -> None:
        """Note that a student with this opinion is kept from now on."""
        self.best_kind = kind
        self.best_score = 0.0 if self.jury.cross_validates else self.jury.score((opinion,))

    def student_ended(self) -> None:
        """Go on to the next student, to the next round, or to the end."""
        ended, self.position = self.kinds[self.position], self.position + 1
        hopeless = ended == CLOSE and self._is_behind()  # then the others, which are regularised, would be, too
        if hopeless or self.position == len(self.kinds):
            self._plan_next()

    def _plan_next(self) -> None:
        self.number, self.position = self.number + 1, 0
        if self.are_over:
            return
        behind, last = self._is_behind(), self.jury.loss((self.choose_teacher(),))
        self.pool.prune(self.best)
        self.teacher = None
        gain = len(self.jury.truth) * (last - self.jury.loss((self.choose_teacher(),)))
        if behind:
            self.kinds, self.effort = [CLOSE], self.effort * MORE_STEPS
        elif gain < LEAST_GAIN:
            self.number = self.most
        else:
            self.kinds = list(dict.fromkeys([CLOSE, self.best_kind]))

    def _is_behind(self) -> bool:
        """Return whether the kept student's score on seen rows is below its teacher's by more than a standard error."""
        if not self.memorizes:
            return False
        score = self.jury.score((self.choose_teacher(),))
        return score - self.best_score > self.jury.standard_error(score)

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        names = ("number", "position", "kinds", "effort", "partners", "best_kind", "best_score")
        teacher = {} if self.teacher is None else {"teacher": torch.from_numpy(self.teacher)}
        return {**{name: getattr(self, name) for name in names}, **teacher}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`."""
        for name, value in state.items():
            setattr(self, name, value.numpy() if name == "teacher" else value)
