"""Node and edge tables (CSV, TSV, Parquet) read in blocks of rows, for `gssc data build`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.edge_table import edge_columns, edge_in_header, weights_of
from gssc.data.graph_stream import EDGES, Edges, NodeFacts, file_signature, rows_per_block
from gssc.data.labels import clean_labels
from gssc.data.table import Table, is_integer_id, table_blocks, whole_number_shortened
from gssc.data.tables import NodeColumns, drawn_split, labels_of_texts, parts_from_column
from gssc.errors import GsscError


class TableStream:
    """A node table and an edge table; the arguments are those of :func:`gssc.data.tables.import_tables`.

    Ids, labels and the split take a few bytes per node in memory; features and edges are held in blocks only.
    """

    def __init__(
        self,
        nodes: Path,
        edges: Path,
        *,
        source_column: str | None = None,
        target_column: str | None = None,
        weight_column: str | None = None,
        decimal: str = ".",
        split: str | None = None,
        seed: int = 0,
        setting: str = "transductive",
        name: str | None = None,
        **columns: Any,
    ):
        self.options = {name: value for name, value in locals().items() if name not in ("self", "nodes", "edges")}
        self.nodes_path, self.edges_path, self.decimal = nodes, edges, decimal
        self.split, self.seed, self.setting, self.name = split, seed, setting, name or nodes.stem
        self.columns = NodeColumns.of(next(table_blocks(nodes, 100, decimal=decimal)), **columns)
        self.width = len(self.columns.features)
        ends = next(table_blocks(edges, 100, of_edges=True, decimal=decimal))
        self.ends, common_names = edge_columns(ends, source_column, target_column)
        self.weight_column = weight_column
        self.weighted = weights_of(ends, weight_column, self.ends) is not None
        self.named_ends = common_names or bool(source_column or target_column) or self.weighted

    def signature(self) -> dict[str, Any]:
        """Return the signatures of both files and all options."""
        files = [file_signature(path) for path in (self.nodes_path, self.edges_path)]
        options = json.loads(json.dumps(self.options))  # tuples as lists, as the record of the build has them
        return {"tables": files, "options": options}

    def rows(self, start: int) -> Iterator[np.ndarray]:
        """Yield feature rows, collecting ids, labels and split along the way."""
        self._ids: list[np.ndarray] = []
        self._labels: list[Any] = []
        self._parts: list[tuple[np.ndarray, ...]] = []
        known: dict[str, str] = {}  # one string object per class, shared by its nodes
        done, columns = 0, self.columns
        for table in table_blocks(self.nodes_path, rows_per_block(self.width), decimal=self.decimal):
            self._ids.append(ids_of(table, str(columns.id)))
            if columns.multilabel:
                self._labels.append(table.numbers(columns.labels, blank=np.nan))
            elif columns.labels:
                texts = (whole_number_shortened(text) for text in table.texts(columns.labels[0]))
                self._labels.extend(known.setdefault(text, text) for text in texts)
            if columns.split is not None and self.split is None:
                self._parts.append(tuple(part + done for part in parts_from_column(table, columns.split)))
            if done + len(table) > start:
                yield table.numbers(columns.features)[max(0, start - done) :]
            done += len(table)
        self.count = done

    def facts(self) -> NodeFacts:
        """Return labels and split, as :func:`gssc.data.tables.import_tables` makes them."""
        kinds = {ids.dtype.kind for ids in self._ids}
        node_ids = np.concatenate(self._ids if kinds == {"i"} else [ids.astype(str) for ids in self._ids])
        NodeNames(node_ids, self.nodes_path)  # raises on repeated ids
        labels, class_names = self._clean_labels()
        if self._parts:
            train, val, test = (np.concatenate(part) for part in zip(*self._parts, strict=True))
            split_name = "from table"
        else:
            (train, val, test), split_name = drawn_split(labels, self.split, self.seed)
        return NodeFacts(
            labels, class_names, train, val, test, split_name, self.setting, node_ids, tuple(self.columns.features)
        )

    def _clean_labels(self) -> tuple[np.ndarray, tuple[str, ...] | None]:
        columns = self.columns.labels
        if self.columns.multilabel:
            return clean_labels(np.concatenate(self._labels), self.count, columns)
        if not columns:
            return clean_labels(None, self.count, None)
        return labels_of_texts(Table(self.nodes_path, {columns[0]: self._labels}, None), columns[0], self._labels)

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[Edges]:
        """Yield edges with ids replaced by row numbers."""
        assert node_ids is not None
        names = NodeNames(node_ids, self.nodes_path)
        for number, table in enumerate(table_blocks(self.edges_path, EDGES, of_edges=True, decimal=self.decimal)):
            if number < start:
                continue
            edges = np.stack([names.rows(table, column) for column in self.ends])
            weights = weights_of(table, self.weight_column, self.ends)
            if number == 0 and not self.named_ends:
                edges = np.concatenate([edge_in_header(table, self.ends, names, self.nodes_path), edges], axis=1)
            yield edges, weights


def ids_of(table: Table, column: str) -> np.ndarray:
    """Return the ids of the rows of a table: whole numbers that fit as int64, anything else as text."""
    values: Any = table.columns[column]
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        fits = values.dtype != np.uint64 or not len(values) or values.max() <= np.iinfo(np.int64).max
        return values.astype(np.int64 if fits else str)
    texts = [whole_number_shortened(text) for text in table.id_texts(column)]
    return np.array(texts, dtype=np.int64 if all(map(is_integer_id, texts)) else str)


class NodeNames:
    """Lookup of rows by node id, in a sorted array, which takes far less memory than a dictionary.

    Args:
        ids: [N] whole numbers or text.
        path: path of the node table, for error messages.
    """

    def __init__(self, ids: np.ndarray, path: Path):
        self.path, self.order = path, np.argsort(ids, kind="stable")
        self.sorted = ids[self.order]
        twice = np.flatnonzero(self.sorted[1:] == self.sorted[:-1])
        if len(twice):
            first, second = self.order[twice[0] : twice[0] + 2]
            raise GsscError(
                f"{path}: node id {self.sorted[twice[0]]!s} is used for rows {first + 1} and {second + 1}: "
                "give each node its own id"
            )

    def rows(self, table: Table, column: str) -> np.ndarray:
        """Return the row numbers of the ids in a column of an edge table."""
        wanted = ids_of(table, column)
        found = self._find(wanted)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            raise GsscError(
                f"{table.where(int(missing[0]))}: the edge names node {str(wanted[missing[0]])!r}, which {self.path} "
                "does not have: add the node or drop the edge"
            )
        return found

    def get(self, text: str) -> int | None:
        """Return the row of one id, or None if there is no such node."""
        row = int(self._find(np.array([text]))[0])
        return None if row < 0 else row

    def _find(self, wanted: np.ndarray) -> np.ndarray:
        """Return the row of each id, -1 where there is no such node."""
        if self.sorted.dtype.kind == "i" and wanted.dtype.kind != "i":
            numbers = np.array([is_integer_id(text) for text in wanted.tolist()], dtype=bool)
            found = np.full(len(wanted), -1)
            found[numbers] = self._find(wanted[numbers].astype(np.int64))
            return found
        if self.sorted.dtype.kind != "i":
            wanted = wanted.astype(str)
        at = np.minimum(np.searchsorted(self.sorted, wanted), len(self.sorted) - 1)
        return np.where(self.sorted[at] == wanted, self.order[at], -1)
