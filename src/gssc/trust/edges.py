"""Trust in edges: keep probabilities from features and structure, without labels and without the edge itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gssc.graph import Graph
from gssc.trust.logistic import fit_logistic, log_odds
from gssc.trust.pairs import MEASURES, PairEvidence, random_non_edges
from gssc.trust.sketch import feature_sketch

FOLDS = 5
MOST_FITTED = 100_000  # maximum number of edges, and of non-edges; more would hardly change the few weights
FEWEST_FITTED = 20  # edges and random pairs; with fewer, every edge is kept
LEAST = 1e-3  # lowest keep probability, so that no edge is excluded completely
FULL = 0.9  # quantile of given edge weights from which an edge counts fully
QUANTILES = (0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class EdgeTrust:
    """Trust in the edges of a graph.

    Args:
        keep: probability that each edge is not a random pair, [E].
        noise_share: estimated share of random pairs among the edges.
        log_odds: log odds of each edge against a random pair, by a regression fitted without the edge, [E].
    """

    keep: np.ndarray
    noise_share: float
    log_odds: np.ndarray


def edge_trust(graph: Graph, seed: int = 0) -> EdgeTrust:
    r"""Return the keep probability of every edge of a graph.

    .. math:: p_{ij} = 1 - \varepsilon \, \frac{f_0(e_{ij})}{f(e_{ij})}

    e is the evidence of :class:`~gssc.trust.pairs.PairEvidence`, f its density among the edges, f_0 among random pairs
    of nodes; a logistic regression estimates the ratio (:func:`held_out_log_odds`). :math:`\varepsilon` is the share of
    random pairs among the edges (:func:`noise_share`). This is the local false discovery rate of multiple testing: on a
    clean graph :math:`\varepsilon` is small and nearly every edge is kept, and the noisier the graph, the more evidence
    an edge needs. If there are too few edges to compare, all are kept.

    Args:
        graph: features and edges; labels are not used.
        seed: seed of the random pairs and of the folds of the regression.
    """
    rng = np.random.default_rng(seed)
    others = random_non_edges(graph, min(graph.num_edges, MOST_FITTED), rng) if graph.num_edges else graph.edges
    if min(graph.num_edges, others.shape[1]) < FEWEST_FITTED:
        return everything_kept(graph)
    sketch = feature_sketch(graph.features, seed=seed)
    evidence = PairEvidence(graph, sketch, sketch, np.zeros((graph.num_nodes, 1), np.float32))
    edges = as_inputs(evidence.measure(graph.edges, are_edges=True))
    odds, null = held_out_log_odds(edges, as_inputs(evidence.measure(others, are_edges=False)), rng)
    share = noise_share(odds, null)
    keep = np.clip(1 - share * np.exp(np.clip(-odds, -50, 50)), LEAST, 1)
    return EdgeTrust(keep.astype(np.float32), share, odds)


def everything_kept(graph: Graph) -> EdgeTrust:
    """Return trust that keeps every edge, for graphs whose edges are not judged."""
    return EdgeTrust(np.ones(graph.num_edges, np.float32), 0.0, np.zeros(graph.num_edges))


def weighed(trust: EdgeTrust, weight: np.ndarray | None) -> EdgeTrust:
    """Return the trust with keep probabilities multiplied by the given edge weights, relative to the full weight."""
    if weight is None or not len(weight):
        return trust
    return replace(trust, keep=times_weight(trust.keep, weight, full_weight(weight)))


def times_weight(keep: np.ndarray, weight: np.ndarray, full: float) -> np.ndarray:
    """Return keep probabilities times edge weights relative to the full weight; greater weights count as full."""
    return np.clip(keep * np.minimum(weight / full, 1), LEAST, 1).astype(np.float32)


def full_weight(weight: np.ndarray) -> float:
    """Return the weight from which an edge counts fully: a tenth of the edges or fewer have a greater one.

    Relative to the largest weight, a single very large one would make all other edges count for nothing.

    >>> full_weight(np.array([1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1e6]))
    1.0
    """
    return float(np.quantile(weight, FULL, method="higher"))


def as_inputs(measured: dict[str, np.ndarray]) -> np.ndarray:
    """Return the measures that the regression uses as columns, [P, measures]."""
    return np.stack([measured[name] for name in MEASURES], axis=1).astype(np.float64)


def held_out_log_odds(edges: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return cross-validated log odds of being an edge rather than a random pair, for edges [E] and pairs [P].

    Edges and random pairs have equal total weight, whatever their numbers.

    Args:
        edges: measures of the edges, [E, k].
        others: measures of random pairs, [P, k].
        rng: for the folds.
    """
    both = np.concatenate([edges, others])
    spread = both.std(axis=0)
    middle, scale = both.mean(axis=0), np.where(spread > 0, spread, 1)
    edges, others = (edges - middle) / scale, (others - middle) / scale
    fold_of_edge, fold_of_other = (rng.permutation(len(kind)) % FOLDS for kind in (edges, others))
    of_edges, of_others = np.empty(len(edges)), np.empty(len(others))
    for fold in range(FOLDS):
        seen = np.flatnonzero(fold_of_edge != fold)
        seen = seen if len(seen) <= MOST_FITTED else rng.choice(seen, MOST_FITTED, replace=False)
        pairs = others[fold_of_other != fold]
        targets = np.concatenate([np.zeros(len(seen)), np.ones(len(pairs))])
        weights = fit_logistic(np.concatenate([edges[seen], pairs]), targets)
        weights[0] -= np.log(len(pairs) / len(seen))
        of_edges[fold_of_edge == fold] = -log_odds(edges[fold_of_edge == fold], weights)
        of_others[fold_of_other == fold] = -log_odds(others[fold_of_other == fold], weights)
    return of_edges, of_others


def noise_share(edges: np.ndarray, others: np.ndarray) -> float:
    r"""Return the estimated share of random pairs among the edges, from the log odds of edges and random pairs.

    .. math:: \hat\varepsilon = \min_q \frac{P(\text{edge below the } q\text{-quantile of random pairs})}{q}

    Hardly any true edge has lower log odds than most random pairs. So the edges below the q-quantile are nearly all
    random pairs, and make up a share q of the random pairs among the edges. The estimate is at most 1.

    >>> noise_share(np.array([0.5, 9, 9, 9]), np.arange(11.0))  # a quarter of the edges is below each quantile
    0.5
    """
    return float(min(1.0, *((edges < np.quantile(others, q)).mean() / q for q in QUANTILES)))
