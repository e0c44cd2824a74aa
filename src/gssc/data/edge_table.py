"""Read edges and weights from an edge table: node ids are looked up, errors name file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.edges import WEIGHT_NAME, common_ends
from gssc.data.table import Table, refuse_no_rows, whole_number_shortened, without_row_numbers
from gssc.errors import GsscError

NO_WEIGHT = "none"


def edges_of_table(
    table: Table,
    source: str | None,
    target: str | None,
    weight: str | None,
    row_of: dict[str, int],
    node_table: Table,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return edges as row numbers [2, E] and their weights [E], or None if there are no weights.

    Args:
        table: the edge table.
        source, target: columns of the two ends; None: those with common names, else the first two.
        weight: column of the weights; None: a column called weight, if there is one; "none" reads no weights.
        row_of: row of each node by its id.
        node_table: the node table, for error messages.
    """
    ends, pair = edge_columns(table, source, target)
    edges = np.empty((2, len(table)), dtype=np.int64)
    for side, column in enumerate(ends):
        for row, text in enumerate(table.id_texts(column)):
            node = row_of.get(whole_number_shortened(text))
            if node is None:
                raise GsscError(
                    f"{table.where(row)}: the edge names node {text!r}, which {node_table.path} does not have: "
                    "add the node or drop the edge"
                )
            edges[side, row] = node
    weights = weights_of(table, weight, taken=ends)
    if not (pair or source or target or weights is not None):
        edges = np.concatenate([edge_in_header(table, ends, row_of, node_table.path), edges], axis=1)
    if edges.shape[1] == 0:
        refuse_no_rows(table)
    return edges, weights


def edge_columns(table: Table, source: str | None, target: str | None) -> tuple[list[str], bool]:
    """Return the columns of the two ends of an edge, and whether they have common names."""
    names = without_row_numbers(table)
    if len(names) < 2:
        raise GsscError(f"{table.path} has only one column: an edge needs two, the nodes it joins")
    by_lower = {name.lower(): name for name in table.names}
    pair = common_ends(by_lower)
    default = [by_lower[name] for name in pair] if pair else names[:2]
    ends = [default[side] if given is None else table.existing(given) for side, given in enumerate((source, target))]
    if ends[0] == ends[1]:
        raise GsscError(f"{table.path}: both ends of an edge are read from column {ends[0]!r}: name both columns")
    return ends, pair is not None


def weights_of(table: Table, given: str | None, taken: list[str]) -> np.ndarray | None:
    """Return the weights of the edges in a table, or None if there are none."""
    column = None if given == NO_WEIGHT else table.named(given, (WEIGHT_NAME,), taken=taken)
    if column is None:
        return None
    try:
        weights = table.numbers([column])[:, 0]
    except GsscError as error:
        raise GsscError(f"{error}; to read no weights: weight_column='none', --weight none") from None
    low = np.flatnonzero(weights <= 0)
    if len(low):
        raise GsscError(
            f"{table.where(int(low[0]))}, column {column!r} is {weights[low[0]]:g}: weights must be above 0; drop the "
            "edge, or read no weights (weight_column='none', --weight none)"
        )
    return weights


def edge_in_header(table: Table, ends: list[str], row_of: Any, nodes: Path) -> np.ndarray:
    """Return the edge in the first line of a text table without a header, [2, 1], or [2, 0] if it is a header."""
    found = [row_of.get(whole_number_shortened(name)) for name in ends]
    if table.lines is None or found == [None, None]:
        return np.empty((2, 0), dtype=np.int64)
    if None in found:
        node, other = ends if found[1] is None else reversed(ends)
        raise GsscError(
            f"{table.path}: the first line names node {node!r} and {other!r}, which {nodes} does not have: "
            "add the node or drop the edge; if they are column names, name them (source_column, --source)"
        )
    return np.array(found, dtype=np.int64).reshape(2, 1)
