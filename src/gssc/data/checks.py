"""Checks of features, edges and names, and their conversion to the form in which `Graph` stores them.

Each function accepts several forms of user input and returns the one canonical form the rest of the
package relies on, or raises a `GsscError` naming the first offending row. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.data.arrays import as_array, as_text
from gssc.errors import GsscError
from gssc.names import counted

_ROWS_AT_A_TIME = 65_536  # memory-mapped features are checked block by block, never read whole


@dataclass(frozen=True)
class Cleaning:
    """Counts of the changes made to the listed edges.

    `one_way_edges_symmetrised` counts edges listed in one direction only. Input that lists each edge once
    as (smaller, larger) is taken to be undirected already, and the count is 0.
    """

    self_loops: int = 0
    duplicate_edges: int = 0
    one_way_edges_symmetrised: int = 0

    def __add__(self, other: Cleaning) -> Cleaning:
        return Cleaning(
            self.self_loops + other.self_loops,
            self.duplicate_edges + other.duplicate_edges,
            self.one_way_edges_symmetrised + other.one_way_edges_symmetrised,
        )

    def summary(self) -> str:
        """Return the counts as one line for a terminal or a log."""
        parts = [
            f"{counted(count, what)} {change}"
            for count, what, change in (
                (self.self_loops, "self-loop", "removed"),
                (self.duplicate_edges, "duplicate edge", "removed"),
                (self.one_way_edges_symmetrised, "one-way edge", "symmetrised"),
            )
            if count
        ]
        return ", ".join(parts) if parts else "nothing to clean"


def clean_features(features: Any) -> Any:
    """Return float32 features: a C-contiguous array or a canonical CSR matrix.

    A memory map that is float32 and C-contiguous stays one; any other is converted in memory.
    """
    if sp.issparse(features):
        return _clean_sparse(features)
    array = as_array(features, "features")
    if array.ndim != 2:
        raise GsscError(
            f"features have shape {array.shape}; they must be a table, one row per node and one column per feature: "
            "reshape them to (nodes, features)"
        )
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise GsscError(f"features have shape {array.shape}: at least one node and one feature are needed")
    array = real_numbers(array)
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(array, dtype=np.float32)
    for start in range(0, len(array), _ROWS_AT_A_TIME):
        _refuse_non_finite(np.asarray(array[start : start + _ROWS_AT_A_TIME]), start)
    return array


def _refuse_non_finite(block: np.ndarray, first_row: int) -> None:
    finite = np.isfinite(block)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise GsscError(
            f"features row {first_row + row}, column {column} is {block[row, column]}: "
            "fill or drop missing, infinite or too large (float32) values before building the graph"
        )


def real_numbers(array: np.ndarray, first_row: int = 0) -> np.ndarray:
    """Return feature rows as numbers; text and objects are converted. Raises GsscError if they are not numbers.

    Args:
        array: rows, [n, d].
        first_row: number of the first one, for errors.
    """
    if array.dtype.kind in "cmMV":
        raise GsscError(f"features have dtype {array.dtype}: give real numbers")
    if array.dtype.kind in "fiub":
        return array
    try:
        with np.errstate(over="ignore"):
            return array.astype(np.float64).astype(np.float32)
    except (TypeError, ValueError):
        pass
    for (row, column), value in np.ndenumerate(array):
        try:
            float(value)
        except (TypeError, ValueError):
            raise GsscError(
                f"features row {first_row + row}, column {column} holds {value!r}, which is not a number: "
                "encode text as numbers (one-hot, counts, an embedding) first"
            ) from None
    raise GsscError("features cannot be read as numbers: give a numeric array")


def _clean_sparse(features: Any) -> sp.csr_matrix:
    if features.ndim != 2 or 0 in features.shape:
        raise GsscError(f"features have shape {features.shape}: at least one node and one feature are needed")
    if features.dtype.kind not in "fiub":
        raise GsscError(f"sparse features have dtype {features.dtype}: give numbers (float32)")
    with np.errstate(over="ignore"):
        csr = sp.csr_matrix(features, dtype=np.float32)
    if not csr.has_canonical_format or (csr.data == 0).any():
        csr = csr.copy()  # the caller's matrix is not modified
        csr.sum_duplicates()
        csr.eliminate_zeros()
        csr.sort_indices()
    bad = np.flatnonzero(~np.isfinite(csr.data))
    if len(bad):
        row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
        raise GsscError(
            f"features row {row}, column {csr.indices[bad[0]]} is {csr.data[bad[0]]}: "
            "fill or drop missing, infinite or too large (float32) values before building the graph"
        )
    return csr


def clean_edges(
    edge_index: Any, num_nodes: int, edge_weight: Any = None
) -> tuple[np.ndarray, np.ndarray | None, Cleaning]:
    """Return each undirected edge once, its weight, and counts of the changes.

    Edges are [2, E] int64 with row 0 < row 1, sorted. Weights are [E] float32 above 0; an edge that is listed several
    times, or in both directions, gets the largest of its weights. If all weights are 1, they are returned as None.
    """
    edges = _integer_edges(edge_index)
    if edges.shape[1] == 0:
        raise GsscError("the graph has no edges: give at least one edge (without edges, train an MLP)")
    weights = None if edge_weight is None else _clean_weights(edge_weight, edges.shape[1])
    outside = np.flatnonzero((edges < 0).any(axis=0) | (edges >= num_nodes).any(axis=0))
    if len(outside):
        first = int(outside[0])
        raise GsscError(
            f"edge {first} ({edges[0, first]}, {edges[1, first]}) names a node that does not exist: "
            f"node ids run from 0 to {num_nodes - 1}, one per feature row; drop the edge or add the row"
        )
    source, target = edges
    if (source < target).all():
        keys = source * num_nodes + target
        if (keys[1:] > keys[:-1]).all():
            return np.ascontiguousarray(edges), _unless_all_one(weights), Cleaning()
    loops = source == target
    self_loops = int(loops.sum())
    if self_loops:
        source, target = source[~loops], target[~loops]
        if not len(source):
            raise GsscError(
                f"the graph has no edges but {counted(self_loops, 'self-loop')}, and self-loops are left out: "
                "give at least one edge between two different nodes"
            )
    listed = np.minimum(source, target) * num_nodes + np.maximum(source, target)
    directed = np.unique(source * num_nodes + target)
    duplicates = len(source) - len(directed)
    undirected = np.unique(listed)
    if weights is not None:
        largest = np.zeros(len(undirected), dtype=np.float32)
        np.maximum.at(largest, np.searchsorted(undirected, listed), weights[~loops])
        weights = largest
    source, target = np.divmod(directed, num_nodes)
    both_ways = len(directed) - len(undirected)
    one_way = 0 if bool((source < target).all()) else len(undirected) - both_ways
    edges = np.stack(np.divmod(undirected, num_nodes))
    return edges, _unless_all_one(weights), Cleaning(self_loops, duplicates, one_way)


def _unless_all_one(weights: np.ndarray | None) -> np.ndarray | None:
    return None if weights is None or (weights == 1).all() else weights


def _clean_weights(edge_weight: Any, count: int) -> np.ndarray:
    array = np.asarray(as_array(edge_weight, "edge_weight"))
    if array.shape == (count, 1):
        array = array[:, 0]
    if array.shape != (count,) or array.dtype.kind not in "fiub":
        raise GsscError(
            f"edge_weight has shape {array.shape} and dtype {array.dtype} for {count} edges: give one number per edge"
        )
    with np.errstate(over="ignore", under="ignore"):
        weights = array.astype(np.float32)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(wrong):
        raise GsscError(
            f"the weight of edge {wrong[0]} is {array[wrong[0]]}: weights must be above 0 and finite (float32); "
            "drop the edge or leave out the weights"
        )
    return weights


def _integer_edges(edge_index: Any) -> np.ndarray:
    edges = np.asarray(as_array(edge_index, "edges"))
    if edges.size == 0:
        return np.empty((2, 0), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[0] != 2:
        hint = "transpose it" if edges.ndim == 2 and edges.shape[1] == 2 else "one column per edge, two node ids"
        raise GsscError(f"edge_index has shape {edges.shape}; it must be (2, edges): {hint}")
    if edges.dtype.kind in "iu":
        return edges.astype(np.int64, copy=False)
    try:
        numbers = edges.astype(np.float64)
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        for position, value in np.ndenumerate(edges):
            try:
                float(value)
            except (TypeError, ValueError):
                raise GsscError(
                    f"edge {position[1]} holds {value!r}, which is not a node number: "
                    "number the nodes 0 to N-1, or give node_ids, one per feature row, to name them"
                ) from None
        raise GsscError("edge_index cannot be read as numbers: give an integer array of shape (2, edges)")
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    if not whole.all():
        first = int(np.flatnonzero(~whole.all(axis=0))[0])
        raise GsscError(
            f"edge {first} is ({edges[0, first]}, {edges[1, first]}): node ids must be whole numbers, 0 to N-1"
        )
    return numbers.astype(np.int64)


def clean_node_ids(node_ids: Any, num_nodes: int) -> np.ndarray | None:
    """Return one id per node, whole numbers or text in the byte order of this machine; None if there are none."""
    if node_ids is None:
        return None
    ids = np.asarray(as_array(node_ids, "node_ids"))
    if ids.shape != (num_nodes,):
        raise GsscError(f"node_ids have shape {ids.shape} for {num_nodes} nodes: give one per node")
    if ids.dtype.kind in "SO":
        return np.array([as_text(name, f"id of node {node}") for node, name in enumerate(ids.tolist())], dtype=str)
    return ids.astype(ids.dtype.newbyteorder("=") if ids.dtype.kind in "iuU" else str, copy=False)


def clean_feature_names(names: Sequence[Any] | None, num_features: int) -> tuple[str, ...] | None:
    """Return one name per column, all different; None if there are none."""
    if names is None:
        return None
    texts = tuple(str(name) for name in names)
    if len(texts) != num_features:
        raise GsscError(f"{len(texts)} feature_names for {num_features} features: give one per column")
    if len(set(texts)) != num_features:
        twice = next(name for place, name in enumerate(texts) if name in texts[:place])
        raise GsscError(f"feature_names has {twice!r} twice: give each column its own name")
    return texts
