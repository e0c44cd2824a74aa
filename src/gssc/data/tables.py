"""Your own graph from two tables: one row a node, one row an edge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike

import numpy as np

from gssc.data.labels import clean_labels
from gssc.data.readers import Table, read_table, whole_number_shortened
from gssc.data.splits import NO_PART, PART_OF, Split, labelled_nodes, make_split
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.names import nearest
from gssc.text_tables import ID_NAMES, LABEL_NAMES, counts_from_zero, is_number

_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node_1", "node_2"))
_UNKNOWN_LABELS = ("", "nan", "NaN", "NA")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf)", re.ASCII | re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
# What pandas calls the row numbers it writes unless told not to: nothing in CSV, a level of its index in Parquet.
_ROW_NUMBERS = re.compile(r"(__index_level_\d+__)?")
DEFAULT_SPLIT = "ratio:60/20/20"


def import_tables(
    nodes: str | PathLike[str],
    edges: str | PathLike[str],
    *,
    id_column: str | None = None,
    label_column: str | Sequence[str] | None = None,
    feature_columns: Sequence[str] | None = None,
    ignore_columns: Sequence[str] = (),
    split_column: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    split: str | None = None,
    seed: int = 0,
    setting: str = "transductive",
    name: str | None = None,
) -> Graph:
    """Build a graph from a node table and an edge table (CSV, TSV or Parquet).

    Args:
        nodes, edges: the two files. Edges name nodes by id, in any direction.
        id_column: a column called id, node_id or node, else the first one.
        label_column: a column called label, y, class or target, where there is one; an unknown label
            is an empty cell, nan, NaN, NA or -1, but -1 and 1 alone are two classes. Several columns make binary
            targets, one task each.
        feature_columns: every other column, all of them numbers, except `ignore_columns`.
        split_column: a column called split, where there is one, with train, val, test or nothing in it.
        source_column, target_column: source and target, src and dst, from and to, else the first two columns.
        split: without a split column, how to split the labelled nodes: "per-class:<n>" or "ratio:<a>/<b>/<c>"
            (default "ratio:60/20/20"), drawn by `seed`.
        setting: "transductive", "inductive" or "cold-start".
        name: what to call the graph; the node file's name by default.
    """
    # Three columns that begin with 0, 1, 2 may well be an edge and its weight.
    node_table, edge_table = read_table(nodes), read_table(edges, of_edges=True)
    _refuse_no_rows(node_table)
    if all(given is None for given in (id_column, label_column, feature_columns, split_column)):
        _refuse_data_as_names(node_table)
    id_column = _named(node_table, id_column, ID_NAMES) or node_table.names[0]
    label_columns = _label_columns(node_table, label_column, taken=id_column)
    split_column = _named(node_table, split_column, ("split",), taken=(id_column, *label_columns))
    taken = {
        id_column,
        *label_columns,
        split_column,
        *(_existing(node_table, column) for column in ignore_columns),
    }
    if feature_columns is None:
        feature_columns = [column for column in _without_row_numbers(node_table) if column not in taken]
    if not feature_columns:
        raise GsscError(f"{node_table.path} has no feature column beside {sorted(filter(None, taken))}: add numbers")
    features = node_table.numbers([_existing(node_table, column) for column in feature_columns])
    ids, row_of = _node_ids(node_table, id_column)
    labels, class_names = _labels(node_table, label_columns, multilabel=not isinstance(label_column, str | None))
    if split_column is not None and split is None:
        parts, split_name = _parts_from_column(node_table, split_column), "from table"
    elif len(labelled_nodes(labels)):
        parts, split_name = make_split(split or DEFAULT_SPLIT, labels, seed)
    else:
        if split is not None:
            make_split(split, labels, seed)  # an error if it is no split at all
        parts, split_name = (np.empty(0, np.int64),) * 3, "none"
    return Graph(
        features,
        _edge_index(edge_table, source_column, target_column, row_of, node_table),
        labels,
        *parts,
        name=name or node_table.path.stem,
        split=split_name,
        setting=setting,
        class_names=class_names,
        node_ids=ids,
        feature_names=tuple(feature_columns),
    )


def _refuse_no_rows(table: Table) -> None:
    if len(table) == 0:
        raise GsscError(f"{table.path} has no rows: give at least one")


def _refuse_data_as_names(table: Table) -> None:
    """A first line such as ``m1,0.5,2`` names no columns, but would be lost as if it did."""
    numbers = [name for name in table.names if is_number(name)]
    usual = any(name.lower() in (*ID_NAMES, *LABEL_NAMES, "split", "") for name in table.names)
    if table.lines is not None and not usual and not counts_from_zero(numbers):
        shown = ", ".join(table.names[:3] + ["..."] * (len(table.names) > 3))
        raise GsscError(f"{table.path}: the first line ({shown}) looks like data: add one that names the columns")


def _without_row_numbers(table: Table) -> list[str]:
    return [name for name in table.names if not _ROW_NUMBERS.fullmatch(name)]


def _existing(table: Table, column: str) -> str:
    if column in table.columns:
        return column
    raise GsscError(f"{table.path} has no column {column!r}: {nearest(column, table.names)}")


def _named(table: Table, given: str | None, usual: Sequence[str], taken: Sequence[str] = ()) -> str | None:
    """Return the column the user named, else the first with a usual name, else None."""
    if given is not None:
        return _existing(table, given)
    by_lower = {name.lower(): name for name in table.names if name not in taken}
    return next((by_lower[name] for name in usual if name in by_lower), None)


def _label_columns(table: Table, given: str | Sequence[str] | None, taken: str) -> list[str]:
    if given is None or isinstance(given, str):
        column = _named(table, given, LABEL_NAMES, taken=(taken,))
        return [] if column is None else [column]
    return [_existing(table, column) for column in given]


def _labels(table: Table, columns: list[str], *, multilabel: bool) -> tuple[np.ndarray, tuple[str, ...] | None]:
    if multilabel:
        return clean_labels(table.numbers(columns, blank=np.nan), len(table), columns)
    if not columns:
        return clean_labels(None, len(table), None)
    texts = ["" if t in _UNKNOWN_LABELS else whole_number_shortened(t) for t in table.texts(columns[0])]
    if all(_NUMBER.fullmatch(text) for text in texts if text):
        _refuse_real_numbers(table, columns[0], texts)
    return clean_labels(np.array(texts, dtype=object), len(table), None)


def _refuse_real_numbers(table: Table, column: str, texts: list[str]) -> None:
    for row, text in enumerate(texts):
        if text and not (_WHOLE_NUMBER.fullmatch(text) or float(text).is_integer()):
            raise GsscError(
                f"{table.where(row)}, column {column!r} is {text}: class labels must be names or whole numbers; "
                "the task is classification, not regression"
            )


def _node_ids(table: Table, column: str) -> tuple[np.ndarray, dict[str, int]]:
    """Return the ids as they are written, and the row of each by its shortened form, in which edges look it up."""
    texts = table.texts(column)
    row_of: dict[str, int] = {}
    for row, text in enumerate(map(whole_number_shortened, texts)):
        if not text:
            raise GsscError(f"{table.where(row)}: the node has no id in column {column!r}: give it one")
        if text in row_of:
            raise GsscError(
                f"{table.where(row)}: node id {text!r} was used before at {table.where(row_of[text])}: "
                "give each node its own id"
            )
        row_of[text] = row
    whole = all(len(text) < 19 and text.removeprefix("-").isdecimal() and text == str(int(text)) for text in texts)
    return np.array(texts, dtype=np.int64 if whole else str), row_of


def _parts_from_column(table: Table, column: str) -> Split:
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for row, text in enumerate(table.texts(column)):
        if text.lower() in PART_OF:
            parts[PART_OF[text.lower()]].append(row)
        elif text.lower() not in NO_PART:
            raise GsscError(f"{table.where(row)}, column {column!r}: {text!r} is not train, val, test or empty")
    train, val, test = (np.array(rows, dtype=np.int64) for rows in parts)
    return train, val, test


def _edge_index(
    table: Table, source: str | None, target: str | None, row_of: dict[str, int], node_table: Table
) -> np.ndarray:
    names = _without_row_numbers(table)
    if len(names) < 2:
        raise GsscError(f"{table.path} has one column only: an edge needs two, the nodes it joins")
    by_lower = {name.lower(): name for name in table.names}
    pair = next((pair for pair in _END_NAMES if all(name in by_lower for name in pair)), None)
    usual = [by_lower[name] for name in pair] if pair else names[:2]
    ends = [usual[side] if given is None else _existing(table, given) for side, given in enumerate((source, target))]
    if ends[0] == ends[1]:
        raise GsscError(f"{table.path}: both ends of an edge are read from column {ends[0]!r}: name both columns")
    edges = np.empty((2, len(table)), dtype=np.int64)
    for side, column in enumerate(ends):
        for row, text in enumerate(table.texts(column)):
            node = row_of.get(whole_number_shortened(text))
            if node is None:
                raise GsscError(
                    f"{table.where(row)}: the edge names node {text!r}, which {node_table.path} does not have: "
                    "add the node or drop the edge"
                )
            edges[side, row] = node
    if not (pair or source or target):
        edges = np.concatenate([_edge_in_header(table, ends, row_of, node_table), edges], axis=1)
    if edges.shape[1] == 0:
        _refuse_no_rows(table)
    return edges


def _edge_in_header(table: Table, ends: list[str], row_of: dict[str, int], node_table: Table) -> np.ndarray:
    """The edge that a text table without a header has in place of one, [2, 0 or 1]."""
    found = [row_of.get(whole_number_shortened(name)) for name in ends]
    if table.lines is None or found == [None, None]:
        return np.empty((2, 0), dtype=np.int64)
    if None in found:
        node, other = ends if found[1] is None else reversed(ends)
        raise GsscError(
            f"{table.path}: the first line names node {node!r} and {other!r}, which {node_table.path} does not have: "
            "add the node or drop the edge; if they are names of columns, say so (source_column, --source)"
        )
    return np.array(found, dtype=np.int64).reshape(2, 1)
