"""What class probabilities say about edges, beside the evidence in rows and structure."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

ROUNDS = 5  # in which homophily is estimated anew from the trust that it led to
LEAST = 1e-4  # probability


def with_opinions(keep: np.ndarray, edges: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    r"""Return keep probabilities after hearing what class the two ends of each edge are likely to have, [E].

    Right edges join nodes of one class at the rate h, the homophily, and random pairs at the rate r that follows from
    the shares of the classes. If the ends have one class with probability s, the odds of an edge are multiplied by

    .. math:: s \frac{h}{r} + (1 - s) \frac{1 - h}{1 - r}.

    The homophily is that of the edges as far as they are trusted. Where it is that of random pairs, as in many
    heterophilous graphs, nothing changes.

    Args:
        keep: keep probability of each edge so far, [E].
        edges: undirected edges, [2, E].
        probabilities: of the classes of each node, formed from its row alone, [N, C].
    """
    if not len(keep):
        return keep
    same = agreement(probabilities, edges).astype(np.float64)
    by_chance = np.clip((probabilities.mean(axis=0, dtype=np.float64) ** 2).sum(), LEAST, 1 - LEAST)
    before, found = logit(np.clip(keep.astype(np.float64), LEAST, 1 - LEAST)), keep.astype(np.float64)
    for _ in range(ROUNDS):
        homophily = np.clip(np.average(same, weights=np.maximum(found, LEAST)), LEAST, 1 - LEAST)
        odds = same * homophily / by_chance + (1 - same) * (1 - homophily) / (1 - by_chance)
        found = expit(before + np.log(odds))
    return found.astype(np.float32)


def agreement(probabilities: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The chance that the two ends of each edge draw the same class from their probabilities, [E]."""
    return np.einsum("ij,ij->i", probabilities[edges[0]], probabilities[edges[1]])
