"""Shuffled pairs of edges: each once per pass, in an order that is uniform enough, from any position."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import chi2

from gssc.train.edge_stream import EdgeStream, PairBatch, Position, cut, prefetched

EDGES = np.stack([np.arange(50), np.arange(50) + 1])


def stream(batch_size: int = 7, block: int = 4, blocks: int = 3, seed: int = 0, **options: object) -> EdgeStream:
    return EdgeStream(EDGES, batch_size, seed, block, blocks, **options)  # type: ignore[arg-type]


def pairs_of(batches: Iterator[PairBatch]) -> list[tuple[int, int]]:
    return [tuple(pair) for batch in batches for pair in batch.pairs[:, batch.index].T.tolist()]


def both_ways(edges: np.ndarray = EDGES) -> Counter[tuple[int, int]]:
    return Counter(map(tuple, np.concatenate([edges, edges[::-1]], axis=1).T.tolist()))


def edges_of(batches: Iterator[PairBatch]) -> Counter[tuple[int, int]]:
    """Pairs of batches that have every edge once, in both directions."""
    return both_ways(np.array(pairs_of(batches)).T)


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("run", [1, 3, 100])
def test_runs_have_every_edge_once_per_pass_and_stay_together(batch_size: int, run: int) -> None:
    for number in range(3):
        assert edges_of(stream(batch_size, run=run).batches(Position(number))) == both_ways()
    for batch in stream(24, run=3).batches(Position()):
        first = batch.index[: len(batch.index) // 3 * 3].reshape(-1, 3)
        assert (np.diff(first, axis=1) == 1).all() or len(batch.index) % 3  # the last run of a buffer may be shorter
        assert len(batch.index) <= 24 // 2 + 1


def test_runs_share_rows() -> None:
    ends = np.sort(np.random.default_rng(0).integers(0, 200, 4000)), np.random.default_rng(1).integers(0, 10**6, 4000)
    rows = {}
    for run in (0, 16):
        batch = next(EdgeStream(np.stack(ends), 512, run=run).batches(Position()))
        rows[run] = len(np.unique(batch.pairs[:, batch.index]))
    assert rows[16] < 0.45 * rows[0]


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_every_pair_comes_once_per_pass(batch_size: int) -> None:
    for number in range(3):
        assert Counter(pairs_of(stream(batch_size).batches(Position(number)))) == both_ways()
    assert all(len(batch.index) > 1 for batch in stream(2).batches(Position()))


@pytest.mark.parametrize("run", [0, 2])
def test_a_pass_goes_on_from_any_position(run: int) -> None:
    whole = list(stream(run=run).batches(Position(5)))
    for number, batch in enumerate(whole[:-1]):
        rest = list(stream(run=run).batches(batch.next))
        assert pairs_of(iter(rest)) == pairs_of(iter(whole[number + 1 :]))
        assert rest[0].rng.random() == np.random.default_rng([0, 5, *_place(batch.next)]).random()
    assert whole[-1].next == Position(6)


def _place(position: Position) -> tuple[int, int]:
    return position.buffer, 1 + position.batch


def test_an_endless_stream_goes_on_with_the_next_pass() -> None:
    endless = stream().endless(Position())
    first = [next(endless) for _ in range(len(list(stream().batches(Position()))))]
    assert next(endless).next.passes == 1
    assert first[-1].next == Position(1)
    nothing = EdgeStream(np.empty((2, 0), dtype=np.int32), 4)
    assert list(nothing.endless(Position())) == []


def test_hidden_nodes_have_no_pairs() -> None:
    hidden = np.zeros(51, dtype=bool)
    hidden[10] = True
    found = Counter(pairs_of(stream(hidden=hidden).batches(Position())))
    assert found == both_ways(EDGES[:, (EDGES != 10).all(axis=0)])


@pytest.mark.parametrize("run", [0, 3])
@pytest.mark.parametrize("hides", [False, True])
def test_pairs_have_the_weights_of_their_edges(run: int, hides: bool) -> None:
    weight = np.arange(1, 51, dtype=np.float32)  # an edge from node i to node i + 1 has weight i + 1
    hidden = np.arange(51) >= 40 if hides else None
    weighed = stream(run=run, weight=weight, hidden=hidden)
    for batch in weighed.batches(Position(2)):
        assert batch.weight is not None
        assert batch.weight.tolist() == batch.pairs.max(axis=0).tolist()
    assert weighed.full_weight() == (36 if hides else 46)  # a tenth of the weights, 1 to 39 or 1 to 50, are greater
    assert next(stream(run=run).batches(Position())).weight is None


@pytest.mark.parametrize("run", [0, 2])
def test_every_edge_is_about_as_likely_anywhere_in_a_pass(run: int) -> None:
    """A chi-square test of pair by tenth of the pass over 300 passes, at a level of one in a million.

    Blocks stay together in a buffer, so positions within one pass depend on each other; over passes they do not.
    """
    passes, tenths = 300, 10
    counts = np.zeros((51, 51, tenths))
    for number in range(passes):
        found = pairs_of(stream(run=run).batches(Position(number)))
        for place, (first, second) in enumerate(found):
            counts[first, second, place * tenths // len(found)] += 1
    seen = counts[counts.sum(axis=2) > 0]
    assert len(seen) == (50 if run else 100)
    expected = passes / tenths
    statistic = ((seen - expected) ** 2 / expected).sum()
    # Pairs of a buffer, 2 x 4 x 3 of them, move together: as if they were one, which widens the spread by a root of it.
    degrees = (tenths - 1) * len(seen)
    assert statistic / degrees < 1 + (chi2.ppf(1 - 1e-6, degrees) / degrees - 1) * np.sqrt(24)
    order = [first for first, _ in pairs_of(stream(run=run).batches(Position(7)))]
    assert abs(np.corrcoef(np.arange(len(order)), order)[0, 1]) < 0.5


def test_a_sample_of_edges_holds_each_once_and_no_hidden_node() -> None:
    hidden = np.zeros(51, dtype=bool)
    hidden[:10] = True
    sample = stream(hidden=hidden).sample(30, seed=3)
    assert not hidden[sample].any()
    assert max(Counter(map(tuple, sample.T.tolist())).values()) == 1
    assert stream().sample(10**6, seed=3).shape == EDGES.shape


def test_order_depends_on_seed_and_pass_alone() -> None:
    first, again = (pairs_of(stream().batches(Position(2))) for _ in range(2))
    assert first == again
    assert first != pairs_of(stream().batches(Position(3)))
    assert first != pairs_of(stream(seed=1).batches(Position(2)))


def test_cut() -> None:
    assert [len(part) for part in cut(np.arange(9), 4)] == [4, 5]
    assert cut(np.arange(0), 4) == []
    assert [len(part) for part in cut(np.arange(1), 4)] == [1]


# Ahead of time -------------------------------------------------------------------------------------------------------


def test_prefetched_items_are_the_same_and_the_thread_ends() -> None:
    before = threading.active_count()
    assert list(prefetched(range(100), ahead=3)) == list(range(100))
    endless = prefetched(iter(int, 1), ahead=3)
    assert next(endless) == 0
    endless.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_items_are_made_ahead_but_not_without_bound() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            made.append(number)
            yield number

    ahead = prefetched(items(), ahead=3)
    next(ahead)
    deadline = time.monotonic() + 10
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(made) == 4  # one in use and three ahead
    ahead.close()  # type: ignore[attr-defined]


def test_an_error_of_the_thread_is_raised_where_its_item_would_be() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    ahead = prefetched(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)
