"""Edge batches: every pair once, rows that line up with nodes, negatives from the right distribution."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gssc.features import FeatureTable, SparseRows
from gssc.train.batches import EdgeBatch, EdgeBatches

# A star: node 0 with 1, 2, 3, both directions of each edge; node 4 stands alone.
STAR = np.array([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


def numbered(nodes: int, sparse: bool = False) -> FeatureTable:
    """Features that identify their node: row i is (i, 1)."""
    features = np.stack([np.arange(nodes), np.ones(nodes)], axis=1).astype(np.float32)
    return FeatureTable(sp.csr_matrix(features) if sparse else features)


def batches_of(nodes: int, batch_size: int, **options: object) -> EdgeBatches:
    return EdgeBatches(numbered(nodes), torch.arange(nodes), batch_size, **options)


def node_of(batch: EdgeBatch, positions: torch.Tensor) -> np.ndarray:
    rows = batch.rows.matrix.toarray() if isinstance(batch.rows, SparseRows) else batch.rows.numpy()
    return rows[positions.numpy(), 0].astype(int)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(1, 12))
def test_every_pair_is_visited_exactly_once_per_epoch(count: int, batch_size: int):
    pairs = np.stack([np.arange(count), np.arange(count)[::-1]])
    visited = [batch.index for batch in batches_of(max(count, 1), batch_size).epoch(pairs, rng())]
    assert sorted(np.concatenate([*visited, np.empty(0)]).tolist()) == list(range(count))
    sizes = [len(index) for index in visited]
    assert max(sizes, default=0) <= batch_size + 1
    # One pair alone is met only where there is no other to join, or one a batch was asked for.
    assert sizes.count(1) == (1 if count == 1 else max(count - 2, 0) if batch_size == 1 else 0)


def test_a_last_batch_of_one_joins_the_batch_before_it():
    pairs = np.stack([np.arange(9), np.arange(9)])
    assert [len(batch) for batch in batches_of(9, 4).epoch(pairs, rng())] == [4, 5]
    assert [len(batch) for batch in batches_of(9, 8).epoch(pairs, rng())] == [9]
    assert [len(batch) for batch in batches_of(9, 7).epoch(pairs, rng())] == [7, 2]


def test_no_pairs_no_batches():
    for negatives in ("uniform", "degree", "in_batch", "none"):
        assert list(batches_of(5, 4, negatives=negatives).epoch(STAR[:, :0], rng())) == []


def test_max_batches_cuts_an_epoch_short_at_random_pairs():
    seen = set()
    for seed in range(30):
        epoch = list(batches_of(5, 2, max_batches=1).epoch(STAR, rng(seed)))
        assert [len(batch) for batch in epoch] == [2]
        seen |= set(epoch[0].index.tolist())
    assert seen == set(range(6))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("negatives", ["uniform", "degree", "in_batch", "none"])
def test_rows_and_labels_line_up_with_the_nodes(sparse: bool, negatives: str):
    labels = torch.tensor([10, 11, -1, 13, 14])
    for batch in EdgeBatches(numbered(5, sparse), labels, 4, negatives).epoch(STAR, rng()):
        ends = STAR[:, batch.index]
        assert np.array_equal(node_of(batch, batch.source), ends[0])
        assert np.array_equal(node_of(batch, batch.target), ends[1])
        assert torch.equal(batch.labels, labels[torch.from_numpy(ends)])
        assert batch.rows.shape[0] == len(np.unique(node_of(batch, torch.arange(batch.rows.shape[0]))))
        assert (batch.negative is not None) == (negatives in ("uniform", "degree"))
        assert batch.negatives_in_batch == (negatives == "in_batch")
        if batch.negative is not None:
            assert len(batch.negative) == len(batch)


def test_multilabel_targets_line_up_too():
    targets = torch.arange(10.0).view(5, 2)
    (batch,) = EdgeBatches(numbered(5), targets, 10).epoch(STAR, rng())
    assert torch.equal(batch.labels, targets[torch.from_numpy(STAR[:, batch.index])])


def drawn(negatives: str) -> np.ndarray:
    batches = batches_of(5, 6, negatives=negatives)
    generator = rng()
    nodes = [node_of(b, b.negative) for _ in range(1500) for b in batches.epoch(STAR, generator)]
    return np.bincount(np.concatenate(nodes), minlength=5) / 9000


def test_degree_negatives_are_drawn_in_proportion_to_degree():
    # Degrees of the star: 3, 1, 1, 1 and 0 for the node that stands alone; 9,000 draws.
    assert drawn("degree") == pytest.approx([3 / 6, 1 / 6, 1 / 6, 1 / 6, 0], abs=0.02)


def test_uniform_negatives_are_any_node_alike():
    assert drawn("uniform") == pytest.approx([1 / 5] * 5, abs=0.02)


def test_a_lone_pair_has_no_others_to_serve_as_negatives():
    (batch,) = batches_of(5, 4, negatives="in_batch").epoch(STAR[:, :1], rng())
    assert batch.negative is None
    assert not batch.negatives_in_batch


def test_the_same_generator_gives_the_same_epoch_another_gives_another():
    def nodes(seed: int) -> list[list[int]]:
        batches = batches_of(5, 4).epoch(STAR, rng(seed))
        return [[*b.index.tolist(), *node_of(b, b.negative).tolist()] for b in batches]

    assert nodes(0) == nodes(0)
    assert nodes(0) != nodes(1)
