"""Stream the edges of a graph in shuffled order in bounded memory: random blocks, shuffled within a buffer.

Edges are on disk in the order of their nodes. A pass permutes blocks of consecutive edges, reads some of them at a time
into a buffer, and shuffles both directions of every edge in it. Reads are long, memory is that of a buffer, and every
pair comes exactly once per pass. The order of a pass depends only on the seed and its number, so that three
numbers are enough to resume it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gssc.data.array_file import ArrayFile
from gssc.data.disk_checks import check_weights
from gssc.trust.edges import full_weight

BLOCK = 2048  # edges that are read together
BLOCKS = 32  # blocks per buffer
AHEAD = 4  # batches prepared in advance
WEIGHTS = 1_000_000  # edge weights in a sample

Item = TypeVar("Item")


@dataclass
class Position:
    """Position of a batch: numbers of the pass over the edges, of the buffer in it, and of the batch in the buffer."""

    passes: int = 0
    buffer: int = 0
    batch: int = 0


@dataclass
class PairBatch:
    """Some pairs of a buffer.

    Attributes:
        pairs: both directions of every edge of the buffer, or every edge once, [2, n].
        index: positions of the pairs of this batch among them, [B].
        rng: generator for everything drawn for this batch.
        next: position of the next batch.
        weight: weights of the pairs of the buffer, [n]; None if edges have no weights.
    """

    pairs: np.ndarray
    index: np.ndarray
    rng: np.random.Generator
    next: Position
    weight: np.ndarray | None = None


class EdgeStream:
    """Shuffled pairs of a graph's edges, batch by batch, from any position on.

    Args:
        edges: undirected edges, each once, [2, E]; a memory map is read from its file, block by block.
        batch_size: pairs per batch; the last batch of a buffer may be smaller, but has at least two pairs.
        seed: seed of the order.
        block: number of edges that are read together and stay in one buffer.
        blocks: number of blocks in a buffer.
        hidden: nodes whose edges are left out, [N] booleans; None for no such nodes.
        run: 0 shuffles single pairs. Otherwise this many consecutive edges stay together, which mostly have an end in
            common, and a batch has each of its edges once, for both directions: fewer rows per pair.
        weight: weights of the edges, [E]; None if they have none.
    """

    def __init__(
        self,
        edges: np.ndarray,
        batch_size: int,
        seed: int = 0,
        block: int = BLOCK,
        blocks: int = BLOCKS,
        hidden: np.ndarray | None = None,
        run: int = 0,
        weight: np.ndarray | None = None,
    ):
        self.edges, self.batch_size, self.seed = edges, batch_size, seed
        self.file, self.weights = ArrayFile(edges), None if weight is None else ArrayFile(weight)
        self.block, self.blocks, self.hidden, self.run = block, blocks, hidden, run

    def batches(self, start: Position) -> Iterator[PairBatch]:
        """Yield the batches from a position to the end of its pass."""
        order = self._order(start.passes)
        buffers = -(-len(order) // self.blocks)
        for buffer in range(start.buffer, buffers):
            edges, weight = self._read(order[buffer * self.blocks : (buffer + 1) * self.blocks])
            pairs = edges if self.run else np.concatenate([edges, edges[::-1]], axis=1)
            if weight is not None and not self.run:
                weight = np.tile(weight, 2)
            parts = self._parts(pairs.shape[1], np.random.default_rng([self.seed, start.passes, buffer, 0]))
            for number in range(start.batch if buffer == start.buffer else 0, len(parts)):
                following = Position(start.passes, buffer, number + 1)
                if number + 1 == len(parts):
                    following = Position(start.passes, buffer + 1, 0)
                    if buffer + 1 == buffers:
                        following = Position(start.passes + 1, 0, 0)
                rng = np.random.default_rng([self.seed, start.passes, buffer, 1 + number])
                yield PairBatch(pairs, parts[number], rng, following, weight)

    def endless(self, start: Position) -> Iterator[PairBatch]:
        """Yield batches from a position on, pass after pass; ends only if there is no edge to read."""
        while True:
            batch = None
            for batch in self.batches(start):
                yield batch
            if batch is None and (start.buffer, start.batch) == (0, 0):
                return
            start = Position(start.passes + 1, 0, 0)

    def sample(self, count: int, seed: int) -> np.ndarray:
        """Return about ``count`` edges that are not hidden, in random blocks of the graph, [2, n]."""
        blocks = -(-self.edges.shape[1] // self.block)
        chosen = np.random.default_rng([seed, 16]).permutation(blocks)[: -(-count // self.block)]
        return self._read(chosen * self.block)[0]

    def full_weight(self) -> float:
        """Return the weight from which an edge counts fully, by a sample; raises GsscError for an invalid weight."""
        parts, step = [], max(1, self.edges.shape[1] // WEIGHTS)
        for start in range(0, self.edges.shape[1] if self.weights else 0, self.block):
            _, weight = self._read(np.array([start]))
            assert weight is not None
            check_weights(weight, start)
            parts.append(weight[-start % step :: step])
        sample = np.concatenate(parts) if parts else np.empty(0)
        return full_weight(sample) if len(sample) else 1.0

    def _order(self, passes: int) -> np.ndarray:
        """Return the first edges of the blocks in the order of a pass."""
        count = -(-self.edges.shape[1] // self.block)
        return np.random.default_rng([self.seed, passes]).permutation(count) * self.block

    def _parts(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return numbers below ``count`` in random order, or in random order of runs, in batches."""
        if self.run == 0:
            return cut(rng.permutation(count), self.batch_size)
        starts = self.run * rng.permutation(-(-count // self.run))
        order = (starts[:, None] + np.arange(self.run)).ravel()
        return cut(order[order < count], -(-self.batch_size // 2))

    def _read(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the edges of some blocks, [2, n] int64, and their weights, [n]."""
        blocks = [(start, start + self.block) for start in np.sort(starts).tolist()]
        edges = np.concatenate([self.file.columns(*block) for block in blocks], axis=1).astype(np.int64)
        weight = None if self.weights is None else np.concatenate([self.weights.block(*block) for block in blocks])
        if self.hidden is not None:
            seen = ~self.hidden[edges].any(axis=0)
            edges, weight = edges[:, seen], None if weight is None else weight[seen]
        return edges, weight


def cut(order: np.ndarray, size: int, least: int = 2) -> list[np.ndarray]:
    """Return an array in parts of ``size``; a last part of less than ``least`` is merged with the part before it.

    Batch norm needs two rows in every process.

    >>> [part.tolist() for part in cut(np.arange(5), 2)]
    [[0, 1], [2, 3, 4]]
    """
    stops = [*range(size, len(order), size), len(order)]
    if len(stops) > 1 and stops[-1] - stops[-2] < least:
        del stops[-2]
    return [part for part in np.split(order, stops[:-1]) if len(part)]


def prefetched(items: Iterable[Item], ahead: int = AHEAD) -> Iterator[Item]:
    """Yield the items of an iterable, made ahead by a thread; an error of the iterable is raised here.

    The thread ends with the iterable, or soon after the iterator is closed.

    Args:
        items: source of the items.
        ahead: maximum number of items made in advance; the thread waits when it has made that many.
    """
    waiting: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    stopped, room = threading.Event(), threading.Semaphore(ahead + 1)

    def produce() -> None:
        source = iter(items)
        try:
            while room.acquire() and not stopped.is_set():
                waiting.put(("item", next(source)))
        except StopIteration:
            waiting.put(("end", None))
        except BaseException as error:  # raised again in the thread that waits for the item
            waiting.put(("error", error))

    thread = threading.Thread(target=produce, daemon=True, name="prefetch")
    thread.start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
            del value
            room.release()
    finally:
        stopped.set()
        room.release()
        thread.join()
