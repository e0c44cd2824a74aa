"""Trust in edges updated by opinions, in addition to the evidence in rows and structure.

An opinion is the class probabilities that a model predicts for every node.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

ROUNDS = 5  # iterations: homophily is estimated from the trust, and the trust from homophily
LEAST = 1e-4  # lowest probability
EDGES_AT_A_TIME = 65_536


def with_opinions(keep: np.ndarray, edges: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    r"""Return keep probabilities updated by the predicted classes of the two ends of each edge, [E].

    The ends of a right edge have the same class at a rate h, the homophily, and those of a random pair at a rate r that
    follows from the shares of the classes. If the ends have the same class with probability s, the odds of the edge are
    multiplied by

    .. math:: s \frac{h}{r} + (1 - s) \frac{1 - h}{1 - r}.

    The homophily is the mean of s over the edges, weighted by trust. If h equals r, as in many heterophilous graphs,
    nothing changes.

    Args:
        keep: keep probability of each edge so far, [E].
        edges: undirected edges, [2, E].
        probabilities: class probabilities of each node, predicted from its row alone, [N, C].
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
    """Return the probability that the two ends of each edge have the same class, if drawn independently, [E]."""
    found = np.empty(edges.shape[1], dtype=probabilities.dtype)
    for start in range(0, len(found), EDGES_AT_A_TIME):
        first, second = edges[:, start : start + EDGES_AT_A_TIME]
        found[start : start + EDGES_AT_A_TIME] = np.einsum("ij,ij->i", probabilities[first], probabilities[second])
    return found
