"""The pool of opinions, and the teacher made of the best of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

from gssc.learner.jury import MANY, TINY, Jury, normalized
from gssc.learner.spreading import NEARLY_ALL, spread, walk_matrix

Views = tuple[np.ndarray, ...]  # probabilities of all nodes, [N, C], in each view of the jury

STEPS = (2, 5)  # of averaging an opinion over the graph
KEPT = 12  # opinions that stay in the pool from one round to the next
NEAR = 1.5  # standard errors by which the opinion of another kind of teacher may be worse than the best


class Pool:
    """Class probabilities of every node by several teachers, ranked by held-out labels.

    Args:
        jury: the held-out labels that rank opinions.
        edges: undirected edges that opinions may be averaged over, [2, E].
        keep: keep probability of each edge, [E].
        num_nodes: number of nodes.
    """

    def __init__(self, jury: Jury, edges: np.ndarray, keep: np.ndarray, num_nodes: int):
        self.jury, self.edges, self.keep, self.num_nodes = jury, edges, keep, num_nodes
        self.opinions: dict[str, Views] = {}
        self.merits: dict[str, tuple[float, float]] = {}

    def add(self, name: str, views: Views) -> None:
        """Add an opinion, calibrated by the held-out labels."""
        calibrated = self.jury.calibrated(views)
        self.opinions[name], self.merits[name] = calibrated, self.jury.merit(calibrated)

    def add_spread(self, name: str) -> None:
        """Add averages of an opinion over edges, weighted equally, by trust, and by trust and agreement."""
        if not self.edges.shape[1]:
            return
        views = self.opinions[name]
        trusted = walk_matrix(self.edges, self.keep, self.num_nodes)
        agreeing = [walk_matrix(self.edges, self.keep * agreement(view, self.edges), self.num_nodes) for view in views]
        kinds = {"trust": [trusted] * len(views), "agreement": agreeing}
        if self.keep.mean() < NEARLY_ALL:
            kinds["edges"] = [walk_matrix(self.edges, np.ones_like(self.keep), self.num_nodes)] * len(views)
        for how, walks in kinds.items():
            for steps in STEPS:
                over = tuple(normalized(spread(view, walk, steps)) for view, walk in zip(views, walks, strict=True))
                self.add(f"{name} over {how}, {steps} steps", over)

    def add_products(self, name: str, partners: list[str]) -> None:
        """Add the geometric means of an opinion with others of the pool."""
        for partner in partners:
            if partner != name:
                self.add(f"{name} x {partner}", geometric_mean([self.opinions[name], self.opinions[partner]]))

    def recalibrate(self) -> None:
        """Calibrate every opinion again, after the jury decided to correct them."""
        for name, views in self.opinions.items():
            self.add(name, views)

    def best(self, count: int) -> list[str]:
        """Names of the best opinions, best first."""
        return sorted(self.opinions, key=lambda name: self.merits[name], reverse=True)[:count]

    def teacher(self, count: int) -> Views:
        """The geometric mean of opinions that do best together."""
        return self.jury.tempered(geometric_mean([self.opinions[name] for name in self.team(count)]))

    def team(self, count: int) -> list[str]:
        """Names of the opinions whose mean is the teacher, some of them twice.

        Few labels: the best opinion of each kind of teacher, because the best of all is partly lucky. Many: ensemble
        selection (Caruana et al. 2004), which adds, one at a time and with replacement, the opinion that lowers the
        held-out loss of the mean most, so that ones that err on different nodes come together.
        """
        best = self.best(len(self.opinions))
        if len(self.jury.truth) < MANY:
            return self._best_of_families(count)
        logs = {name: np.log(self.jury.judged(self.opinions[name]) + TINY) for name in best}
        chosen = [best[0]]
        total = logs[best[0]].copy()
        while len(chosen) < 2 * count:
            losses = {name: self.jury.loss_of_logits((total + log) / (len(chosen) + 1)) for name, log in logs.items()}
            name = min(losses, key=lambda name: losses[name])
            chosen.append(name)
            total += logs[name]
        return chosen

    def _best_of_families(self, count: int) -> list[str]:
        """The best opinion of each kind of teacher, as far as its score is near that of the best."""
        best = self.best(len(self.opinions))
        leading = self.jury.score(self.opinions[best[0]])
        least = leading - NEAR * max(self.jury.standard_error(leading), 1 / max(len(self.jury.truth), 1))
        chosen: dict[str, str] = {}
        for name in best:
            if not self.jury.score(self.opinions[name]) < least:  # without judging labels both are NaN
                chosen.setdefault(family(name), name)
        return list(chosen.values())[:count]

    def prune(self, count: int) -> None:
        """Remove all but the best opinions and those that make up the next teacher."""
        kept = dict.fromkeys([*self.best(KEPT), *self.team(count)])
        self.opinions = {name: self.opinions[name] for name in kept}
        self.merits = {name: self.merits[name] for name in kept}

    def state_dict(self) -> dict[str, Any]:
        """The opinions, as tensors."""
        return {name: [torch.from_numpy(view) for view in views] for name, views in self.opinions.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of :meth:`state_dict`."""
        self.opinions = {name: tuple(view.numpy() for view in views) for name, views in state.items()}
        self.merits = {name: self.jury.merit(views) for name, views in self.opinions.items()}


def geometric_mean(opinions: list[Views]) -> Views:
    """Normalised geometric mean of opinions, view by view.

    >>> (view,) = geometric_mean([(np.array([[0.9, 0.1]]),), (np.array([[0.1, 0.9]]),)])
    >>> view.round(3).tolist()
    [[0.5, 0.5]]
    """
    return tuple(
        normalized(np.exp(sum(np.log(view + TINY) for view in views) / len(views)))
        for views in zip(*opinions, strict=True)
    )


def runner_up(views: Views) -> Views:
    """The opinion that the second most likely class is the right one.

    Where most labels of a class were moved to one other class, neighbourhoods give most of their votes to the wrong
    class and the rest to the right one. The jury finds out whether that is so.

    >>> runner_up((np.array([[0.6, 0.3, 0.1]]),))[0].round(2).tolist()
    [[0.0, 0.75, 0.25]]
    """
    without = []
    for view in views:
        rest = view.copy()
        rest[np.arange(len(view)), view.argmax(axis=1)] = 0
        without.append(normalized(rest))
    return tuple(without)


def agreement(view: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The chance that the two ends of each edge draw the same class from their probabilities, [E]."""
    return np.einsum("ij,ij->i", view[edges[0]], view[edges[1]])


def family(name: str) -> str:
    """The kind of teacher that an opinion comes from.

    >>> family("regression, C=10 on rows"), family("forest on rows over trust, 2 steps")
    ('regression', 'forest')
    """
    return re.split(r",| on | over ", name, maxsplit=1)[0]
