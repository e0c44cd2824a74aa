"""Feature rows: dense, sparse and memory-mapped ones are one path with one result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gssc.features import FeatureTable, SparseRows, product, row_normalized, rows_of, usual_normalization

# Four nodes: an ordinary row, an all-zero one, one that sums to zero, a negative one.
FEATURES = np.array([[1, 3, 0], [0, 0, 0], [2, -2, 0], [-1, 0, -1]], dtype=np.float32)


def random_rows(seed: int, rows: int, columns: int, density: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((rows, columns)).astype(np.float32)
    dense[rng.random((rows, columns)) > density] = 0
    return dense


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.sampled_from([0.0, 0.2, 1.0])
)
def test_sparse_product_and_its_weight_gradient_equal_the_dense_ones(
    seed: int, rows: int, columns: int, width: int, density: float
):
    dense = random_rows(seed, rows, columns, density)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(columns, width, generator=generator)
    upstream = torch.randn(rows, width, generator=generator)
    results = []
    for stored in (torch.from_numpy(dense), SparseRows(sp.csr_matrix(dense))):
        leaf = weight.clone().requires_grad_()
        out = product(stored, leaf)
        (out * upstream).sum().backward()
        results.append((out.detach(), leaf.grad))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-5)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-5)


def test_sparse_product_passes_pytorchs_own_gradient_check():
    rows = SparseRows(sp.csr_matrix(FEATURES.astype(np.float64)))
    weight = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: product(rows, w), (weight,))


def test_sparse_gradient_takes_an_expanded_upstream():
    """The gradient of a sum is an expanded view of one number; the sparse kernel needs a contiguous array."""
    weight = torch.ones(3, 2, requires_grad=True)
    product(SparseRows(sp.csr_matrix(FEATURES)), weight).sum().backward()
    assert weight.grad[:, 0].tolist() == FEATURES.sum(0).tolist()


def test_row_normalisation_by_hand():
    # (1, 3, 0) and (2, -2, 0) have absolute sum 4, (-1, 0, -1) has 2; zeros stay as they are.
    expected = np.array([[0.25, 0.75, 0], [0, 0, 0], [0.5, -0.5, 0], [-0.5, 0, -0.5]], dtype=np.float32)
    assert np.array_equal(row_normalized(FEATURES), expected)
    assert np.array_equal(row_normalized(sp.csr_matrix(FEATURES)).toarray(), expected)


@pytest.mark.filterwarnings("error")
def test_rows_at_the_ends_of_single_precision_are_normalised_too():
    huge, tiny = np.full((1, 2), 3e38, np.float32), np.full((1, 2), 1e-44, np.float32)
    for form in (np.asarray, sp.csr_matrix):
        assert np.asarray(row_normalized(form(huge)).sum()) == pytest.approx(1)
        assert 0 < np.asarray(row_normalized(form(tiny)).sum()) < np.inf


def test_normalising_leaves_the_callers_features_alone():
    dense, sparse = FEATURES.copy(), sp.csr_matrix(FEATURES)
    FeatureTable(dense, "row").rows(np.arange(4))
    FeatureTable(sparse, "row").rows(np.arange(4))
    assert np.array_equal(dense, FEATURES)
    assert np.array_equal(sparse.toarray(), FEATURES)


def as_dense(rows: torch.Tensor | SparseRows) -> np.ndarray:
    return rows.matrix.toarray() if isinstance(rows, SparseRows) else rows.numpy()


@pytest.mark.parametrize("normalize", ["row", "none"])
def test_memory_map_and_csr_hand_out_the_rows_an_array_does(tmp_path: Path, normalize: str):
    features = random_rows(3, 50, 7, 0.5)
    np.save(tmp_path / "x.npy", features)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    nodes = np.array([4, 4, 49, 0, 17])
    tables = [FeatureTable(stored, normalize) for stored in (features, mapped, sp.csr_matrix(features))]
    expected = row_normalized(features) if normalize == "row" else features
    for table in tables:
        assert table.shape == (50, 7)
        assert np.allclose(as_dense(table.rows(nodes)), expected[nodes], atol=1e-7)
        assert np.allclose(as_dense(table.all()), expected, atol=1e-7)
        assert np.allclose(np.concatenate([as_dense(block) for block in table.blocks(16)]), expected, atol=1e-7)
    # Bit for bit: where rows live must not change the weights that come of them.
    assert np.array_equal(as_dense(tables[0].rows(nodes)), as_dense(tables[1].rows(nodes)))


@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_blocks_cover_every_row_once_in_order(size: int):
    table = FeatureTable(FEATURES)
    blocks = [as_dense(block) for block in table.blocks(size)]
    assert np.array_equal(np.concatenate(blocks), FEATURES)
    assert max(map(len, blocks)) <= size


def test_features_in_other_types_become_float32():
    for stored in (FEATURES.astype(np.float64), sp.csr_matrix(FEATURES.astype(np.int64))):
        for normalize in ("row", "none"):
            assert as_dense(FeatureTable(stored, normalize).rows(np.array([0, 3]))).dtype == np.float32


def test_read_only_sparse_features_are_read_without_complaint():
    """A CSR matrix over a memory-mapped file, or one handed over by a data frame, may not be written to."""
    matrix = sp.csr_matrix(FEATURES)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    table = FeatureTable(matrix, "none")
    assert np.array_equal(product(table.all(), torch.eye(3)).numpy(), FEATURES)


# How features are scaled ---------------------------------------------------------------------------------------------


def bags_of_words(stored=np.asarray):
    return stored((np.random.default_rng(0).random((50, 40)) < 0.05).astype(np.float32))


@pytest.mark.parametrize(
    ("features", "usual"),
    [
        (bags_of_words(), "row"),
        (bags_of_words(sp.csr_matrix), "row"),
        (-bags_of_words(), "none"),
        (np.random.default_rng(0).random((50, 4)), "none"),  # such as pixels
        (np.random.default_rng(0).standard_normal((50, 4)), "none"),
        (np.random.default_rng(0).standard_normal((50, 4)) * [1, 50, 1, 1], "standard"),
        (np.random.default_rng(0).standard_normal((50, 4)) + 1000, "standard"),
        (np.random.default_rng(0).random((50, 4)) * 0.004, "standard"),
        (np.ones((50, 4)), "none"),
        (np.random.default_rng(0).random((12_000, 2)) * [1, 1e3], "standard"),
    ],
)
def test_the_usual_normalization_follows_what_features_are(features, usual) -> None:
    assert usual_normalization(features) == usual


def test_standard_scaling_by_hand_and_on_rows_it_was_not_learned_from() -> None:
    table = FeatureTable(np.array([[1.0, 5.0], [3.0, 5.0]], dtype=np.float32), "standard")
    assert as_dense(table.all()).tolist() == [[-1, 0], [1, 0]]  # mean 2, deviation 1; a constant column is zero
    later = FeatureTable(np.array([[5.0, 6.0]], dtype=np.float32), table.scaling)
    assert as_dense(later.all()).tolist() == [[3, 0]]  # nothing was learned about the second column


def test_standard_scaling_is_the_same_from_memory_and_from_disk(tmp_path) -> None:
    features = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32) * [1, 10, 100]
    np.save(tmp_path / "x.npy", features.astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    nodes = np.array([4, 7])
    in_memory, on_disk = (FeatureTable(each, "standard").rows(nodes) for each in (np.array(mapped), mapped))
    assert torch.allclose(in_memory, on_disk, atol=1e-5)


def test_sparse_rows_stay_sparse_and_keep_the_order() -> None:
    dense = np.arange(6, dtype=np.float32).reshape(3, 2)
    picked = rows_of(SparseRows(sp.csr_matrix(dense)), np.array([2, 0, 2]))
    assert isinstance(picked, SparseRows)
    assert np.array_equal(picked.matrix.toarray(), dense[[2, 0, 2]])
    assert torch.equal(picked.times(torch.eye(2)), torch.from_numpy(dense[[2, 0, 2]]))
