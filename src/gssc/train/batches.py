"""Edge batches: the endpoints of a few edges, their negatives, and the feature rows of the nodes involved.

A batch is all a model sees. Whether rows come from memory or disk, and which edges a process is given, is decided
here and nowhere else.
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
        rows: feature rows of the nodes of this batch, each node once, [U, d].
        source, target: positions of both ends in ``rows``, [B].
        negative: positions of one node drawn a pair, [B]; None when none are drawn. Like the released program, this
            does not check that it is no neighbour: in a sparse graph it rarely is.
        negatives_in_batch: the endpoints of other pairs of the batch serve as negatives.
        labels: training labels of both ends, -1 or NaN where unknown, [2, B] or [2, B, T].
        index: which of the pairs given to :class:`EdgeBatches` these are, [B].
        soft: what a teacher thinks of both ends, [2, B, C]; None without a teacher.
    """

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
        batch_size: pairs a batch, of which each process computes its share. A last batch of less than two pairs per
            process joins the batch before it: batch norm needs two rows.
        negatives: how non-neighbours are drawn, see :class:`gssc.config.ObjectiveConfig`.
        max_batches: at most this many batches an epoch; 0 for all.
        processes: that share every batch.
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
        """One pass over ``pairs`` [2, P] in random order."""
        for index in islice(self._chunks(pairs.shape[1], rng), self.max_batches or None):
            yield self.batch(pairs, index, rng)

    def node_epoch(self, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """One pass over all nodes in random order, a batch of them at a time, however many there are."""
        for nodes in self._chunks(self.table.shape[0], rng):
            yield nodes[self.processes.share(len(nodes))]

    def _chunks(self, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Shuffled numbers below ``count``, a batch at a time."""
        yield from cut(rng.permutation(count), self.batch_size, least=2 * self.processes.count)

    def batch(self, pairs: np.ndarray, index: np.ndarray, rng: np.random.Generator) -> EdgeBatch:
        """This process's share of the batch of some of the pairs [2, P], with negatives drawn by ``rng``."""
        share = self.processes.share(len(index))
        negative = self._draw_negatives(pairs, len(index), rng)[share]
        index = index[share]
        ends = pairs[:, index]
        nodes, positions = np.unique(np.concatenate([ends.ravel(), negative]), return_inverse=True)
        parts = torch.from_numpy(positions).to(self.device).split([len(index), len(index), len(negative)])
        return EdgeBatch(
            rows=self.table.rows(nodes),
            source=parts[0],
            target=parts[1],
            negative=parts[2] if len(negative) else None,
            negatives_in_batch=self.negatives == "in_batch" and len(index) > 1,
            labels=self.labels[torch.from_numpy(ends)].to(self.device),
            index=index,
        )

    def _draw_negatives(self, pairs: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """P_k(v) of Eq. 11: ``degree`` takes an end of a random pair, which is degree-proportional by construction."""
        if self.negatives == "uniform":
            return rng.integers(0, self.table.shape[0], count)
        if self.negatives == "degree":
            return pairs[0, rng.integers(0, pairs.shape[1], count)]
        return np.empty(0, dtype=np.int64)
