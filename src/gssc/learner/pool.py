"""The pool of opinions, and the ensemble of the best of them that students learn from.

An opinion is a teacher's class probabilities of every node, one array per view of the jury. The jury holds the held-out
labels that rank opinions; see :mod:`gssc.learner.jury`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax

from gssc.learner.jury import MANY, TINY, Jury, normalized
from gssc.trust.opinions import agreement
from gssc.trust.spreading import NEARLY_ALL, spread, walk_matrix

Views = tuple[np.ndarray, ...]  # an opinion: probabilities of all nodes, [N, C], in each view of the jury

STEPS = (2, 5)  # numbers of steps by which an opinion is averaged over the graph
KEPT = 12  # best opinions that stay in the pool when it is pruned
MOST_NUMBERS = 1 << 27  # values in the pool, half a gigabyte; a larger pool is pruned between teachers
DRAWS = 200  # of the Bayesian bootstrap over the judging labels
LEAST_WEIGHT = 1e-3  # relative to the largest weight; opinions with less are left out of the teacher


class Pool:
    """Opinions of several teachers, calibrated and ranked by held-out labels.

    Args:
        jury: the held-out labels that rank opinions.
        edges: undirected edges that opinions may be averaged over, [2, E].
        keep: keep probability of each edge, [E].
        num_nodes: number of nodes.

    Attributes:
        opinions: calibrated opinions by name.
        merits: ranking key of each, see :meth:`Jury.merit`.
        scores: held-out score of every opinion ever added, pruned ones included.
    """

    def __init__(self, jury: Jury, edges: np.ndarray, keep: np.ndarray, num_nodes: int):
        self.jury, self.edges, self.keep, self.num_nodes = jury, edges, keep, num_nodes
        self.opinions: dict[str, Views] = {}
        self.merits: dict[str, tuple[float, float]] = {}
        self.scores: dict[str, float] = {}

    def add(self, name: str, views: Views) -> None:
        """Calibrate an opinion on the held-out labels and add it."""
        calibrated = self.jury.calibrated(views)
        self.opinions[name], self.merits[name] = calibrated, self.jury.merit(calibrated)
        self.scores[name] = self.jury.score(calibrated)

    def add_spread(self, name: str) -> None:
        """Add averages of an opinion over edges, weighted equally, by trust, and by trust and agreement."""
        if not self.edges.shape[1]:
            return
        views = self.opinions[name]
        agreeing = [walk_matrix(self.edges, self.keep * agreement(view, self.edges), self.num_nodes) for view in views]
        kinds = {"trust": [self.trusted] * len(views), "agreement": agreeing}
        if self.keep.mean() < NEARLY_ALL:
            kinds["edges"] = [self.equal] * len(views)
        for how, walks in kinds.items():
            for steps in STEPS:
                over = tuple(normalized(spread(view, walk, steps)) for view, walk in zip(views, walks, strict=True))
                self.add(f"{name} over {how}, {steps} steps", over)

    @cached_property
    def trusted(self) -> sp.csr_matrix:
        """Normalised adjacency with edges weighted by trust."""
        return walk_matrix(self.edges, self.keep, self.num_nodes)

    @cached_property
    def equal(self) -> sp.csr_matrix:
        """Normalised adjacency with edges weighted equally."""
        return walk_matrix(self.edges, np.ones_like(self.keep), self.num_nodes)

    def add_products(self, name: str, partners: list[str]) -> None:
        """Add the geometric mean of an opinion with each partner in the pool."""
        for partner in partners:
            if partner != name:
                self.add(f"{name} x {partner}", geometric_mean([self.opinions[name], self.opinions[partner]]))

    def recalibrate(self) -> None:
        """Calibrate every opinion again, after the decision whether opinions are corrected."""
        for name, views in self.opinions.items():
            self.add(name, views)

    def best(self, count: int) -> list[str]:
        """Return the names of the best opinions, best first."""
        return sorted(self.opinions, key=lambda name: self.merits[name], reverse=True)[:count]

    def teacher(self, count: int) -> Views:
        """Return the soft labels for students: a mean of opinions, see :meth:`weights` and :meth:`team`, calibrated."""
        if len(self.jury.truth) < MANY:
            return self.jury.tempered(weighted_mean([(self.opinions[name], w) for name, w in self.weights().items()]))
        return self.jury.tempered(geometric_mean([self.opinions[name] for name in self.team(count)]))

    def weights(self) -> dict[str, float]:
        r"""Return the weight of every opinion, from the likelihood of the judging labels; used with few labels.

        .. math:: w_k = \mathrm{mean}_b \,
            \frac{\exp \sum_i v_{bi} \log p_k(y_i)}{\sum_l \exp \sum_i v_{bi} \log p_l(y_i)}

        This is pseudo-BMA with a Bayesian bootstrap (pseudo-BMA+, Yao et al. 2018). Each draw b gives the n labels
        random weights v, which sum to n. An opinion that is ahead because of a few labels loses its lead in many draws,
        so the fewer labels there are, the more evenly the weight is shared.
        """
        if not len(self.jury.truth):  # equal weights, for opinions that use the graph if there are any
            return dict.fromkeys([name for name in self.opinions if uses_edges(name)] or self.opinions, 1.0)
        likely = np.stack([self.jury.likelihoods(views) for views in self.opinions.values()])  # [opinions, labels]
        count = likely.shape[1]
        draws = count * np.random.default_rng(0).dirichlet(np.ones(count), DRAWS)
        found = softmax(draws @ likely.T, axis=1).mean(axis=0)
        least = LEAST_WEIGHT * found.max()
        return {name: float(weight) for name, weight in zip(self.opinions, found, strict=True) if weight > least}

    def team(self, count: int) -> list[str]:
        """Return the names of the opinions whose mean is the teacher; with many labels, a name may occur repeatedly.

        With few labels these are all opinions with a weight (:meth:`weights`). With many they are chosen by ensemble
        selection (Caruana et al. 2004): opinions are added one at a time, with replacement, always the one that lowers
        the held-out loss of the mean most. This favours opinions that err on different nodes.
        """
        if len(self.jury.truth) < MANY:
            return list(self.weights())
        best = self.best(len(self.opinions))
        logs = {name: np.log(self.jury.judged(self.opinions[name]) + TINY) for name in best}
        chosen = [best[0]]
        total = logs[best[0]].copy()
        while len(chosen) < 2 * count:
            losses = {name: self.jury.loss_of_logits((total + log) / (len(chosen) + 1)) for name, log in logs.items()}
            name = min(losses, key=lambda name: losses[name])
            chosen.append(name)
            total += logs[name]
        return chosen

    def prune(self, count: int) -> None:
        """Remove all opinions but the best and those that the teacher is the mean of."""
        kept = dict.fromkeys([*self.best(KEPT), *self.team(count)])
        self.opinions = {name: self.opinions[name] for name in kept}
        self.merits = {name: self.merits[name] for name in kept}

    def prune_if_large(self, count: int) -> None:
        """Prune the pool if its opinions take much memory, because of many nodes, classes or views."""
        if sum(numbers_of(views) for views in self.opinions.values()) > MOST_NUMBERS:
            self.prune(count)

    def clear(self) -> None:
        """Remove all opinions, and the scores of earlier ones."""
        for kept in (self.opinions, self.merits, self.scores):
            kept.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return the opinions as tensors."""
        return {name: [torch.from_numpy(view) for view in views] for name, views in self.opinions.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`."""
        self.opinions = {name: tuple(view.numpy() for view in views) for name, views in state.items()}
        self.merits = {name: self.jury.merit(views) for name, views in self.opinions.items()}


def numbers_of(views: Views) -> int:
    """Return the number of values of an opinion, over all views."""
    return sum(view.size for view in views)


def uses_edges(name: str) -> bool:
    """Return whether the opinion of this name was computed with edges."""
    return " edges" in name or " structure" in name


def geometric_mean(opinions: list[Views]) -> Views:
    """Return the normalised geometric mean of opinions, view by view.

    >>> (view,) = geometric_mean([(np.array([[0.9, 0.1]]),), (np.array([[0.1, 0.9]]),)])
    >>> view.round(3).tolist()
    [[0.5, 0.5]]
    """
    return tuple(
        normalized(np.exp(sum(np.log(view + TINY) for view in views) / len(views)))
        for views in zip(*opinions, strict=True)
    )


def weighted_mean(opinions: list[tuple[Views, float]]) -> Views:
    """Return the weighted arithmetic mean of opinions, view by view.

    >>> (view,) = weighted_mean([((np.array([[0.9, 0.1]]),), 3.0), ((np.array([[0.1, 0.9]]),), 1.0)])
    >>> np.allclose(view, [[0.7, 0.3]])
    True
    """
    total = sum(weight for _, weight in opinions)
    every = zip(*(views for views, _ in opinions), strict=True)
    return tuple(
        normalized(sum(view * (weight / total) for view, (_, weight) in zip(views, opinions, strict=True)))
        for views in every
    )


def runner_up(views: Views) -> Views:
    """Return the opinion without the most likely class of each node, normalised again.

    If most labels of a class were changed to one other class, averages over neighbours favour the wrong class, and the
    right one comes second. Held-out labels show whether this is the case.

    >>> runner_up((np.array([[0.6, 0.3, 0.1]]),))[0].round(2).tolist()
    [[0.0, 0.75, 0.25]]
    """
    without = []
    for view in views:
        rest = view.copy()
        rest[np.arange(len(view)), view.argmax(axis=1)] = 0
        without.append(normalized(rest))
    return tuple(without)
