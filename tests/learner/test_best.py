"""Which student is kept: the rule against luck."""

from __future__ import annotations

from math import nan

from gssc.learner.best import BestStudent
from gssc.train.selection import Epoch


def kept(best: BestStudent, *students: tuple[float, float], error: float) -> str:
    """Name of the student that is kept of these, by their two figures."""
    for number, merit in enumerate(students):
        best.offer(merit, error, f"student {number}")
        best.judge(record(number))
    return best.name


def record(number: int) -> Epoch:
    return Epoch(epoch=number, phase="student", val_score=nan, test_score=nan, edges_kept=0, homophily=nan)


def test_without_an_error_the_first_figure_decides_and_ties_go_to_the_second():
    assert kept(BestStudent(), (0.8, -1.0), (0.81, -2.0), (0.81, -1.5), (0.81, -1.5), error=0.0) == "student 2"


def test_within_the_error_the_second_figure_decides():
    assert kept(BestStudent(), (0.80, -0.5), (0.81, -0.6), (0.80, -0.4), error=0.02) == "student 2"


def test_a_student_far_below_the_best_is_not_kept_for_its_second_figure():
    assert kept(BestStudent(), (0.80, -0.5), (0.70, -0.1), error=0.02) == "student 0"


def test_a_leap_in_the_first_figure_replaces_whatever_was_kept():
    assert kept(BestStudent(), (0.70, -0.1), (0.80, -0.5), error=0.02) == "student 1"


def test_epochs_without_a_finished_student_are_not_kept():
    best = BestStudent()
    assert not best.judge(record(0))
    assert best.record is None


def test_its_state_goes_on():
    first, second = BestStudent(), BestStudent()
    kept(first, (0.80, -0.5), (0.83, -0.9), error=0.02)
    second.load_state_dict(first.state_dict())
    assert kept(first, (0.815, -0.6), error=0.02) == kept(second, (0.815, -0.6), error=0.02)
