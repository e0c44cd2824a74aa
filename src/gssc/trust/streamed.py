"""Trust in the edges of a graph on disk: sketches of every node, averaged over neighbours in a stream over the edges.

Only the sketches are kept per node, a few hundred bytes; nothing is kept per edge. The evidence of an edge is computed
when the edge is read: the cosine of its two feature rows, and the cosine of the neighbourhoods of its two ends, each
without the other end, as :class:`gssc.trust.pairs.PairEvidence` does in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gssc.data.array_file import ArrayFile
from gssc.data.disk_checks import check_finite, check_nodes
from gssc.trust.edges import FEWEST_FITTED, LEAST, noise_share
from gssc.trust.logistic import fit_logistic, log_odds
from gssc.trust.sketch import WIDTH, folding, unit_factors, unit_rows, with_unit_factors

SKETCH_WIDTH = 32
ROWS_SAMPLED, NUMBERS_SAMPLED = 10_000, 1 << 20  # maximum, for computing the principal directions
EDGES_AT_A_TIME = 1 << 14  # the sketches of their ends stay in the second-level cache
NUMBERS_AT_A_TIME = 1 << 18  # size of a block of feature rows, for the same reason
NODES_AT_A_TIME = 1 << 16  # whose means are computed together
PAIRS_AT_A_TIME = 256  # read together
FITTED = 20_000  # maximum number of edges, and of random pairs, for fitting


class Sketches:
    """Sketches of every node: its own, the mean over its neighbourhood, and the mean of those means.

    Args:
        own: unit feature rows projected to their principal directions, [N, k] float16.
        around: mean of :attr:`own` over the node and its neighbours, [N, k] float16.
        beyond: mean of :attr:`around` over the node and its neighbours, [N, k] float16.
        degree: number of neighbours, [N] int32.
    """

    def __init__(self, own: np.ndarray, around: np.ndarray, beyond: np.ndarray, degree: np.ndarray):
        self.own, self.around, self.beyond, self.degree = own, around, beyond, degree

    @classmethod
    def of(
        cls,
        features: Any,
        edges: np.ndarray,
        seed: int = 0,
        width: int = SKETCH_WIDTH,
        hidden: np.ndarray | None = None,
        on_part: Callable[[str, float], None] | None = None,
    ) -> Sketches:
        """Return the sketches of a graph, from one pass over its features and two over its edges.

        Args:
            features: [N, d], dense or memory-mapped.
            edges: undirected edges, each once, [2, E].
            seed: seed of the sample of rows that the directions are computed from.
            width: maximum number of columns of a sketch.
            hidden: nodes whose edges are left out, [N] booleans.
            on_part: progress callback, called with "rows" or "edges" and the share of their reading that is done.
        """
        tell = on_part or (lambda what, share: None)
        own = feature_sketch(features, width, seed, lambda share: tell("rows", share))
        degree = np.zeros(len(own), dtype=np.int32)
        around = _mean_around(own, edges, degree, hidden, count=True, tell=lambda share: tell("edges", share / 2))
        beyond = _mean_around(
            around, edges, degree, hidden, count=False, tell=lambda share: tell("edges", (1 + share) / 2)
        )
        return cls(own, around, beyond, degree)

    def of_nodes(self, nodes: np.ndarray) -> NodeSketches:
        """Return the sketches of some nodes in single precision."""
        own, around, beyond = (_single(part, nodes) for part in (self.own, self.around, self.beyond))
        return NodeSketches(own, around, beyond, self.degree[nodes])


@dataclass
class NodeSketches:
    """Sketches of n nodes, float32 [n, k], as in :class:`Sketches`."""

    own: np.ndarray
    around: np.ndarray
    beyond: np.ndarray
    degree: np.ndarray

    def some(self, part: slice) -> NodeSketches:
        """Return the sketches of consecutive nodes among these."""
        return NodeSketches(self.own[part], self.around[part], self.beyond[part], self.degree[part])

    def parts(self) -> list[np.ndarray]:
        """Return the three sketches of each node."""
        return [self.own, self.around, self.beyond]

    def around_cosine(self, ends: np.ndarray, are_edges: bool) -> np.ndarray:
        """Return the cosine of the neighbourhoods of the two nodes of each pair, each without the other node, [P].

        Args:
            ends: positions of both nodes of each pair, [2, P].
            are_edges: whether each node counts among the neighbours of the other.
        """
        sums = self.around * (self.degree + 1)[:, None].astype(np.float32)
        first, second = (sums.take(end, 0) for end in ends)
        if are_edges:
            first -= self.own.take(ends[1], 0)
            second -= self.own.take(ends[0], 0)
        return _cosines(first, second)


def _single(halves: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return rows of a float16 array as float32; torch converts them several times faster than NumPy."""
    return torch.from_numpy(halves).index_select(0, torch.from_numpy(nodes)).float().numpy()


def _cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each row of ``first`` with that of ``second``, zero for rows of zeros, [n]."""
    products = np.einsum("ij,ij->i", first, second)
    return np.asarray(products * unit_factors(first) * unit_factors(second))


def feature_sketch(features: Any, width: int, seed: int, tell: Callable[[float], None]) -> np.ndarray:
    """Return unit feature rows projected to their principal directions, from a sample, float16 [N, width]."""
    count, columns = features.shape
    fold = None if columns <= WIDTH else folding(columns, WIDTH, seed)
    rng = np.random.default_rng([seed, 11])
    sampled = min(count, ROWS_SAMPLED, max(1000, NUMBERS_SAMPLED // columns))
    sample = np.sort(rng.choice(count, sampled, replace=False))

    def short(rows: Any) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # rows that are not finite are refused below
            unit = unit_rows(rows)
        return np.asarray(unit if fold is None else unit @ fold, dtype=np.float32)

    step = max(64, NUMBERS_AT_A_TIME // columns)
    file = ArrayFile(features)
    rows = np.concatenate([short(file[sample[start : start + step]]) for start in range(0, sampled, step)])
    check_finite(rows, sample)
    middle = rows.mean(axis=0)
    rows -= middle
    _, directions = np.linalg.eigh((rows.T @ rows).astype(np.float64))
    directions = directions[:, ::-1][:, :width].astype(np.float32)
    sketch = np.empty((count, directions.shape[1]), dtype=np.float16)
    for start in range(0, count, step):
        sketch[start : start + step] = (short(file.block(start, start + step)) - middle) @ directions
        check_finite(sketch[start : start + step], range(start, count))
        file.keep_mapped(start, start + step)
        tell(min(1.0, (start + step) / count))
    return sketch


def _mean_around(
    rows: np.ndarray,
    edges: np.ndarray,
    degree: np.ndarray,
    hidden: np.ndarray | None,
    count: bool,
    tell: Callable[[float], None],
) -> np.ndarray:
    """Return the mean of rows over each node and its neighbours, float16; optionally counts neighbours too."""
    values = torch.from_numpy(rows)
    sums = values.float()
    total, counts, file = edges.shape[1], torch.from_numpy(degree), ArrayFile(edges)
    for start in range(0, total, EDGES_AT_A_TIME):
        block = file.columns(start, start + EDGES_AT_A_TIME).astype(np.int64)
        check_nodes(block, len(rows))
        if hidden is not None:
            block = block[:, ~hidden[block].any(axis=0)]
        first, second = torch.from_numpy(block)
        sums.index_add_(0, first, values.index_select(0, second).float())
        sums.index_add_(0, second, values.index_select(0, first).float())
        if count:
            ones = torch.ones(len(first), dtype=torch.int32)
            counts.index_add_(0, first, ones).index_add_(0, second, ones)
        tell(min(1.0, (start + EDGES_AT_A_TIME) / total))
    means = np.empty_like(rows)
    for start in range(0, len(rows), NODES_AT_A_TIME):
        part = slice(start, start + NODES_AT_A_TIME)
        means[part] = sums[part].numpy() / (degree[part] + 1).astype(np.float32)[:, None]
    return means


@dataclass
class StreamedTrust:
    """Keep probabilities of pairs of nodes, from their feature rows and sketches.

    Args:
        sketches: sketches of all nodes.
        middle, scale: centre and scale of the two measures.
        weights: weights of the logistic regression of edges against random pairs, [3].
        noise_share: estimated share of random pairs among the edges; 0 keeps every edge.
    """

    sketches: Sketches
    middle: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    noise_share: float

    @classmethod
    def fitted(
        cls, sketches: Sketches, edges: np.ndarray, rows: Callable[[np.ndarray], np.ndarray], seed: int = 0
    ) -> StreamedTrust:
        """Return trust fitted to a sample of edges and as many random pairs; see :func:`gssc.trust.edges.edge_trust`.

        Args:
            sketches: sketches of all nodes.
            edges: undirected edges, [2, n]; a sample of 20,000 is used if there are more.
            rows: function that returns the feature rows of nodes.
            seed: seed of the sample and of the random pairs.
        """
        rng = np.random.default_rng([seed, 12])
        nothing = cls(sketches, np.zeros(2), np.ones(2), np.zeros(3), 0.0)
        if edges.shape[1] > FITTED:
            edges = edges[:, np.sort(rng.choice(edges.shape[1], FITTED, replace=False))]
        others = rng.integers(0, len(sketches.own), (2, edges.shape[1]))
        others = others[:, others[0] != others[1]]
        if min(edges.shape[1], others.shape[1]) < FEWEST_FITTED:
            return nothing
        measured = [nothing.measured(pairs, rows, kind) for pairs, kind in ((edges, True), (others, False))]
        both = np.concatenate(measured)
        spread = both.std(axis=0)
        middle, scale = both.mean(axis=0), np.where(spread > 0, spread, 1)
        targets = np.repeat([1.0, 0.0], [len(part) for part in measured])
        weights = fit_logistic((both - middle) / scale, targets)
        weights[0] -= np.log(len(measured[0]) / len(measured[1]))
        odds, null = (log_odds((part - middle) / scale, weights) for part in measured)
        return cls(sketches, middle, scale, weights, noise_share(odds, null))

    def measured(self, pairs: np.ndarray, rows: Callable[[np.ndarray], np.ndarray], are_edges: bool) -> np.ndarray:
        """Return the two measures of pairs [2, P], reading their feature rows, [P, 2]."""
        found = []
        for start in range(0, pairs.shape[1], PAIRS_AT_A_TIME):
            part = pairs[:, start : start + PAIRS_AT_A_TIME]
            nodes, place = np.unique(part, return_inverse=True)  # every row is read once, in the order of the file
            sketches = self.sketches.of_nodes(nodes)
            found.append(self.measure(sketches, rows(nodes), place.reshape(part.shape), are_edges))
        return np.concatenate(found)

    def measure(self, sketches: NodeSketches, rows: np.ndarray, ends: np.ndarray, are_edges: bool) -> np.ndarray:
        """Return the two measures of pairs, the cosines of rows and of neighbourhoods, [P, 2].

        Args:
            sketches: sketches of the nodes in the pairs.
            rows: their feature rows, [U, d].
            ends: positions of both ends among these nodes, [2, P].
            are_edges: whether each end counts among the neighbours of the other.
        """
        rows, factors = with_unit_factors(rows)
        cosines, step = factors.take(ends).prod(0), max(16, NUMBERS_AT_A_TIME // rows.shape[1])
        for start in range(0, len(cosines), step):  # a few at a time: the rows of all ends take memory
            first, second = (rows.take(end, 0) for end in ends[:, start : start + step])
            cosines[start : start + step] *= np.einsum("ij,ij->i", first, second)
        return np.stack([cosines, sketches.around_cosine(ends, are_edges)], axis=1).astype(np.float64)

    def keep(self, sketches: NodeSketches, rows: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the probability that each edge is not a random pair, [P]; arguments as in :meth:`measure`."""
        return self._keep(self.measure(sketches, rows, ends, are_edges=True))

    def keep_of(self, edges: np.ndarray, rows: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the keep probability of each of the edges [2, P], reading the feature rows of their ends, [P]."""
        return self._keep(self.measured(edges, rows, are_edges=True))

    def _keep(self, measured: np.ndarray) -> np.ndarray:
        odds = log_odds((measured - self.middle) / self.scale, self.weights)
        return np.clip(1 - self.noise_share * np.exp(np.clip(-odds, -50, 50)), LEAST, 1).astype(np.float32)
