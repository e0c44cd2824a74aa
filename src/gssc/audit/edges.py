"""Which edges to doubt: those that look like pairs drawn at random, and those the sparsifier would drop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from gssc.audit.findings import Ranking
from gssc.audit.logistic import fit_logistic, log_odds
from gssc.audit.pairs import MEASURES, PairEvidence, random_non_edges
from gssc.graph import Graph

FOLDS = 5
MOST_FITTED = 100_000  # edges, and as many non-edges: more would not change a handful of weights
FEWEST_FITTED = 20

Step = Callable[[str], None]


def doubt_edges(
    graph: Graph, evidence: PairEvidence, keep_probability: np.ndarray | None, seed: int = 0
) -> tuple[Ranking, list[str]]:
    r"""Every edge with a score from 0 (trusted) to 1 (doubted), and notes on how the scores came about.

    .. math:: s_{ij} = 1 - \pi_{ij} M_{ij}

    :math:`\pi` is the chance that a pair with this evidence is an edge of the graph and not a pair drawn at random,
    as many of one kind as of the other: a logistic regression on :data:`gssc.audit.pairs.MEASURES` says so. Nobody has
    to know which edges are wrong, and wrong edges among those it learns from only make it a little less sure. An edge
    is scored by a regression that was fitted without it. M is the sparsifier's keep probability where there is one,
    else 1. The model's own agreement about the two ends is shown but takes no part: training on an edge raises it.

    Args:
        graph: its edges are scored.
        evidence: measures of pairs, of the same graph.
        keep_probability: of each edge, NaN where the sparsifier never saw it, [E]; None if there is none at all.
        seed: of the random pairs and of what is left out when.
    """
    measured = evidence.measure(graph.edges, are_edges=True)
    rng = np.random.default_rng(seed)
    others = random_non_edges(graph, min(graph.num_edges, MOST_FITTED), rng)
    notes = []
    if min(graph.num_edges, others.shape[1]) < FEWEST_FITTED:
        notes.append("too few edges, or pairs without one, to learn what an edge looks like: the model's agreement is")
        notes[0] += " used in its place"
        likely = measured["agreement"].astype(np.float64)
    else:
        likely = expit(-_held_out_odds(_inputs(measured), _inputs(evidence.measure(others, are_edges=False)), rng))
    if keep_probability is not None:
        trusted = np.where(np.isnan(keep_probability), 1, keep_probability)
        measured = {**measured, "keep_probability": keep_probability}
    else:
        trusted = np.ones(graph.num_edges)
    score = np.clip(1 - likely * trusted, 0, 1)
    return Ranking.of(graph.edges.T, score, {"looks_like_edge": likely, **measured}), notes


def _inputs(measured: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([measured[name] for name in MEASURES], axis=1).astype(np.float64)


def _held_out_odds(edges: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Log odds of each edge being a random pair, by a regression that did not see this edge, [E]."""
    both = np.concatenate([edges, others])
    spread = both.std(axis=0)
    middle, scale = both.mean(axis=0), np.where(spread > 0, spread, 1)
    edges, others = (edges - middle) / scale, (others - middle) / scale
    fold_of_edge, fold_of_other = (rng.permutation(len(kind)) % FOLDS for kind in (edges, others))
    odds = np.empty(len(edges))
    for fold in range(FOLDS):
        seen = np.flatnonzero(fold_of_edge != fold)
        seen = seen if len(seen) <= MOST_FITTED else rng.choice(seen, MOST_FITTED, replace=False)
        pairs = others[fold_of_other != fold]
        targets = np.concatenate([np.zeros(len(seen)), np.ones(len(pairs))])
        weights = fit_logistic(np.concatenate([edges[seen], pairs]), targets)
        # As many of one kind as of the other, whatever the numbers it was fitted to.
        weights[0] -= np.log(len(pairs) / len(seen))
        odds[fold_of_edge == fold] = log_odds(edges[fold_of_edge == fold], weights)
    return odds
