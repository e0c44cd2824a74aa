"""Statistics against numbers worked out by hand and SciPy's, and what they must not depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gssc.errors import GsscError
from gssc.evaluate.statistics import (
    PairedDifference,
    Summary,
    average_ranks,
    differences_to,
    holm,
    mark,
    paired_difference,
    summary,
)

SCORE = st.integers(0, 1000).map(lambda number: number / 10)
SCORES = st.dictionaries(st.integers(0, 7), SCORE | st.none(), max_size=8)
TABLE = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.dictionaries(st.sampled_from(["x", "y"]), SCORES), max_size=4
)


def by_seed(*scores: float | None) -> dict[int, float | None]:
    return dict(enumerate(scores))


# Spread


def test_summary_by_hand() -> None:
    assert summary([2.0, 4.0, None, float("nan")]) == Summary(3.0, 1.0, 2)  # population: both lie 1 from the mean
    assert summary([2.0, 4.0], ddof=1).std == pytest.approx(math.sqrt(2))
    assert summary([7.0]) == Summary(7.0, None, 1)
    assert summary([]) == summary([None]) == Summary(None, None, 0)
    assert [str(summary(scores)) for scores in ([2.0, 4.0], [7.0], [])] == ["3.00 ± 1.00", "7.00", "-"]


def test_summary_equals_the_published_table() -> None:
    assert str(summary([73.4, 73.3, 73.5, 73.5, 73.1])) == "73.36 ± 0.15"  # five runs by hand


# Pairs


def test_paired_difference_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, s = 1, error 1/sqrt(3); t(2) at 97.5% is 4.302653."""
    result = paired_difference(by_seed(2, 4, 6), by_seed(1, 2, 3))
    reach = 4.302653 / math.sqrt(3)
    assert result.mean == 2
    assert (result.low, result.high) == (pytest.approx(2 - reach, abs=1e-6), pytest.approx(2 + reach, abs=1e-6))
    # t = 2 sqrt(3) with two degrees of freedom has p = 1 - t / sqrt(2 + t^2)
    assert result.p == pytest.approx(1 - math.sqrt(12 / 14))


def test_paired_difference_as_scipy_has_it() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(80, 1, 10), rng.normal(79, 1, 10)
    theirs = stats.ttest_rel(one, two)
    mine = paired_difference(by_seed(*one), by_seed(*two), confidence=0.9)
    interval = theirs.confidence_interval(0.9)
    assert (mine.p, mine.low, mine.high) == pytest.approx((theirs.pvalue, interval.low, interval.high))


def test_only_common_seeds_count() -> None:
    method = {0: 1.0, 1: 2.0, 2: None, 3: 9.0, "x": 7.0}
    reference = {3: 5.0, 2: 4.0, 1: float("nan"), 0: 0.0, "y": 1.0}
    result = paired_difference(method, reference)
    assert (result.mean, result.n) == (2.5, 2)
    assert result.p == pytest.approx(stats.ttest_rel([1, 9], [0, 5]).pvalue)


def test_too_little_to_tell() -> None:
    assert paired_difference({}, by_seed(1, 2)) == PairedDifference(None, None, None, None, 0)
    assert paired_difference(by_seed(3), by_seed(1, 2)) == PairedDifference(2, None, None, None, 1)
    # Two methods that do not vary, and two that differ by the same amount up to rounding
    assert paired_difference(by_seed(3, 3, 3), by_seed(1, 1, 1)) == PairedDifference(2, None, None, None, 3)
    assert paired_difference(by_seed(0.3, 0.5), by_seed(0.1, 0.3)).p is None
    assert paired_difference(by_seed(0, 0), by_seed(0, 0)) == PairedDifference(0, None, None, None, 2)


@given(SCORES, SCORES)
def test_the_other_way_round_changes_the_sign_only(method: dict, reference: dict) -> None:
    there, back = paired_difference(method, reference), paired_difference(reference, method)
    assert (there.n, there.p is None) == (back.n, back.p is None)
    if there.mean is not None:
        assert there.mean == pytest.approx(-back.mean, abs=1e-9)
    if there.p is not None:
        assert 0 <= there.p <= 1
        assert there.low < there.mean < there.high
        assert (there.low, there.high, there.p) == pytest.approx((-back.high, -back.low, back.p), abs=1e-9)
        inside = there.low <= 0 <= there.high
        assert inside == (there.p >= 0.05) or there.p == pytest.approx(0.05)


@given(SCORES, SCORES, st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(method: dict, reference: dict, random) -> None:
    items = list(method.items())
    random.shuffle(items)
    mine, shuffled = paired_difference(method, reference), paired_difference(dict(items), reference)
    assert mine.n == shuffled.n
    if mine.p is not None:
        assert tuple(shuffled) == pytest.approx(tuple(mine))


def test_differences_to_a_method() -> None:
    table = {
        "gssc": {"cora": by_seed(85, 86, 87), "actor": by_seed(30, 31)},
        "gcn": {"cora": by_seed(81, 81, 81)},
        "mlp": {"actor": by_seed(32, 32, 40)},
    }
    result = differences_to(table, "gssc")
    assert list(result) == ["cora", "actor"]
    assert list(result["cora"]) == ["gcn", "mlp"]
    assert result["cora"]["gcn"].mean == -5
    assert result["cora"]["mlp"] == result["actor"]["gcn"] == PairedDifference(None, None, None, None, 0)
    assert (result["actor"]["mlp"].mean, result["actor"]["mlp"].n) == (1.5, 2)
    with pytest.raises(GsscError, match="did you mean 'gssc'"):
        differences_to(table, "gsc")


# Ranks


def test_ranks_by_hand() -> None:
    table = {
        "a": {"x": by_seed(3, 3), "y": by_seed(0.1, 0.2), "z": by_seed(1)},
        "b": {"x": by_seed(2, 2), "y": by_seed(0.15, 0.15), "z": by_seed(None)},  # y is a tie but for rounding
        "c": {"x": by_seed(1, 1, 99), "y": by_seed(0, 0), "z": by_seed(2)},  # the third seed of x is c's alone
        "d": {"z": {}},
    }
    result = average_ranks(table)
    assert result.columns == ("x", "y")  # b has nothing in z
    assert result.ranks == {"a": 1.25, "b": 1.75, "c": 3.0, "d": None}
    assert average_ranks(table, higher_is_better=False).ranks == {"a": 2.75, "b": 2.25, "c": 1.0, "d": None}
    assert average_ranks({"a": {"x": by_seed(1)}, "b": {"y": by_seed(1)}}) == ({"a": None, "b": None}, ())
    assert average_ranks({}) == ({}, ())


@given(st.lists(st.lists(SCORE, min_size=2, max_size=2), min_size=1, max_size=6))
def test_ranks_as_scipy_has_them(scores: list[list[float]]) -> None:
    table = {f"m{row}": {"x": {0: x}, "y": {0: y}} for row, (x, y) in enumerate(scores)}
    expected = stats.rankdata(-np.array(scores), axis=0).mean(axis=1)
    assert list(average_ranks(table).ranks.values()) == pytest.approx(expected.tolist())


# Marks


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 * 0.01, then 2 * 0.03, then not below that
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_only_raises_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(after >= before for after, before in zip(adjusted, p_values, strict=True))
    assert all(after <= 1 for after in adjusted)
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()


def test_marks_by_hand() -> None:
    wave = np.array([0.0, 0.1, -0.1, 0.2, -0.2])
    table = {
        "a": {"clear": by_seed(*(80 + wave)), "tie": by_seed(*(80 + wave)), "once": by_seed(80)},
        "b": {"clear": by_seed(*(70 - wave)), "tie": by_seed(*(79.9 - wave)), "once": by_seed(70)},
        "c": {"clear": by_seed(*(60 + 2 * wave)), "tie": by_seed(*(60 + 2 * wave)), "once": by_seed(60)},
    }
    marks = mark(table)
    assert marks.best == {"clear": "a", "tie": None, "once": None}
    assert marks.second == {"clear": "b", "tie": None, "once": None}  # no second without a best
    assert mark(table, higher_is_better=False).best == {"clear": "c", "tie": "c", "once": None}
    assert mark(table, higher_is_better=False).second == {"clear": "b", "tie": None, "once": None}
    for word in ("paired t-test", "Holm", "5%", "common seeds"):
        assert word in marks.caption
    assert "1% level" in mark(table, level=0.01).caption


def test_the_correction_counts_the_methods() -> None:
    """One comparison at p = 0.04 is enough by itself; two or more such are not."""
    better = by_seed(*np.array([1.0, 2.0, 3.0, 4.0]))
    # differences 1, 2, 3, 4 shifted so that t(3) gives p = 0.04
    t = float(stats.t.isf(0.02, 3))
    shift = 2.5 - t * np.std([1, 2, 3, 4], ddof=1) / 2
    rival = by_seed(*([shift] * 4))
    assert paired_difference(better, rival).p == pytest.approx(0.04)
    assert mark({"a": {"x": better}, "b": {"x": rival}}).best == {"x": "a"}
    assert mark({"a": {"x": better}, "b": {"x": rival}}).second == {"x": None}  # nothing below it
    assert mark({"a": {"x": better}, "b": {"x": rival}, "c": {"x": rival}}).best == {"x": None}


def test_what_cannot_be_tested_prevents_a_mark() -> None:
    good, poor = by_seed(80.0, 80.1, 80.2), by_seed(60.0, 60.2, 60.1)
    assert mark({"a": {"x": good}, "b": {"x": poor}, "c": {}}).best == {"x": "a"}  # an empty cell is no rival
    assert mark({"a": {"x": good}, "b": {"x": poor}, "c": {"x": {0: 50.0}}}).best == {"x": None}
    assert mark({"a": {"x": good}, "b": {"x": {7: 1.0, 8: 2.0}}}).best == {"x": None}  # no common seeds
    # Ahead by its own seeds, behind on those in common
    alone = {0: 50.0, 1: 50.1, 9: 900.0}
    assert mark({"a": {"x": alone}, "b": {"x": by_seed(80.0, 80.2, 80.1)}}).best == {"x": None}
    assert mark({}).best == {}


@given(TABLE, st.integers(-50, 50), st.permutations(["a", "b", "c", "d"]))
def test_marks_do_not_depend_on_shift_or_order(table: dict, shift: int, order: list[str]) -> None:
    def moved(scores: dict) -> dict:
        return {seed: None if score is None else score + shift for seed, score in scores.items()}

    marks = mark(table)
    other = mark({m: {c: moved(scores) for c, scores in table[m].items()} for m in order if m in table})
    assert (marks.best, marks.second) == (other.best, other.second)
    for column, winner in marks.best.items():
        assert marks.second[column] is None or winner is not None
        for rival in set(table) - {winner} if winner else ():
            scores = table[rival].get(column, {})
            if summary(scores.values()).n:
                difference = paired_difference(table[winner][column], scores)
                assert difference.p is not None
                assert difference.p <= 0.05
                assert difference.mean > 0
