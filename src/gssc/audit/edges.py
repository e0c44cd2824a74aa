"""Ranks edges by doubt: those that look like random pairs, and those with a low keep probability."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from gssc.audit.findings import Ranking
from gssc.graph import Graph
from gssc.trust.edges import FEWEST_FITTED, MOST_FITTED, as_inputs, held_out_log_odds
from gssc.trust.logistic import fit_logistic, log_odds
from gssc.trust.pairs import PairEvidence, random_non_edges

KEEP_RANGE = 1e-4, 1 - 1e-4  # keep probabilities are clipped to it, so that their log odds are finite


def doubt_edges(
    graph: Graph, evidence: PairEvidence, keep_probability: np.ndarray | None, seed: int = 0, keep_counts: bool = True
) -> tuple[Ranking, list[str]]:
    r"""Return every edge with a score from 0 (trusted) to 1 (doubted), and notes on how the scores were computed.

    .. math:: s_{ij} = 1 - \sigma \left( \mathrm{logit}\, \pi_{ij} + \mathrm{logit}\, c(M_{ij})
        - \mathrm{logit}\, \bar\pi \right)

    :math:`\pi` is the probability that a pair with this evidence is an edge of the graph and not a random pair, from a
    logistic regression on :data:`gssc.trust.pairs.MEASURES` that is fitted to the edges and as many random pairs. It
    needs no known wrong edges; wrong edges among those it is fitted to only make it a little less certain. An edge is
    scored by a regression that was fitted without it.

    M is the sparsifier's keep probability. It exists for edges only, so it cannot be compared with that of random
    pairs. It counts as far as it agrees with the other evidence: :math:`c(M)` is the :math:`\pi` expected for an edge
    with this M, from another regression, and :math:`\bar\pi` the mean. A sparsifier that keeps all edges equally
    changes nothing. The model's own agreement on the two ends is shown but not used, because training on an edge
    raises it.

    Args:
        graph: its edges are scored.
        evidence: measures of pairs, of the same graph.
        keep_probability: keep probability of each edge, [E], NaN for edges that were not in training; None if unknown.
        seed: seed of the random pairs and of the folds.
        keep_counts: whether the keep probability counts; it is only shown if it was derived from the same evidence.
    """
    measured = evidence.measure(graph.edges, are_edges=True)
    if keep_probability is not None:
        measured["keep_probability"] = keep_probability
    rng = np.random.default_rng(seed)
    others = random_non_edges(graph, min(graph.num_edges, MOST_FITTED), rng)
    if min(graph.num_edges, others.shape[1]) < FEWEST_FITTED:
        note = "too few edges, or pairs without one, to learn what an edge looks like: scored by the model's agreement"
        return Ranking.of(graph.edges.T, 1 - measured["agreement"].astype(np.float64), measured), [note]
    odds, _ = held_out_log_odds(as_inputs(measured), as_inputs(evidence.measure(others, are_edges=False)), rng)
    measured = {"looks_like_edge": expit(odds), **measured}
    if keep_probability is not None and keep_counts:
        odds = odds + keep_shift(keep_probability, measured["looks_like_edge"])
    return Ranking.of(graph.edges.T, expit(-odds), measured), []


def keep_shift(keep_probability: np.ndarray, looks_like_edge: np.ndarray) -> np.ndarray:
    """Return the sparsifier's contribution to the log odds of each edge, [E]; 0 for edges it was not trained on."""
    shift = np.zeros(len(keep_probability))
    known = np.flatnonzero(~np.isnan(keep_probability))
    trust = logit(np.clip(keep_probability[known].astype(np.float64), *KEEP_RANGE))
    spread = trust.std() if len(known) else 0.0
    if len(known) < FEWEST_FITTED or spread < 1e-6:  # all the same except for rounding
        return shift
    inputs, wanted = ((trust - trust.mean()) / spread)[:, None], looks_like_edge[known]
    shift[known] = log_odds(inputs, fit_logistic(inputs, wanted)) - logit(wanted.mean())
    return shift
