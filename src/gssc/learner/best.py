"""Which student is kept."""

from __future__ import annotations

from typing import Any

from gssc.train.selection import BestEpoch, Epoch


class BestStudent(BestEpoch):
    """The student that held-out labels favour, with a rule against luck.

    Students are ranked by two figures. One whose first figure is within ``error`` of the best so far may be as good:
    among these the second figure decides. With many held-out labels the first is the score, the second the
    log-likelihood, which is the finer measure, and ``error`` is a standard error of the score. Epochs in which no
    student finished are never kept.
    """

    def __init__(self) -> None:
        super().__init__(patience=1, validation=True)
        self.merit: tuple[float, float] | None = None  # of the kept student
        self.top = -float("inf")  # greatest first figure so far
        self.name = ""
        self.offered: tuple[tuple[float, float], float, str] | None = None

    def offer(self, merit: tuple[float, float], error: float, name: str) -> None:
        """Announce that a student has finished: the next epoch that is judged is its own.

        Args:
            merit: the two figures, greater is better.
            error: how far the first may be from the best for the second to decide.
            name: of the student.
        """
        self.offered = merit, error, name

    def prefers(self, merit: tuple[float, float], error: float) -> bool:
        """Whether a student of this merit would be kept in place of the present one; of equal ones the first is."""
        if self.merit is None:
            return True
        least = max(self.top, merit[0]) - error
        return merit[0] >= least and (self.merit[0] < least or merit[1] > self.merit[1])

    def judge(self, record: Epoch) -> bool:
        """Whether this epoch's student is the one to keep from now on."""
        offered, self.offered = self.offered, None
        if offered is None:
            return False
        merit, error, name = offered
        preferred = self.prefers(merit, error)
        self.top = max(self.top, merit[0])
        if preferred:
            self.merit, self.name = merit, name
            record.best, self.record = True, record
        return preferred

    def state_dict(self) -> dict[str, Any]:
        """The kept student, its merit and its name."""
        merit = None if self.merit is None else list(self.merit)
        return {**super().state_dict(), "merit": merit, "top": self.top, "name": self.name}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`."""
        super().load_state_dict(state)
        self.merit = None if state["merit"] is None else tuple(state["merit"])
        self.top, self.name = state["top"], state["name"]
