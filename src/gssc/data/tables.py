"""Build a graph from your own tables: one row per node and, optionally, one row per edge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np

from gssc.data.edge_table import edges_of_table
from gssc.data.labels import clean_labels
from gssc.data.neighbours import NEIGHBOURS, row_neighbours
from gssc.data.scaling import Scaling
from gssc.data.splits import NO_PART, PART_OF, Split, labelled_nodes, make_split
from gssc.data.table import (
    Table,
    is_integer_id,
    read_table,
    refuse_no_rows,
    whole_number_shortened,
    without_row_numbers,
)
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.progress_bar import OnStage
from gssc.text_tables import ID_NAMES, LABEL_NAMES, counts_from_zero, is_number

UNKNOWN_LABELS = ("", "nan", "NaN", "NA")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf)", re.ASCII | re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
DEFAULT_SPLIT = "ratio:60/20/20"
CHECKING = "checking columns"  # stage of an import


def import_tables(
    nodes: str | PathLike[str],
    edges: str | PathLike[str] | None = None,
    *,
    id_column: str | None = None,
    label_column: str | Sequence[str] | None = None,
    feature_columns: Sequence[str] | None = None,
    ignore_columns: Sequence[str] = (),
    split_column: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    weight_column: str | None = None,
    features_from: Literal["columns", "structure"] = "columns",
    n_neighbors: int = NEIGHBOURS,
    decimal: Literal[".", ","] = ".",
    split: str | None = None,
    seed: int = 0,
    setting: str = "transductive",
    name: str | None = None,
    on_stage: OnStage | None = None,
) -> Graph:
    """Return a graph built from a node table and an edge table (CSV, TSV or Parquet).

    Args:
        nodes: the node table.
        edges: the edge table, which refers to nodes by id, in either direction. Without one, every row is joined to
            its nearest neighbours after columns are scaled, as in `GSSCClassifier`.
        id_column: default: a column called id, node_id or node, else the first one; without an edge table, the first
            one only if it holds text and is neither label nor split.
        label_column: default: a column called label, y, class or target, if there is one. An unknown label is an empty
            cell, nan, NaN, NA or -1; if -1 and 1 are the only labels, they are two classes. Several columns make
            binary targets, one task each.
        feature_columns: default: every other column except `ignore_columns`; all must be numbers.
        split_column: default: a column called split, if there is one. Cells are train, val, test or empty.
        source_column, target_column: default: source and target, src and dst, from and to, else the first two columns.
        weight_column: default: a column called weight, if there is one. Weights are above 0; "none" reads no weights.
        features_from: "columns" of the node table, or "structure": degree and position in the graph, for a node
            table without feature columns (others are ignored).
        n_neighbors: number of neighbours per row if there is no edge table.
        decimal: decimal mark in text tables, a point or a comma.
        split: without a split column, how to split the labelled nodes: "per-class:<n>" or "ratio:<a>/<b>/<c>"
            (default "ratio:60/20/20"), drawn with `seed`.
        setting: "transductive", "inductive" or "cold-start".
        name: name of the graph; by default that of the node file.
        on_stage: called with the name of each stage and the share of it that is done, or None if that is unknown.
    """
    if features_from not in ("columns", "structure"):
        raise GsscError(f"features_from is {features_from!r}: use columns or structure")
    if edges is None and features_from == "structure":
        raise GsscError("features from the structure need edges: give an edge table (edges, --edges)")
    if edges is None and (source_column or target_column or weight_column):
        raise GsscError("columns of an edge table are given, but no edge table: give it (edges, --edges)")
    stage = on_stage or (lambda name, share: None)
    stage("reading nodes", None)
    node_table = read_table(nodes, decimal=decimal, on_share=partial(stage, "reading nodes"))
    stage(CHECKING, None)
    columns = NodeColumns.of(
        node_table,
        id_column=id_column,
        label_column=label_column,
        feature_columns=feature_columns,
        ignore_columns=ignore_columns,
        split_column=split_column,
        needs_id=edges is not None,
        needs_features=features_from == "columns",
    )
    features: np.ndarray | None = None
    if features_from == "columns":
        try:
            features = node_table.numbers(columns.features, on_share=partial(stage, CHECKING))
        except GsscError as error:
            if label_column is not None or "is not a number" not in str(error):
                raise
            raise GsscError(f"{error}; if a column holds the classes, name it (label_column, --label)") from None
    ids, row_of = (None, {}) if columns.id is None else _node_ids(node_table, columns.id)
    labels, class_names = _labels(node_table, columns)
    if columns.split is not None and split is None:
        parts, split_name = parts_from_column(node_table, columns.split), "from table"
    else:
        parts, split_name = drawn_split(labels, split, seed)
    edge_weight: np.ndarray | None = None
    if edges is None:
        edge_index = table_neighbours(features, n_neighbors, on_stage)
    else:
        stage("reading edges", None)
        edge_table = read_table(edges, of_edges=True, decimal=decimal, on_share=partial(stage, "reading edges"))
        stage("looking up the ends of edges", None)
        edge_index, edge_weight = edges_of_table(
            edge_table, source_column, target_column, weight_column, row_of, node_table
        )
    stage("checking the graph", None)
    return Graph(
        features,
        edge_index,
        labels,
        *parts,
        edge_weight=edge_weight,
        name=name or node_table.path.stem,
        split=split_name,
        setting=setting,
        class_names=class_names,
        node_ids=ids,
        feature_names=None if features is None else tuple(columns.features),
    )


@dataclass(frozen=True)
class NodeColumns:
    """The columns of a node table, by their role.

    Args:
        id: column of the node ids; None if nodes have none.
        labels: one column of classes, several of binary targets, or none.
        multilabel: whether the labels are binary targets.
        split: column of the split, if there is one.
        features: columns of numbers.
    """

    id: str | None
    labels: list[str]
    multilabel: bool
    split: str | None
    features: list[str]

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        id_column: str | None = None,
        label_column: str | Sequence[str] | None = None,
        feature_columns: Sequence[str] | None = None,
        ignore_columns: Sequence[str] = (),
        split_column: str | None = None,
        needs_id: bool = True,
        needs_features: bool = True,
    ) -> NodeColumns:
        """Return the columns by the names given to :func:`import_tables`. Raises GsscError if one is missing."""
        refuse_no_rows(table)
        if all(given is None for given in (id_column, label_column, feature_columns, split_column)):
            _refuse_data_as_names(table)
        id_column = _id_column(table, id_column, label_column, split_column, needed=needs_id)
        labels = _label_columns(table, label_column, taken=id_column)
        if id_column in labels:
            raise GsscError(
                f"{table.path}: column {id_column!r} cannot hold both the ids and the labels: name another one for "
                "either (id_column, --id; label_column, --label)"
            )
        split_column = table.named(split_column, ("split",), taken=[*filter(None, (id_column, *labels))])
        taken = {id_column, *labels, split_column, *map(table.existing, ignore_columns)}
        features: list[str] = []
        if needs_features:
            free = (column for column in without_row_numbers(table) if column not in taken)
            features = [table.existing(column) for column in feature_columns or free]
            if len(table.names) == 1 and table.lines is not None:
                raise GsscError(
                    f"{table.path}: the first line has one column, {table.names[0][:60]!r}: separate columns by a "
                    "comma, a semicolon or a tab"
                )
            if not features:
                raise GsscError(
                    f"{table.path} has no feature column besides {sorted(filter(None, taken))}: add numbers, or make "
                    "features from the edges (features_from='structure', --features-from structure)"
                )
        return cls(id_column, labels, not isinstance(label_column, str | None), split_column, features)


def drawn_split(labels: np.ndarray, split: str | None, seed: int) -> tuple[Split, str]:
    """Return a split of the labelled nodes and its name; three empty parts if no node has a label."""
    if len(labelled_nodes(labels)):
        return make_split(split or DEFAULT_SPLIT, labels, seed)
    if split is not None:
        make_split(split, labels, seed)  # raises on an invalid split
    return (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)), "none"


def table_neighbours(features: Any, n_neighbors: int, on_stage: OnStage | None = None) -> np.ndarray:
    """Return edges [2, E] between each row of a table and its nearest rows, after scaling the columns."""
    if features.shape[0] < 2:
        raise GsscError("a table with one row has no neighbours: give more rows, or an edge table")
    if n_neighbors < 1:
        raise GsscError(f"n_neighbors is {n_neighbors}: use at least 1")
    return row_neighbours(features, n_neighbors, Scaling.of(features, "auto"), on_stage)


def _refuse_data_as_names(table: Table) -> None:
    """Raise GsscError if the first line looks like data (``m1,0.5,2``), because it would be lost as a header."""
    numbers = [name for name in table.names if is_number(name)]
    has_common_name = any(name.lower() in (*ID_NAMES, *LABEL_NAMES, "split", "") for name in table.names)
    if table.lines is not None and not has_common_name and not counts_from_zero(numbers):
        shown = ", ".join(table.names[:3] + ["..."] * (len(table.names) > 3))
        raise GsscError(
            f"{table.path}: the first line ({shown}) looks like data: add one that names the columns or, if it does, "
            "say which of them holds the ids or the classes (id_column, --id; label_column, --label)"
        )


def _id_column(
    table: Table, given: str | None, label: str | Sequence[str] | None, split: str | None, *, needed: bool
) -> str | None:
    """Return the id column, or None; without an edge table, a first column of numbers is taken as a feature."""
    named = table.named(given, ID_NAMES)
    first = table.names[0]
    if named is not None or needed:
        return named or first
    others = {split, *([label] if isinstance(label, str) else label or ())}
    if first in others or first.lower() in (*LABEL_NAMES, "split") or all(map(is_number, table.texts(first))):
        return None
    return first


def _label_columns(table: Table, given: str | Sequence[str] | None, taken: str | None) -> list[str]:
    """Return the label columns: those given, else one with a common name, if there is one."""
    if given is None or isinstance(given, str):
        column = table.named(given, LABEL_NAMES, taken=() if taken is None else (taken,))
        return [] if column is None else [column]
    return [table.existing(column) for column in given]


def _labels(table: Table, columns: NodeColumns) -> tuple[np.ndarray, tuple[str, ...] | None]:
    if columns.multilabel:
        return clean_labels(table.numbers(columns.labels, blank=np.nan), len(table), columns.labels)
    if not columns.labels:
        return clean_labels(None, len(table), None)
    return labels_of_texts(table, columns.labels[0], map(whole_number_shortened, table.texts(columns.labels[0])))


def labels_of_texts(table: Table, column: str, texts: Iterable[str]) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return class numbers and class names of the cells of a label column; ``table`` is for error messages."""
    known = ["" if text in UNKNOWN_LABELS else text for text in texts]
    _refuse_real_numbers(table, column, known)
    return clean_labels(np.array(known, dtype=object), len(known), None)


def _refuse_real_numbers(table: Table, column: str, texts: list[str]) -> None:
    """Raise GsscError if all labels are numbers and some are not whole."""
    if not all(_NUMBER.fullmatch(text) for text in texts if text):
        return
    for row, text in enumerate(texts):
        if text and not (_WHOLE_NUMBER.fullmatch(text) or float(text).is_integer()):
            raise GsscError(
                f"{table.where(row)}, column {column!r} is {text}: class labels must be names or whole numbers; "
                "the task is classification, not regression"
            )


def _node_ids(table: Table, column: str) -> tuple[np.ndarray, dict[str, int]]:
    """Return the ids as written, and the row of each by its shortened form, which edges are looked up by."""
    texts = table.id_texts(column)
    row_of: dict[str, int] = {}
    for row, text in enumerate(map(whole_number_shortened, texts)):
        if text in row_of:
            raise GsscError(
                f"{table.where(row)}: node id {text!r} was used before at {table.where(row_of[text])}: "
                "give each node its own id"
            )
        row_of[text] = row
    return np.array(texts, dtype=np.int64 if all(map(is_integer_id, texts)) else str), row_of


def parts_from_column(table: Table, column: str) -> Split:
    """Return the split given by a column of train, val, test or empty cells."""
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for row, text in enumerate(table.texts(column)):
        if text.lower() in PART_OF:
            parts[PART_OF[text.lower()]].append(row)
        elif text.lower() not in NO_PART:
            raise GsscError(f"{table.where(row)}, column {column!r}: {text!r} is not train, val, test or empty")
    train, val, test = (np.array(rows, dtype=np.int64) for rows in parts)
    return train, val, test
