"""Ranks training labels by doubt: those that estimates made without them contradict."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from gssc.audit.findings import Ranking
from gssc.trust.class_means import held_out_probabilities, margins, probabilities_by_means
from gssc.trust.regression import held_out_by_regression
from gssc.trust.spreading import normalized_adjacency, spread

LEAST = 1e-9  # lower bound of probabilities, so that one estimate alone cannot rule a class out


def doubt_labels(
    nodes: np.ndarray,
    labels: np.ndarray,
    adjacency: sp.csr_matrix,
    sketch: np.ndarray,
    probabilities: np.ndarray,
    witnesses: tuple[np.ndarray, np.ndarray] | None = None,
) -> Ranking:
    r"""Return every training label with a score from 0 (trusted) to 1 (doubted).

    .. math:: s_i = \frac{\max_{c \ne y_i} \bar p_{ic}}{\max_{c \ne y_i} \bar p_{ic} + \bar p_{i y_i}},
        \quad \bar p = \sqrt[3]{p^{(1)} p^{(2)} p^{(3)}}

    the probability of the best other class, given that it is either that class or the label, by three estimates that
    count equally. All use the node's features, averaged over the graph:

    ``held_out``
        class means of the labelled nodes, this one left out; see
        :func:`gssc.trust.class_means.held_out_probabilities`
    ``regression``
        a regression on the labelled nodes, this one left out; see
        :func:`gssc.trust.regression.held_out_by_regression`
    ``model_classes``
        class means of the other nodes, by the classes the model predicts

    Two more are shown but not used, because training on the label has moved them towards it, right or wrong:

    ``neighbourhood``
        mean of the model's probabilities over the node's neighbours
    ``model``
        the model's probabilities of the node

    Args:
        nodes: training nodes, [n].
        labels: their class numbers, [n].
        adjacency: adjacency matrix of the whole graph.
        sketch: short feature rows of all nodes.
        probabilities: probabilities of the model, all nodes, [N, C].
        witnesses: other nodes whose class is known, and their class numbers: used as evidence, not ranked.
    """
    classes, rows = probabilities.shape[1], spread(sketch, normalized_adjacency(adjacency))
    known, classes_known = nodes, labels
    if witnesses is not None:
        known, classes_known = np.concatenate([nodes, witnesses[0]]), np.concatenate([labels, witnesses[1]])
    used = {
        "held_out": held_out_probabilities(rows[known], classes_known, classes)[: len(nodes)],
        "regression": held_out_by_regression(rows[known], classes_known, classes)[: len(nodes)],
    }
    if len(nodes) < len(rows):
        of_others = probabilities.copy()
        of_others[nodes] = 0
        used["model_classes"] = probabilities_by_means(rows[nodes], labels, rows, of_others)
    logs = np.mean([np.log(np.maximum(opinion, LEAST)) for opinion in used.values()], axis=0)
    rest = logs.copy()
    rest[np.arange(len(nodes)), labels] = -np.inf
    shown = {"neighbourhood": neighbours_mean(probabilities, adjacency, nodes), "model": probabilities[nodes]}
    given = {name: opinion[np.arange(len(nodes)), labels] for name, opinion in {**used, **shown}.items()}
    evidence = {"label": labels, "suggested": rest.argmax(axis=1), **given}
    return Ranking.of(nodes[:, None], expit(margins(logs, labels)), evidence)


def doubt_targets(
    nodes: np.ndarray, targets: np.ndarray, adjacency: sp.csr_matrix, probabilities: np.ndarray
) -> Ranking:
    """Rank nodes by the mean distance of their known targets [n, T] from the predictions of model and neighbourhood."""
    known = ~np.isnan(targets)
    counts = np.maximum(known.sum(axis=1), 1)
    opinions = {"neighbourhood": neighbours_mean(probabilities, adjacency, nodes), "model": probabilities[nodes]}
    distance = {
        name: np.where(known, np.abs(np.nan_to_num(targets) - opinion), 0).sum(axis=1) / counts
        for name, opinion in opinions.items()
    }
    evidence = {name: 1 - values for name, values in distance.items()}
    return Ranking.of(nodes[:, None], np.mean(list(distance.values()), axis=0), evidence)


def neighbours_mean(values: np.ndarray, adjacency: sp.csr_matrix, nodes: np.ndarray) -> np.ndarray:
    """Return the mean of values over each node's neighbours, [n, C]; without any, the mean over all nodes."""
    degree = np.diff(adjacency.indptr)[nodes]
    sums = np.asarray(adjacency[nodes] @ values, dtype=np.float64)
    mean = values.mean(axis=0, dtype=np.float64)
    return np.where(degree[:, None] > 0, sums / np.maximum(degree, 1)[:, None], mean)
