"""Splits: the right sizes, no overlap, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssc.data.splits import Split, from_masks, labelled_nodes, make_split, n_per_class, ratios
from gssc.errors import GsscError

LABELS = np.array([0] * 5 + [1] * 4 + [-1] * 2 + [2])


def assert_disjoint_and_labelled(split: Split, labels: np.ndarray) -> None:
    together = np.concatenate(split)
    assert len(np.unique(together)) == len(together)
    assert np.isin(together, labelled_nodes(labels)).all()
    for part in split:
        assert part.tolist() == sorted(part.tolist())


def test_n_per_class_by_hand() -> None:
    train, val, test = n_per_class(LABELS, 2, np.random.default_rng(0))
    assert np.bincount(LABELS[train]).tolist() == [2, 2, 1]  # class 2 has one node only
    assert (len(val), len(test)) == (1, 4)  # a third of the five that remain, and the others
    assert_disjoint_and_labelled((train, val, test), LABELS)


def test_usual_sizes_where_there_is_room() -> None:
    labels = np.arange(3000) % 3
    train, val, test = n_per_class(labels, 20, np.random.default_rng(0))
    assert (len(train), len(val), len(test)) == (60, 500, 1000)
    train, val, test = n_per_class(labels, 5, np.random.default_rng(0), val_per_class=30)
    assert np.bincount(labels[val]).tolist() == [30, 30, 30]
    assert len(test) == 3000 - 15 - 90


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 99), st.booleans())
def test_any_split_is_a_split(labels: list[int], n: int, seed: int, by_ratio: bool) -> None:
    array = np.array(labels)
    spec = f"ratio:{n}/1/1" if by_ratio else f"per-class:{n}"
    split, name = make_split(spec, array, seed)
    again, _ = make_split(spec, array, seed)
    assert_disjoint_and_labelled(split, array)
    assert name.endswith(f"seed={seed}")
    assert all((mine == theirs).all() for mine, theirs in zip(split, again, strict=True))
    if by_ratio:
        assert sum(map(len, split)) == (array >= 0).sum()


def test_ratios() -> None:
    sizes = [len(part) for part in ratios(np.zeros(100), (48, 32, 20), np.random.default_rng(1))]
    assert sizes == [48, 32, 20]
    several = np.array([[0, np.nan], [np.nan, np.nan], [1, 1]])
    assert np.concatenate(ratios(several, (1, 1, 0), np.random.default_rng(0))).tolist() in ([0, 2], [2, 0])


def test_names_and_masks() -> None:
    assert make_split("per-class:1", LABELS, 3)[1] == "1-per-class seed=3"
    assert make_split("per-class:1/2/3", LABELS, 3)[1] == "1-per-class 2/3 seed=3"
    assert make_split("ratio:60/20/20", LABELS, 0)[1] == "ratio 60/20/20 seed=0"
    masks = (np.array([1, 0, 0], bool), np.array([0, 0, 1], bool), np.array([0, 1, 0], bool))
    assert [part.tolist() for part in from_masks(*masks)] == [[0], [2], [1]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("per-class:0", "at least 1"),
        ("per-class:2/50/50", "only 5 labelled nodes remain"),
        ("ratio:0/1/1", "the first above 0"),
        ("per-class:x", "not understood"),
        ("ratio:1/2", "not understood"),
    ],
)
def test_bad_splits(spec: str, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        make_split(spec, LABELS, 0)
    with pytest.raises(GsscError, match="one class per node"):
        make_split("per-class:1", np.zeros((3, 2)), 0)
