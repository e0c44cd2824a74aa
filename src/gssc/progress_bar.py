"""Progress of a command on standard error: a bar with the time left on a terminal, lines in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

SECONDS_BETWEEN_LINES = 10.0  # of a log
SECONDS_BEFORE_BAR = 1.0  # shorter work shows nothing
SECONDS_BETWEEN_DRAWINGS = 0.5
BAR_WIDTH = 16
ROOM_FOR_ECHO = 3  # a terminal writes ^C behind the bar; a line that wraps would not be erased

OnStage = Callable[[str, float | None], None]  # name of a stage, and the share of it that is done; None if unknown


class ProgressBar:
    """Shows how much of a phase is done and how long the rest takes.

    On a terminal it is one bar, which appears after a second, is redrawn in place and disappears at the end. Elsewhere
    it is one line every ten seconds. Lines printed to :attr:`console` appear above the bar. Bars may be nested: the
    innermost one is shown.

    Args:
        phase: what is being done, such as ``predicting``.
        total: amount of work; None if it is unknown. There is a time left only if it is known.
        unit: what is counted, such as ``rows``.
        console: where to show it; standard error if left out.
        watch: returns the amount that is done, where other processes do the work; called whenever it is shown.
        shown: False shows nothing.

    >>> bar = ProgressBar("predicting", 1000, "rows")
    >>> bar.update(200)
    >>> bar.line().partition(", ")[0]
    'predicting: 200 of 1,000 rows'
    """

    _shown: ClassVar[list[ProgressBar]] = []  # the last one is visible
    _drawing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        phase: str,
        total: float | None = None,
        unit: str = "",
        console: Any = None,
        *,
        watch: Callable[[], float] | None = None,
        shown: bool = True,
    ):
        from rich.console import Console

        self.console = console or Console(stderr=True, markup=False, highlight=False)
        self.shown, self.watch, self.began = shown, watch, time.monotonic()
        self.begin(phase, total, unit)
        self._bar: Any = None
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> ProgressBar:
        if self.shown:
            with self._drawing:
                if self._shown:
                    self._shown[-1]._erase()
                self._shown.append(self)
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._ticker.is_alive():
            self._ticker.join()
        if self.shown:
            with self._drawing:
                self._shown.remove(self)
                self._erase()

    def begin(self, phase: str, total: float | None = None, unit: str = "", done: float = 0) -> None:
        """Begin a phase, of which ``done`` is done already; its time left is estimated from its own pace."""
        self.phase, self.total, self.unit, self.note = phase, total, unit, ""
        self.done = self.before = done
        self.phase_began = self.updated = time.monotonic()

    def show_stage(self, name: str, share: float | None) -> None:
        """Show a stage and the share of it that is done; there is a time left only if the share is known."""
        if name != self.phase:
            self.begin(name)
        if share is not None:
            self.total = 1.0
            self.update(share, f"{share:.0%}")

    def update(self, done: float, note: str = "") -> None:
        """Set the amount that is done, with fractions of a unit if known, and a text that follows the numbers."""
        self.updated = time.monotonic() if done != self.done else self.updated
        self.done, self.note = done, note

    def advance(self, steps: float = 1) -> None:
        """Add to the amount that is done."""
        self.update(self.done + steps, self.note)

    def skip(self, steps: float = 1) -> None:
        """Add work that was done before and took no time now."""
        self.before += steps
        self.advance(steps)

    def left(self) -> float | None:
        """Return the seconds left by the mean pace so far, or None before there is a pace."""
        finished, spent = self.done - self.before, self.updated - self.phase_began
        if self.total is None or finished <= 0:
            return None
        rest = max(0.0, self.total - self.done) / finished * spent
        return max(0.0, rest - (time.monotonic() - self.updated))

    def time_text(self) -> str:
        """Return the time left, or the time so far where that is unknown."""
        left = self.left()
        return f"{clock(time.monotonic() - self.began)} so far" if left is None else f"{clock(left)} left"

    def count_text(self) -> str:
        """Return the amount that is done, such as ``200 of 1,000 rows``; empty if nothing is counted."""
        if not self.unit:
            return ""
        done = int(self.done)  # only whole units are counted
        # An estimated total may turn out too small.
        total = "" if self.total is None else f" of {max(int(self.total), done):,}"
        return f"{done:,}{total} {self.unit}"

    def line(self) -> str:
        """Return the state as one line of a log."""
        count = f": {self.count_text()}" if self.unit else ""
        return ", ".join(filter(None, [f"{self.phase}{count}", self.time_text(), self.note]))

    def _tick(self) -> None:
        terminal = self.console.is_terminal
        pause = SECONDS_BEFORE_BAR if terminal else SECONDS_BETWEEN_LINES
        while not self._ended.wait(pause):
            watch = self.watch  # another thread may set it to None
            if watch is not None:
                self.update(watch(), self.note)
            with self._drawing:
                if self._shown[-1] is self:
                    self._draw() if terminal else self.console.print(self.line(), soft_wrap=True)
            pause = SECONDS_BETWEEN_DRAWINGS if terminal else SECONDS_BETWEEN_LINES

    def _erase(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def _start(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        texts = (TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("phase", "time", "rest"))
        phase, left, rest = texts
        self._bar = Progress(phase, BarColumn(bar_width=BAR_WIDTH), left, rest, console=self.console, transient=True)
        self._task = self._bar.add_task("", phase=self.phase, time="", rest="")
        self._bar.start()

    def _draw(self) -> None:
        if self._bar is None:
            self._start()
        left, time_text = self.left(), self.time_text()
        total = None if left is None else 1.0  # without a total, rich shows a bar that pulses
        rest = ", ".join(filter(None, [self.count_text(), self.note]))
        room = self.console.width - len(self.phase) - BAR_WIDTH - len(time_text) - ROOM_FOR_ECHO - 3
        rest = rest if len(rest) <= room else rest[: max(0, room - 1)] + "…"
        done = 0.0 if not self.total else min(1.0, self.done / self.total)
        self._bar.update(self._task, total=total, completed=done, phase=self.phase, time=time_text, rest=rest)


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, with hours where there are any.

    >>> clock(65.2), clock(3725)
    ('1:05', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
