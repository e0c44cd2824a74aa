"""The graph over the rows of a table: which rows take part, their edges, and the way back to the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gssc.data.edges import as_edges
from gssc.data.neighbours import row_neighbours
from gssc.data.scaling import Scaling
from gssc.errors import GsscError
from gssc.graph import Graph


@dataclass(frozen=True)
class RowGraph:
    """Edges between the rows of a table that take part in training.

    Args:
        count: number of rows of the table.
        rows: number of the row of each node, ascending, [n].
        edges: edges by node, in any direction and repetition, [2, E].
        edge_weight: their weights, [E], if they have any.
    """

    count: int
    rows: np.ndarray
    edges: np.ndarray
    edge_weight: np.ndarray | None = None

    @classmethod
    def given(cls, edge_index: Any, names: Any, count: int) -> RowGraph:
        """Return the graph of all rows with edges in any form that :func:`~gssc.data.edges.as_edges` takes."""
        return cls(count, np.arange(count), *as_edges(edge_index, names, count))

    @classmethod
    def found(
        cls, features: Any, codes: np.ndarray, scaling: Scaling, k: int, most: int, rng: np.random.RandomState
    ) -> RowGraph:
        """Return the graph that joins every row to its nearest ones.

        Args:
            features: the table, [N, d].
            codes: class of every row, -1 where unknown, [N].
            scaling: how columns are scaled before distances are computed.
            k: neighbours of a row.
            most: maximum number of rows: all labelled ones take part, and others, drawn at random, up to this number.
            rng: draws the rows.
        """
        labelled, others = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        room = max(most - len(labelled), 0)
        if len(others) <= room:
            rows = np.arange(len(codes))
        else:
            rows = np.sort(np.concatenate([labelled, rng.choice(others, room, replace=False)]))
        return cls(len(codes), rows, row_neighbours(features[rows], k, scaling))

    @property
    def edge_index(self) -> np.ndarray:
        """The edges by row, [2, E]."""
        return self.rows[self.edges]

    def graph(self, features: Any, codes: np.ndarray, validation: Any = None, **names: Any) -> Graph:
        """Return the rows that take part as a graph.

        Args:
            features: the table, [N, d].
            codes: class of every row, -1 where unknown, [N].
            validation: numbers, or a mask, of labelled rows that are set apart.
            names: ``class_names`` and ``feature_names``.
        """
        features = features[self.rows] if len(self.rows) < self.count else features
        codes = codes[self.rows]
        val = np.flatnonzero(np.isin(self.rows, self._row_numbers(validation)))
        train = np.setdiff1d(np.flatnonzero(codes >= 0), val)
        return Graph(
            features,
            self.edges,
            codes,
            train=train,
            val=val,
            edge_weight=self.edge_weight,
            name="table",
            setting="inductive",  # the model predicts rows that are not in the graph
            **names,
        )

    def _row_numbers(self, validation: Any) -> np.ndarray:
        chosen = np.asarray([] if validation is None else validation)
        if chosen.dtype == bool:
            if chosen.shape != (self.count,):
                raise GsscError(
                    f"validation is a mask of shape {chosen.shape}: give one entry per row, {self.count} in all"
                )
            return np.flatnonzero(chosen)
        if chosen.size and not (
            chosen.ndim == 1 and chosen.dtype.kind in "iu" and 0 <= chosen.min() <= chosen.max() < self.count
        ):
            raise GsscError(f"validation must be a mask or numbers of rows, from 0 to {self.count - 1}")
        return chosen

    def by_column(self, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return a value per column of :attr:`edge_index`, NaN for self-loops, from values per edge of the graph.

        Args:
            edges: edges of the graph by node, each once, [2, E'].
            values: one per edge; an edge that is not among them gets 0.
        """
        edges = self.rows[edges]
        ends, known = np.sort(self.edge_index.astype(np.int64), axis=0), np.sort(edges, axis=0)
        wanted, keys = ends[0] * self.count + ends[1], known[0] * self.count + known[1]
        order = np.argsort(keys)
        place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
        found = np.where(keys[place] == wanted, values[place], 0.0).astype(np.float64)
        found[ends[0] == ends[1]] = np.nan
        return found
