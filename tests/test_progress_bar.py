from __future__ import annotations

import io
import threading
import time
from typing import Any

import pytest
from rich.console import Console

from gssc import progress_bar as module
from gssc.progress_bar import ProgressBar


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch):
    """A clock that the test sets."""

    class Clock:
        seconds = 100.0

        def monotonic(self) -> float:
            return self.seconds

    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


def terminal(width: int = 80) -> Console:
    return Console(width=width, force_terminal=True, file=io.StringIO(), highlight=False)


def log() -> Console:
    return Console(width=80, file=io.StringIO(), highlight=False)


def wait_for(console: Console, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in console.file.getvalue():
        assert time.monotonic() < deadline, console.file.getvalue()
        time.sleep(0.01)


def test_time_left_is_by_the_pace_of_the_phase_and_counts_down(now) -> None:
    bar = ProgressBar("reading", 1000, "rows", log())
    now.seconds += 50
    assert bar.line() == "reading: 0 of 1,000 rows, 0:50 so far"
    bar.begin("sorting", 64, "groups")
    now.seconds += 10
    bar.update(16, "2 of them empty")
    assert bar.line() == "sorting: 16 of 64 groups, 0:30 left, 2 of them empty"
    now.seconds += 5
    assert bar.line() == "sorting: 16 of 64 groups, 0:25 left, 2 of them empty"
    now.seconds += 50
    assert bar.left() == 0


def test_what_was_done_before_does_not_count_as_pace(now) -> None:
    bar = ProgressBar("scoring", 100, "rows", log())
    bar.skip(50)
    assert bar.left() is None
    now.seconds += 10
    bar.update(60)
    assert bar.left() == pytest.approx(40)


def test_an_unknown_or_too_small_total(now) -> None:
    bar = ProgressBar("predicting", None, "rows", log())
    now.seconds += 3
    bar.update(70)
    assert bar.line() == "predicting: 70 rows, 0:03 so far"
    bar.total = 60  # an estimate
    assert bar.line() == "predicting: 70 of 70 rows, 0:00 left"
    assert ProgressBar("comparing edges", console=log()).line() == "comparing edges, 0:00 so far"


def test_a_log_gets_lines_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.SECONDS_BETWEEN_LINES == 10
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)
    console, rows = log(), iter(range(10, 10**9))
    with ProgressBar("scoring", 1e9, "rows", console, watch=lambda: next(rows)):
        wait_for(console, "scoring: 10 of 1,000,000,000 rows, ")
        wait_for(console, "scoring: 12 of 1,000,000,000 rows, ")
    assert not any("\x1b" in line for line in console.file.getvalue().splitlines())


def test_a_bar_fits_80_columns_whatever_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BEFORE_BAR", 0.0)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_DRAWINGS", 0.01)
    console = terminal()
    with ProgressBar("comparing", 40, "runs", console) as bar:
        bar.update(4, "running " + "gcn+drop_edge on cora under noise; " * 5)
        wait_for(console, "4 of 40 runs, running gcn")
        drawn = Console(width=200, file=io.StringIO())
        drawn.print(bar._bar.get_renderable())
    (line,) = drawn.file.getvalue().splitlines()
    assert len(line.rstrip()) <= 80 - len("^C") - 1
    assert line.rstrip().endswith("…")
    assert console.file.getvalue().endswith("\x1b[2K")  # erased


def test_short_work_shows_no_bar() -> None:
    console = terminal()
    with ProgressBar("predicting", 10, "rows", console) as bar:
        bar.update(10)
    assert console.file.getvalue() == ""


def test_of_nested_bars_the_innermost_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)
    outer, inner = log(), log()
    with ProgressBar("training", console=outer):
        wait_for(outer, "training")
        with ProgressBar("pre-training", console=inner):
            wait_for(inner, "pre-training")
            before = outer.file.getvalue()
            inner.file.truncate(0)
            wait_for(inner, "pre-training")
            assert outer.file.getvalue() == before
        outer.file.truncate(0)
        wait_for(outer, "training")
    assert ProgressBar._shown == []


def test_a_stage_has_a_time_left_where_its_share_is_known() -> None:
    bar = ProgressBar("importing")
    bar.show_stage("building the index", None)
    assert bar.line() == "building the index, 0:00 so far"
    bar.show_stage("reading nodes", 0.0)
    bar.phase_began -= 10  # a quarter took ten seconds, so the rest takes thirty
    bar.show_stage("reading nodes", 0.25)
    assert bar.line() == "reading nodes, 0:30 left, 25%"


def test_work_that_is_no_longer_watched_ends_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread may take the watch away while the thread of the bar asks for the amount that is done."""

    class Unwatched(ProgressBar):
        asked = 0

        @property
        def watch(self) -> Any:
            self.asked += 1
            return None if self.asked % 2 == 0 else lambda: 1.0

        @watch.setter
        def watch(self, value: Any) -> None:
            pass

    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    with Unwatched("comparing", 3, "runs", log()) as bar:
        deadline = time.monotonic() + 5
        while bar.asked < 4 and not failures and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not failures
