"""Trust in training labels: the probability that each is right, from predictions made without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gssc.trust.class_means import margins
from gssc.trust.logistic import fit_logistic, log_odds
from gssc.trust.regression import regression_scores

FOLDS = 5
FEWEST_WITNESSES = 50  # nodes with trusted labels; with fewer, every label is trusted
LEAST = 1e-3  # lowest weight, so that no label is excluded completely


@dataclass(frozen=True)
class LabelTrust:
    """Trust in training labels.

    Args:
        keep: probability that each label is right, [n].
        noise_share: estimated share of wrong labels.
    """

    keep: np.ndarray
    noise_share: float


def label_trust(
    rows: np.ndarray,
    labels: np.ndarray,
    witness_rows: np.ndarray,
    witness_labels: np.ndarray,
    classes: int,
    seed: int = 0,
) -> LabelTrust:
    r"""Return the probability that each label is right.

    .. math:: p_i = \frac{(1 - \varepsilon) f_1(m_i)}{(1 - \varepsilon) f_1(m_i) + \varepsilon f_0(m_i)}

    m is the margin of the label over the best other class in the scores of a ridge regression fitted without the label.
    The distributions of margins for right labels (:math:`f_1`) and for random other classes (:math:`f_0`) are estimated
    on witnesses, nodes whose labels are trusted, such as validation nodes. The share of wrong labels,
    :math:`\varepsilon`, is chosen such that the mean evidence of the labels is the corresponding mixture of the two.
    With clean labels it is near zero and every label keeps its weight. This is the counterpart of
    :func:`gssc.trust.edges.edge_trust` for labels.

    With too few witnesses or labels, every label is trusted.

    Args:
        rows: rows of the labelled nodes, averaged over trusted edges if there are any, [n, d].
        labels: their classes, [n].
        witness_rows: rows of the witnesses, [m, d].
        witness_labels: their classes, [m].
        classes: number of classes C.
        seed: seed of the folds and of the random classes.
    """
    if len(witness_labels) < FEWEST_WITNESSES or len(labels) < FOLDS or classes < 2:
        return LabelTrust(np.ones(len(labels), np.float32), 0.0)
    rng = np.random.default_rng(seed)
    scores, of_witnesses = np.empty((len(labels), classes)), np.zeros((len(witness_labels), classes))
    folds = rng.permutation(len(labels)) % FOLDS
    for fold in range(FOLDS):
        out = folds == fold
        found = regression_scores(rows[~out], labels[~out], classes, np.concatenate([rows[out], witness_rows]))
        scores[out] = found[: out.sum()]
        of_witnesses += found[out.sum() :] / FOLDS
    others = (witness_labels + rng.integers(1, classes, len(witness_labels))) % classes
    right, wrong = -margins(of_witnesses, witness_labels), -margins(of_witnesses, others)
    evidence = np.concatenate([right, wrong])
    scale = max(float(evidence.std()), 1e-12)
    weights = fit_logistic(evidence[:, None] / scale, np.repeat([1.0, 0.0], len(right)))
    odds, odds_right, odds_wrong = (
        log_odds(m[:, None] / scale, weights) for m in (-margins(scores, labels), right, wrong)
    )
    low, high = expit(odds_wrong).mean(), expit(odds_right).mean()
    share = float(np.clip((high - expit(odds).mean()) / max(high - low, 1e-12), 0, 1))
    likely = (1 - share) * np.exp(np.clip(odds, -50, 50))
    keep = np.clip(likely / np.maximum(likely + share, 1e-30), LEAST, 1)
    return LabelTrust(keep.astype(np.float32), share)
