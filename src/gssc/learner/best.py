"""Selection of the student to keep, by its results on held-out labels."""

from __future__ import annotations

from typing import Any

from gssc.train.selection import BestEpoch, Epoch


class BestStudent(BestEpoch):
    """Keeps the student that is best on held-out labels, and breaks near-ties by a second figure.

    Students are ranked by two figures, their merit. If the first figures of two students differ by no more than
    ``error``, the difference may be chance and the second figure decides. With many held-out labels the first figure is
    the score, the second is the log-likelihood, which varies less by chance, and ``error`` is a standard error of the
    score. Epochs in which no student finished are never kept.
    """

    def __init__(self) -> None:
        super().__init__(patience=1, validation=True)
        self.merit: tuple[float, float] | None = None  # of the kept student
        self.top = -float("inf")  # greatest first figure so far
        self.name = ""
        self.offered: tuple[tuple[float, float], float, str] | None = None

    def offer(self, merit: tuple[float, float], error: float, name: str) -> None:
        """Register a student that has finished; the next call of :meth:`judge` decides whether to keep it.

        Args:
            merit: the two figures, greater is better.
            error: difference of first figures up to which the second figure decides.
            name: name of the student.
        """
        self.offered = merit, error, name

    def prefers(self, merit: tuple[float, float], error: float) -> bool:
        """Return whether a student of this merit would replace the kept one; of equal students the first stays."""
        if self.merit is None:
            return True
        least = max(self.top, merit[0]) - error
        return merit[0] >= least and (self.merit[0] < least or merit[1] > self.merit[1])

    def judge(self, record: Epoch) -> bool:
        """Return whether the student of this epoch replaces the kept one."""
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
        """Return the kept student, its merit and its name."""
        merit = None if self.merit is None else list(self.merit)
        return {**super().state_dict(), "merit": merit, "top": self.top, "name": self.name}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`."""
        super().load_state_dict(state)
        self.merit = None if state["merit"] is None else tuple(state["merit"])
        self.top, self.name = state["top"], state["name"]
