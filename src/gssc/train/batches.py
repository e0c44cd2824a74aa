"""Edge batches: the endpoints of a few edges, their negatives, and the feature rows of the nodes involved.

A batch is the whole input of a pair model. Only this module decides whether rows come from memory or disk, and which
edges a process gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from gssc.features import FeatureTable, Rows
from gssc.train.distributed import Processes
from gssc.train.edge_stream import cut


@dataclass
class EdgeBatch:
    """One batch of B training pairs.

    Attributes:
        nodes: the nodes of this batch, each once, in rising order, [U].
        rows: their feature rows, [U, d].
        source, target: positions of both ends in ``rows``, [B].
        negative: positions of one random node per pair, [B]; None if none are drawn. As in the released program, there
            is no check that it is not a neighbour: in a sparse graph it rarely is.
        negatives_in_batch: whether the endpoints of other pairs of the batch are used as negatives.
        labels: training labels of both ends, -1 or NaN where unknown, [2, B] or [2, B, T].
        index: positions of these pairs among those given to :class:`EdgeBatches`, [B].
        soft: a teacher's probabilities for every row, [U, C]; None without a teacher.
    """

    nodes: np.ndarray
    rows: Rows
    source: Tensor
    target: Tensor
    negative: Tensor | None
    negatives_in_batch: bool
    labels: Tensor
    index: np.ndarray
    soft: Tensor | None = None

    def __len__(self) -> int:
        return len(self.source)


class EdgeBatches:
    """Shuffled batches over a set of directed pairs.

    Args:
        table: where feature rows come from.
        labels: training labels of every node, -1 or NaN where unknown.
        batch_size: pairs per batch, of which each process computes its share. A last batch of less than two pairs per
            process is merged with the batch before it: batch norm needs two rows.
        negatives: how non-neighbours are drawn, see :class:`gssc.config.ObjectiveSettings`.
        max_batches: maximum number of batches per epoch; 0 for all.
        processes: processes that share every batch.
    """

    def __init__(
        self,
        table: FeatureTable,
        labels: Tensor,
        batch_size: int,
        negatives: str = "uniform",
        max_batches: int = 0,
        processes: Processes | None = None,
    ):
        self.table, self.device = table, table.device or torch.device("cpu")
        self.labels = labels
        self.batch_size = batch_size
        self.negatives = negatives
        self.max_batches = max_batches
        self.processes = processes or Processes()

    def epoch(self, pairs: np.ndarray, rng: np.random.Generator) -> Iterator[EdgeBatch]:
        """Yield the batches of one pass over ``pairs`` [2, P] in random order."""
        for index in islice(self._chunks(pairs.shape[1], rng), self.max_batches or None):
            yield self.batch(pairs, index, rng)

    def node_epoch(self, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the batches of one pass over all nodes in random order, regardless of ``max_batches``."""
        for nodes in self._chunks(self.table.shape[0], rng):
            yield nodes[self.processes.share(len(nodes))]

    def _chunks(self, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield shuffled numbers below ``count`` in batches."""
        yield from cut(rng.permutation(count), self.batch_size, least=2 * self.processes.count)

    def batch(self, pairs: np.ndarray, index: np.ndarray, rng: np.random.Generator) -> EdgeBatch:
        """Return this process's share of a batch, the pairs [2, P] at ``index``, with negatives drawn by ``rng``."""
        share = self.processes.share(len(index))
        negative = self._draw_negatives(pairs, len(index), rng)[share]
        index = index[share]
        ends = pairs[:, index]
        nodes, positions = np.unique(np.concatenate([ends.ravel(), negative]), return_inverse=True)
        parts = torch.from_numpy(positions).to(self.device).split([len(index), len(index), len(negative)])
        return EdgeBatch(
            nodes=nodes,
            rows=self.table.rows(nodes),
            source=parts[0],
            target=parts[1],
            negative=parts[2] if len(negative) else None,
            negatives_in_batch=self.negatives == "in_batch" and len(index) > 1,
            labels=self.labels[torch.from_numpy(ends)].to(self.device),
            index=index,
        )

    def _draw_negatives(self, pairs: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw nodes from P_k(v) of Eq. 11; ``degree`` uses ends of random pairs, which are proportional to degree."""
        if self.negatives == "uniform":
            return rng.integers(0, self.table.shape[0], count)
        if self.negatives == "degree":
            return pairs[0, rng.integers(0, pairs.shape[1], count)]
        return np.empty(0, dtype=np.int64)
