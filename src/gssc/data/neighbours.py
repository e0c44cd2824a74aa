"""The nearest-neighbour graph of a table: edges from every row to its nearest rows.

| rows | search |
|---|---|
| up to 5,000, or sparse | exact: all distances, in blocks |
| fewer than 100,000, or up to 6 columns | exact: scikit-learn, by tree for few columns; else in blocks |
| from 100,000 | approximate: an HNSW index of faiss (extra `ann`); exact, with a warning, without faiss |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.data.scaling import Scaling
from gssc.extras import require
from gssc.progress_bar import OnStage

NEIGHBOURS = 8  # default number of neighbours per row; GSSCClassifier has the same default
BLOCKS_UP_TO = 5_000  # rows; below, faster searches save less than a second
APPROXIMATE_FROM = 100_000  # rows
SEARCHING = "finding neighbours"  # stage of an import
_DISTANCES_AT_A_TIME = 1 << 22
_ROWS_AT_A_TIME = 8192  # searched together, enough for all threads
_TREE_UP_TO = 6  # columns; for so few, a tree is faster than all distances and than an index, for any number of rows
_SPARE = 3  # extra neighbours requested beyond k, to detect most ties
_LINKS, _BUILD_WIDTH, _SEARCH_WIDTH = 16, 40, 48  # index: links per row, candidates while building and searching


def nearest_neighbour_edges(features: Any, k: int, on_stage: OnStage | None = None) -> np.ndarray:
    """Return edges [2, E], each once, between rows of which one is among the other's `k` nearest (Euclidean).

    Ties are broken in favour of rows that come first in the table. For 100,000 or more dense rows with more than six
    columns, the search is approximate: about 3 of 100 true neighbours are missed.

    Args:
        features: [N, d] numbers, dense or SciPy sparse.
        k: neighbours of each row, from 1 to N - 1.
        on_stage: called with the name of each stage and the share of it that is done, or None if that is unknown.
    """
    count, stage = features.shape[0], on_stage or (lambda name, share: None)
    stage(SEARCHING, None)
    if count <= BLOCKS_UP_TO or sp.issparse(features):
        pairs = by_blocks(features, k, on_stage=stage)
    elif is_approximate(features):
        pairs = by_index(features, k, on_stage=stage)
    else:
        if _has_many_rows(features):
            warnings.warn(
                f"finding the neighbours of {count:,} rows exactly takes time that grows with their square: "
                "pip install 'gssc[ann]' for an approximate search",
                stacklevel=2,
            )
        exact_search = by_scikit_learn if _installed("sklearn") else by_blocks
        pairs = exact_search(features, k, on_stage=stage)
    edges: np.ndarray = np.unique(np.sort(pairs, axis=0), axis=1)
    return edges


def is_approximate(features: Any) -> bool:
    """Return whether :func:`nearest_neighbour_edges` searches these features approximately."""
    return _has_many_rows(features) and _installed("faiss")


def _has_many_rows(features: Any) -> bool:
    """Return whether an exact search of these features would be slow."""
    count, columns = features.shape
    return bool(count >= APPROXIMATE_FROM and columns > _TREE_UP_TO and not sp.issparse(features))


def row_neighbours(features: Any, k: int, scaling: Scaling, on_stage: OnStage | None = None) -> np.ndarray:
    """Return edges [2, E] between each row of a table and its `k` nearest rows (or all others), after scaling."""
    scaled = scaling.for_neighbours(scaling.applied(features))
    return nearest_neighbour_edges(scaled, min(k, features.shape[0] - 1), on_stage)


def _installed(module: str) -> bool:
    return find_spec(module) is not None


def by_blocks(
    features: Any, k: int, rows: np.ndarray | None = None, on_stage: OnStage | None = None, stage: str = SEARCHING
) -> np.ndarray:
    """Return each of `rows` (default all) paired with its k nearest rows, [2, rows * k], by computing all distances.

    Rows are processed in blocks: time grows with the square of their number, memory does not.
    """
    exact: Any = (
        features.tocsr().astype(np.float64) if sp.issparse(features) else np.asarray(features, dtype=np.float64)
    )
    count = exact.shape[0]
    rows = np.arange(count) if rows is None else rows
    transposed = exact.T.tocsr() if sp.issparse(exact) else exact.T
    squares = np.asarray(exact.multiply(exact).sum(axis=1) if sp.issparse(exact) else (exact**2).sum(axis=1)).ravel()
    step = max(1, _DISTANCES_AT_A_TIME // count)
    pairs = [np.empty((2, 0), dtype=np.int64)]
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        products: Any = exact[block] @ transposed
        products = products.toarray() if sp.issparse(products) else products
        # Rounding keeps equal distances equal whatever the order of the matrix product, so ties break the same way.
        distances = (squares[block, None] + squares - 2 * products).round(9)
        distances[np.arange(len(block)), block] = np.inf
        first, second = _smallest(distances, k)
        pairs.append(np.stack([block[first], second]))
        if on_stage is not None:
            on_stage(stage, (start + len(block)) / len(rows))
    return np.concatenate(pairs, axis=1)


def _smallest(values: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    """Return the positions of the k smallest values per row, ties to the first, without sorting whole rows."""
    limit = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    below, ties = values < limit, values == limit
    missing = k - below.sum(axis=1, keepdims=True)
    return np.nonzero(below | (ties & (np.cumsum(ties, axis=1) <= missing)))


def by_scikit_learn(features: np.ndarray, k: int, on_stage: OnStage | None = None) -> np.ndarray:
    """Return each row paired with its k nearest rows, [2, N * k], by scikit-learn's exact search.

    A few more than k neighbours are requested. If all those beyond the k-th are at the same distance as the k-th, rows
    that were not returned may be tied too, and come first in the table: such rows are searched again, in blocks.
    """
    exact = np.asarray(features, dtype=np.float64)
    count, columns = exact.shape
    requested = min(k + 1 + _SPARE, count)
    algorithm = "kd_tree" if columns <= _TREE_UP_TO else "brute"
    search = require("sklearn.neighbors", extra="data").NearestNeighbors(n_neighbors=requested, algorithm=algorithm)
    lengths, found = _in_parts(search.fit(exact).kneighbors, exact, on_stage)
    distances = (lengths**2).round(9)
    itself = found == np.arange(count)[:, None]
    distances[itself] = np.inf
    order = np.lexsort((found, distances), axis=1)
    found = np.take_along_axis(found, order, axis=1)
    distances = np.take_along_axis(distances, order, axis=1)
    last = np.where(itself.any(axis=1), requested - 2, requested - 1)  # position of the farthest row found
    tied = (distances[:, k - 1] == distances[np.arange(count), last]) & (requested < count)
    clear = np.flatnonzero(~tied)
    pairs = np.stack([np.repeat(clear, k), found[clear, :k].ravel()])
    again = by_blocks(exact, k, np.flatnonzero(tied), on_stage, "finding neighbours at equal distances")
    return np.concatenate([pairs, again], axis=1)


def _in_parts(
    search: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], rows: np.ndarray, on_stage: OnStage | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances and neighbours of all rows, searched some thousand rows at a time to show progress."""
    parts = []
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        parts.append(search(rows[start : start + _ROWS_AT_A_TIME]))
        if on_stage is not None:
            on_stage(SEARCHING, min(1.0, (start + _ROWS_AT_A_TIME) / len(rows)))
    lengths, found = (np.concatenate(part) for part in zip(*parts, strict=True))
    return lengths, found


def by_index(features: np.ndarray, k: int, on_stage: OnStage | None = None) -> np.ndarray:
    """Return each row paired with approximately its k nearest rows, [2, at most N * k], by an HNSW index.

    `Efficient and robust approximate nearest neighbor search <https://arxiv.org/abs/1603.09320>`_, as implemented in
    faiss. The index is built by a single thread: with several, it would differ from run to run.
    """
    faiss = require("faiss", extra="ann")
    rows = np.ascontiguousarray(features, dtype=np.float32)
    index = faiss.IndexHNSWFlat(rows.shape[1], _LINKS)
    index.hnsw.efConstruction = _BUILD_WIDTH
    index.hnsw.efSearch = max(_SEARCH_WIDTH, 4 * k)
    threads = faiss.omp_get_max_threads()
    if on_stage is not None:
        on_stage("building the index of neighbours", None)  # in one call, whose progress is not known
    try:
        faiss.omp_set_num_threads(1)
        index.add(rows)
    finally:
        faiss.omp_set_num_threads(threads)
    _, found = _in_parts(lambda part: index.search(part, k + 1), rows, on_stage)
    others = (found >= 0) & (found != np.arange(len(rows))[:, None])
    others &= np.cumsum(others, axis=1) <= k
    first, place = np.nonzero(others)
    return np.stack([first, found[first, place]]).astype(np.int64)
