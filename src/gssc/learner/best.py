"""Which student is kept."""

from __future__ import annotations

from typing import Any

from gssc.train.selection import BestEpoch, Epoch


class BestStudent(BestEpoch):
    """The student with the greatest merit. Epochs in which no student finished are never kept."""

    def __init__(self) -> None:
        super().__init__("accuracy", patience=1, validation=True)
        self.merit: tuple[float, float] | None = None  # of the kept student
        self.name = ""
        self.offered: tuple[tuple[float, float], str] | None = None

    def offer(self, merit: tuple[float, float], name: str) -> None:
        """Announce that a student has finished: the next epoch that is judged is its own."""
        self.offered = merit, name

    def judge(self, record: Epoch) -> bool:
        """Whether this epoch's student is the one to keep from now on; of equal ones the first is."""
        offered, self.offered = self.offered, None
        if offered is None or (self.merit is not None and not offered[0] > self.merit):
            return False
        self.merit, self.name = offered
        record.best, self.record = True, record
        return True

    def state_dict(self) -> dict[str, Any]:
        """The kept student, its merit and its name."""
        merit = None if self.merit is None else list(self.merit)
        return {**super().state_dict(), "merit": merit, "name": self.name}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`state_dict`."""
        super().load_state_dict(state)
        self.merit = None if state["merit"] is None else tuple(state["merit"])
        self.name = state["name"]
