"""Evidence that a pair of nodes is an edge: measures that never use that edge itself.

A model trained on an edge makes its two ends alike, whether the edge is right or not. So each measure that uses the
graph is computed as if the pair were not an edge: neighbourhoods leave out the other end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.graph import Graph
from gssc.trust.sketch import unit_rows

# Measures used by the edge score; agreement and embedding are only reported, see gssc.audit.edges.
MEASURES = ("features", "neighbourhood_features", "neighbourhood_embedding", "common_neighbours")
MODEL_MEASURES = ("agreement", "embedding")
NUMBERS_AT_A_TIME = 1 << 22  # values in the largest array for a block of pairs
HUB = 32  # ratio of degrees in a pair from which the neighbours of the larger end are looked up, not read


class PairEvidence:
    """Measures of pairs of nodes; the larger, the more likely the pair is an edge.

    ``features``
        cosine of the two feature rows
    ``neighbourhood_features``
        cosine of the two feature sketches, each summed over the node and its neighbours
    ``neighbourhood_embedding``
        the same for the model's last hidden layer
    ``common_neighbours``
        logarithm of one plus the Adamic-Adar index, the sum over common neighbours of 1 / log degree
    ``agreement``
        probability that two classes drawn from the model's probabilities are the same; for tasks, the mean over them
    ``embedding``
        cosine of the last hidden layer

    Args:
        graph: features and edges; labels are not used.
        sketch: see :func:`gssc.trust.sketch.feature_sketch`.
        embedding: the model's last hidden layer, [N, F].
        probabilities: probability of each class or task, [N, C].
    """

    def __init__(self, graph: Graph, sketch: np.ndarray, embedding: np.ndarray, probabilities: np.ndarray):
        self.features: Any = unit_rows(graph.features) if sp.issparse(graph.features) else graph.features
        self.has_classes = graph.task.has_classes
        self.adjacency = adjacency_of(graph)
        self.degree = np.diff(self.adjacency.indptr)
        self.numbers = np.sort(edge_numbers(graph.edges, graph.num_nodes))
        rarity = (1 / np.log(np.maximum(self.degree, 2))).astype(np.float32)
        places = self.adjacency.indices, self.adjacency.indptr
        self.weighted = sp.csr_matrix((rarity[self.adjacency.indices], *places), self.adjacency.shape)
        centred = embedding - embedding.mean(axis=0, dtype=np.float64).astype(np.float32)
        self.sketch, self.embedding, self.probabilities = sketch, unit_rows(centred), probabilities
        self.sketch_sums = self.adjacency @ sketch + sketch
        self.embedding_sums = self.adjacency @ self.embedding + self.embedding

    def measure(self, pairs: np.ndarray, are_edges: bool) -> dict[str, np.ndarray]:
        """Return every measure by name, one value per pair, each [P].

        Args:
            pairs: node numbers, [2, P].
            are_edges: whether the pairs are edges of the graph; if so, each edge is left out of its own measures.
        """
        found = {name: np.empty(pairs.shape[1], dtype=np.float32) for name in (*MEASURES, *MODEL_MEASURES)}
        for block in self._blocks(pairs):
            for name, values in self._measure(pairs[:, block], are_edges).items():
                found[name][block] = values
        return found

    def _measure(self, pairs: np.ndarray, are_edges: bool) -> dict[str, np.ndarray]:
        first, second = pairs
        own = self.probabilities[first] * self.probabilities[second]
        if not self.has_classes:
            own = own + (1 - self.probabilities[first]) * (1 - self.probabilities[second])
        return {
            "features": (_products if sp.issparse(self.features) else _cosines)(
                self.features[first], self.features[second]
            ),
            "neighbourhood_features": self._around(self.sketch, self.sketch_sums, first, second, are_edges),
            "neighbourhood_embedding": self._around(self.embedding, self.embedding_sums, first, second, are_edges),
            "common_neighbours": np.log1p(self._common_neighbours(pairs)),
            "agreement": own.sum(axis=1) if self.has_classes else own.mean(axis=1),
            "embedding": _products(self.embedding[first], self.embedding[second]),
        }

    def _common_neighbours(self, pairs: np.ndarray) -> np.ndarray:
        """Return the Adamic-Adar index of each pair, [P]; time grows with the smaller of the two neighbourhoods."""
        with_hub, found = self._with_hub(pairs), np.empty(pairs.shape[1], dtype=np.float32)
        first, second = pairs[:, ~with_hub]
        found[~with_hub] = self.weighted[first].multiply(self.adjacency[second]).sum(axis=1).A1
        few, many = np.take_along_axis(pairs, self.degree[pairs].argsort(axis=0), axis=0)[:, with_hub]
        around = self.weighted[few]  # neighbours of the smaller end; those that the hub does not have are removed
        ends = np.stack([np.repeat(many, np.diff(around.indptr)), around.indices])
        around.data[~_among(edge_numbers(ends, len(self.degree)), self.numbers)] = 0
        around.eliminate_zeros()  # so that sums are rounded as above
        found[with_hub] = around.sum(axis=1).A1
        return found

    def _with_hub(self, pairs: np.ndarray) -> np.ndarray:
        """Return whether one end of each pair has many times the neighbours of the other, [P]."""
        fewer, more = np.sort(self.degree[pairs], axis=0)
        return np.asarray(more > HUB * np.maximum(fewer, 1))

    def _around(
        self, rows: np.ndarray, sums: np.ndarray, first: np.ndarray, second: np.ndarray, are_edges: bool
    ) -> np.ndarray:
        """Return the cosine of the neighbourhoods of the two ends, each without the other end."""
        left, right = sums[first], sums[second]
        if are_edges:
            left -= rows[second]  # in place, since indexing has made copies
            right -= rows[first]
        return _cosines(left, right)

    def _blocks(self, pairs: np.ndarray) -> Iterator[slice]:
        """Yield slices of pairs whose arrays stay below a size limit; slices with many neighbours are shorter."""
        stored = np.diff(self.features.indptr) if sp.issparse(self.features) else None
        widest = max(self.sketch.shape[1], self.embedding.shape[1], self.probabilities.shape[1])
        read = np.where(self._with_hub(pairs), self.degree[pairs].min(axis=0), self.degree[pairs].sum(axis=0))
        cost = (read + 2 * widest).astype(np.int64)
        cost += self.features.shape[1] if stored is None else stored[pairs].sum(axis=0)
        blocks = np.cumsum(cost) // NUMBERS_AT_A_TIME
        bounds = [*np.flatnonzero(np.diff(blocks, prepend=-1)).tolist(), len(blocks)]
        for start, stop in pairwise(bounds):
            yield slice(start, stop)


def adjacency_of(graph: Graph) -> sp.csr_matrix:
    """Return the symmetric adjacency matrix, ones for edges, float32."""
    first, second = graph.edges
    places = np.concatenate([first, second]), np.concatenate([second, first])
    ones = np.ones(2 * graph.num_edges, dtype=np.float32)
    return sp.csr_matrix((ones, places), shape=(graph.num_nodes, graph.num_nodes))


def edge_numbers(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return one number per edge, the same for both of its directions, [E]."""
    lower, higher = np.sort(edges, axis=0).astype(np.int64)
    return lower * num_nodes + higher


def random_non_edges(graph: Graph, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return about `count` different node pairs without an edge, drawn uniformly, [2, n]; fewer if there are few."""
    taken = np.sort(edge_numbers(graph.edges, graph.num_nodes))
    found = np.empty(0, dtype=np.int64)
    for _ in range(20):  # a graph with few non-edges returns those found in 20 draws
        drawn = rng.integers(0, graph.num_nodes, (2, 2 * count))
        numbers = edge_numbers(drawn[:, drawn[0] != drawn[1]], graph.num_nodes)
        found = np.unique(np.concatenate([found, numbers[~_among(numbers, taken)]]))
        if len(found) >= count:
            break
    chosen = rng.permutation(found)[:count]
    return np.stack([chosen // graph.num_nodes, chosen % graph.num_nodes])


def _among(numbers: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Return whether each number is in the sorted array ``taken``."""
    at = np.minimum(np.searchsorted(taken, numbers), len(taken) - 1)
    return np.asarray(taken[at] == numbers)


def _cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each pair of rows; 0 if one of them is zero."""
    first, second = np.asarray(first, dtype=np.float32), np.asarray(second, dtype=np.float32)
    lengths = np.sqrt(_products(first, first)) * np.sqrt(_products(second, second))
    if not np.isfinite(lengths).all():  # squares overflow in single precision
        return _products(unit_rows(first), unit_rows(second))
    return np.divide(_products(first, second), lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _products(first: Any, second: Any) -> np.ndarray:
    """Return the inner product of each pair of rows."""
    if sp.issparse(first):
        return np.asarray(first.multiply(second).sum(axis=1), dtype=np.float32).ravel()
    return np.einsum("ij,ij->i", first, second)
