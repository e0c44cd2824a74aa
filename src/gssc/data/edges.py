"""Read edges from any accepted form: an array, pairs of names, a DataFrame, a NetworkX graph or a SciPy adjacency."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.data.arrays import as_array, as_text
from gssc.errors import GsscError
from gssc.names import counted, nearest

# Common column names for the two ends of an edge and for its weight, in lower case.
END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node_1", "node_2"))
WEIGHT_NAME = "weight"
_MOST_IDS_TO_SUGGEST = 10_000  # with more, finding the closest one takes seconds


def as_edges(edges: Any, node_ids: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return edges as row numbers [2, E], in the order given, and their weights [E] or None.

    Row numbers are not checked against `num_nodes` here: `Graph` does that for every form of edges.

    Args:
        edges: one of
            an array [2, E] of row numbers (or of ids, where they are text);
            a list of pairs (tuples of two ids) or triples (with a weight);
            a DataFrame with columns source and target, src and dst, from and to, u and v, else its first two columns,
            and optionally a column weight;
            a NetworkX graph, with an optional edge attribute weight (1 on edges without it);
            a SciPy sparse adjacency [N, N], whose non-zero entries are the weights.
        node_ids: [N] names by which pairs, DataFrames and NetworkX graphs refer to rows; None: by row number.
        num_nodes: N.

    Example:
        >>> as_edges([("b", "a", 0.5), ("a", "c", 2)], ["a", "b", "c"], 3)
        (array([[1, 0],
               [0, 2]]), array([0.5, 2. ]))
    """
    if sp.issparse(edges):
        return _of_adjacency(edges, num_nodes)
    if hasattr(edges, "nodes") and hasattr(edges, "edges"):
        return edges_of_network(edges, RowOf.by_id(node_ids, num_nodes))
    if (names := _column_names(edges)) is not None:
        return _of_table(edges, names, RowOf.by_id(node_ids, num_nodes))
    if isinstance(edges, Iterator | Set):
        edges = list(edges)
    if isinstance(edges, list) and _is_list_of_pairs(edges, by_name=node_ids is not None):
        columns = list(zip(*edges, strict=True))
        weights = np.array(columns[2], dtype=np.float64) if len(columns) == 3 else None
        return RowOf.by_id(node_ids, num_nodes).of_ends(columns[0], columns[1]), weights
    array = np.asarray(as_array(edges, "edges"))
    if node_ids is not None and array.ndim == 2 and array.dtype.kind in "USO" and 2 in array.shape:
        first, second = array.T if array.shape[1] == 2 else array
        return RowOf.by_id(node_ids, num_nodes).of_ends(first.tolist(), second.tolist()), None
    return array, None


class RowOf:
    """Lookup of row numbers by the node names that edges use.

    Args:
        row_of: row of each name; None: nodes are named by their row number.
        num_nodes: number of nodes.
        key: function from a name to the key that is looked up.
    """

    def __init__(
        self, row_of: Mapping[Any, int] | None, num_nodes: int, key: Callable[[Any], Hashable] = lambda name: name
    ):
        self.row_of, self.num_nodes, self.key = row_of, num_nodes, key

    @classmethod
    def by_id(cls, node_ids: Any, num_nodes: int) -> RowOf:
        """Return a lookup by id. Ids are compared as text: 3, 3.0 and "3" are the same node."""
        if node_ids is None:
            return cls(None, num_nodes)
        texts = [_id_text(name) for name in np.asarray(node_ids).tolist()]
        row_of = {text: row for row, text in enumerate(texts)}
        if len(row_of) != len(texts):
            twice = next(text for row, text in enumerate(texts) if row_of[text] != row)
            raise GsscError(f"node_ids has {twice!r} twice, so edges cannot name it: give each node its own id")
        return cls(row_of, num_nodes, _id_text)

    def of_ends(self, first: Iterable[Any], second: Iterable[Any]) -> np.ndarray:
        """Return [2, E] row numbers of the two ends of each edge."""
        sides = [self._of_side(list(side)) for side in (first, second)]
        if len(sides[0]) != len(sides[1]):
            raise GsscError(f"edges have {len(sides[0])} first and {len(sides[1])} second ends: give equally many")
        return np.array(sides, dtype=np.int64).reshape(2, -1)

    def _of_side(self, names: list[Any]) -> list[int]:
        if self.row_of is None:
            return [self._number(edge, name) for edge, name in enumerate(names)]
        rows = [self.row_of.get(self.key(name)) for name in names]
        if None in rows:
            edge = rows.index(None)
            few = len(self.row_of) <= _MOST_IDS_TO_SUGGEST
            advice = nearest(_id_text(names[edge]), self.row_of) if few else "add the node or drop the edge"
            raise GsscError(f"edge {edge} names node {names[edge]!r}, which is not among the node ids: {advice}")
        return [row for row in rows if row is not None]

    def _number(self, edge: int, name: Any) -> int:
        if isinstance(name, Real) and float(name).is_integer():
            return int(float(name))
        raise GsscError(
            f"edge {edge} names node {name!r}, but the nodes have no names: give node_ids, one per feature row, or "
            f"number the nodes 0 to {self.num_nodes - 1}"
        )


def _id_text(name: Any) -> str:
    if isinstance(name, float | np.floating) and float(name).is_integer():
        name = int(name)
    return as_text(name, "node id").strip()


def _is_list_of_pairs(edges: list[Any], by_name: bool) -> bool:
    """Return whether a list holds one entry per edge rather than two rows [2, E]. An ambiguous list is an error."""
    if not edges or not all(isinstance(entry, tuple | list) and len(entry) in (2, 3) for entry in edges):
        return False
    if any(len(entry) != len(edges[0]) for entry in edges):
        raise GsscError("some edges have a weight and some do not: give all edges a weight, or none")
    named = any(isinstance(end, str | bytes) for entry in edges for end in entry[:2])
    if len(edges[0]) == 3 and not all(isinstance(entry[2], Real) for entry in edges):
        return False
    if named and by_name:
        return True
    if not all(isinstance(entry, tuple) for entry in edges):
        return False  # lists of numbers are the rows of an array
    if len(edges) == 2 and not named:
        return _two_tuples_are_pairs(edges)
    return True


def _two_tuples_are_pairs(edges: list[tuple[Any, ...]]) -> bool:
    """Return whether two tuples of numbers are two edges. Raises GsscError if they may also be two rows of ends."""
    if len(edges[0]) == 3:
        return not all(isinstance(entry[2], Integral) for entry in edges)
    (a, b), (c, d) = edges
    as_pairs, as_rows = {frozenset((a, b)), frozenset((c, d))}, {frozenset((a, c)), frozenset((b, d))}
    if as_pairs != as_rows:
        raise GsscError(
            f"edges {edges!r} may be two pairs or two rows: give an array of shape (2, edges), "
            "all first ends in row 0 and all second ends in row 1"
        )
    return True


def edges_of_network(network: Any, rows: RowOf, weight: str = WEIGHT_NAME) -> tuple[np.ndarray, np.ndarray | None]:
    """Return row numbers and weights of the edges of a NetworkX graph; an edge without the attribute has weight 1."""
    listed = list(network.edges(data=weight))
    found = [value for *_, value in listed]
    edges = rows.of_ends([ends[0] for ends in listed], [ends[1] for ends in listed])
    if not network.is_directed():
        edges = np.sort(edges, axis=0)  # NetworkX lists an undirected edge once, in arbitrary direction
    if all(value is None for value in found):
        return edges, None
    return edges, _numbers([1.0 if value is None else value for value in found], weight)


def _numbers(values: Sequence[Any], column: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise GsscError(f"{column} of an edge is not a number: give every edge a positive number") from None


def _of_adjacency(adjacency: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray | None]:
    if adjacency.ndim != 2 or adjacency.shape != (num_nodes, num_nodes):
        raise GsscError(
            f"the adjacency has shape {adjacency.shape} for {num_nodes} nodes: give one row and one column per node"
        )
    entries = adjacency.tocsr().tocoo()  # repeated entries are not summed here: Graph merges them
    nonzero = entries.data != 0
    edges = np.stack([entries.row[nonzero], entries.col[nonzero]]).astype(np.int64)
    return edges, entries.data[nonzero].astype(np.float64)


def _column_names(edges: Any) -> list[Any] | None:
    """Return the column names of a DataFrame, Arrow table or dict of columns; None for anything else."""
    if isinstance(edges, Mapping):
        return list(edges)
    names = getattr(edges, "column_names", None)
    names = getattr(edges, "columns", None) if names is None else names
    return None if names is None or not hasattr(edges, "__getitem__") else list(names)


def common_ends(names: Container[str]) -> tuple[str, str] | None:
    """Return the first pair of :data:`END_NAMES` among column names, given in lower case; None if there is none."""
    return next(((first, second) for first, second in END_NAMES if first in names and second in names), None)


def _of_table(table: Any, names: list[Any], rows: RowOf) -> tuple[np.ndarray, np.ndarray | None]:
    if len(names) < 2:
        raise GsscError(f"the edge table has {counted(len(names), 'column')}: an edge needs two, the nodes it joins")
    by_lower = {str(name).strip().lower(): name for name in names}
    pair = common_ends(by_lower)
    first, second = (by_lower[name] for name in pair) if pair else names[:2]
    edges = rows.of_ends(*(np.asarray(table[end]).tolist() for end in (first, second)))
    weight = by_lower.get(WEIGHT_NAME)
    return edges, None if weight is None else _numbers(np.asarray(table[weight]).tolist(), str(weight))
