"""Nodes to check: duplicates, nodes without edges and nodes without features."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from gssc.audit.findings import DuplicateGroup
from gssc.graph import Features, Graph
from gssc.trust.sketch import ROWS_AT_A_TIME, unit_rows

SAME = 0.999  # cosine above which two rows are nearly the same
TABLES = 8  # repetitions of the search, each with other planes
BITS = 24  # planes
NEIGHBOURS = 8  # rows of the same bucket that a row is compared with


def duplicate_groups(
    graph: Graph, sketch: np.ndarray, seed: int = 0, compared: Features | None = None
) -> list[DuplicateGroup]:
    """Return groups of nodes with equal or nearly equal feature rows (cosine above 0.999), the largest first.

    Equal rows are found by a digest of their bytes; none is missed. Nearly equal rows are searched by random
    projections: rows on the same side of 24 random planes are in the same bucket, each row is compared with the next
    eight of its bucket, and this is repeated eight times with other planes. Two rows with cosine 0.999 share a bucket
    at least once with a probability of about 0.999, so a few pairs just above the limit may be missed. Time and memory
    are proportional to the number of nodes.

    Args:
        graph: features, split and training labels.
        sketch: short rows that approximate the compared ones, see :func:`gssc.trust.sketch.feature_sketch`.
        seed: seed of the planes.
        compared: rows in which to search for nearly equal ones, by default the features; see
            :func:`gssc.features.columns_on_one_scale`.
    """
    same = _equal_rows(graph.features)
    kinds, first_of_kind = np.unique(same, return_index=True)
    first_of_kind = first_of_kind[kinds >= 0]  # one node of each different row, rows of zeros left out
    rows = graph.features if compared is None else compared
    near = _near_pairs(rows, first_of_kind, sketch, seed)
    full = np.flatnonzero(same >= 0)
    first = np.concatenate([full, near[0]])
    representative = np.full(int(same.max(initial=-1)) + 1, -1)
    representative[same[first_of_kind]] = first_of_kind
    second = np.concatenate([representative[same[full]], near[1]])
    links = sp.csr_matrix((np.ones(len(first), dtype=bool), (first, second)), shape=(graph.num_nodes,) * 2)
    _, group = connected_components(links, directed=False)
    return _described(graph, group, same)


def featureless_nodes(features: Features) -> np.ndarray:
    """Return the nodes whose features are all zero, ascending."""
    return np.flatnonzero(_equal_rows(features) < 0)


def isolated_nodes(graph: Graph) -> np.ndarray:
    """Return the nodes without an edge, ascending."""
    return np.flatnonzero(np.bincount(graph.edges.ravel(), minlength=graph.num_nodes) == 0)


def _equal_rows(features: Any) -> np.ndarray:
    """Return a number for each different row, the same for equal rows; -1 for rows of zeros, [N]."""
    numbers = np.empty(features.shape[0], dtype=np.int64)
    known: dict[bytes, int] = {}
    for start in range(0, len(numbers), ROWS_AT_A_TIME):
        block: Any = features[start : start + ROWS_AT_A_TIME]
        sparse = bool(sp.issparse(block))
        block = block.sorted_indices() if sparse else np.ascontiguousarray(block) + np.float32(0)  # -0 becomes 0
        for row in range(block.shape[0]):
            if sparse:
                stored = slice(block.indptr[row], block.indptr[row + 1])
                filled = stored.stop > stored.start
                content = block.indices[stored].tobytes() + block.data[stored].tobytes()
            else:
                filled, content = bool(block[row].any()), block[row].tobytes()
            digest = hashlib.blake2b(content, digest_size=16).digest()
            numbers[start + row] = known.setdefault(digest, len(known)) if filled else -1
    return numbers


def _near_pairs(features: Any, nodes: np.ndarray, sketch: np.ndarray, seed: int) -> np.ndarray:
    """Return the pairs of these nodes that the search finds with a cosine above the limit, [2, P]."""
    rng = np.random.default_rng(seed)
    found = [np.empty((2, 0), dtype=np.int64)]
    for _ in range(TABLES):
        planes = rng.standard_normal((sketch.shape[1], BITS)).astype(np.float32)
        side = np.zeros(len(nodes), dtype=np.int64)
        for start in range(0, len(nodes), ROWS_AT_A_TIME):
            above = sketch[nodes[start : start + ROWS_AT_A_TIME]] @ planes > 0
            side[start : start + ROWS_AT_A_TIME] = above @ (1 << np.arange(BITS))
        order = np.argsort(side, kind="stable")
        for shift in range(1, min(NEIGHBOURS, len(nodes) - 1) + 1):
            alike = np.flatnonzero(side[order[shift:]] == side[order[:-shift]])
            found.append(_similar(features, nodes[order[alike]], nodes[order[alike + shift]]))
    return np.concatenate(found, axis=1)


def _similar(features: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return those of the pairs (first, second) with a cosine above the limit, [2, P]."""
    kept = [np.empty((2, 0), dtype=np.int64)]
    for start in range(0, len(first), ROWS_AT_A_TIME):
        left, right = first[start : start + ROWS_AT_A_TIME], second[start : start + ROWS_AT_A_TIME]
        rows, others = unit_rows(features[left]), unit_rows(features[right])
        product = rows.multiply(others) if sp.issparse(rows) else rows * others
        close = np.asarray(product.sum(axis=1)).ravel() > SAME
        kept.append(np.stack([left[close], right[close]]))
    return np.concatenate(kept, axis=1)


def _described(graph: Graph, group: np.ndarray, same: np.ndarray) -> list[DuplicateGroup]:
    """Return the groups of more than one node, from the group of each node and the number of its row."""
    sizes = np.bincount(group)
    members = np.flatnonzero(sizes[group] > 1)
    members = members[np.argsort(group[members], kind="stable")]
    part = np.zeros(graph.num_nodes, dtype=np.int8)
    part[graph.train], part[graph.val], part[graph.test] = 1, 2, 2
    found = []
    for nodes in np.split(members, np.flatnonzero(np.diff(group[members])) + 1) if len(members) else []:
        labels = graph.labels[nodes[part[nodes] == 1]]
        found.append(
            DuplicateGroup(
                nodes=nodes,
                identical=len(set(same[nodes].tolist())) == 1,
                conflicting=len(np.unique(labels, axis=0)) > 1,
                crosses_split={1, 2} <= set(part[nodes].tolist()),
            )
        )
    return sorted(found, key=lambda duplicates: -len(duplicates.nodes))
