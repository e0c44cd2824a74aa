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
TELLS = 2  # standard errors between right labels and other classes; with less the evidence cannot tell them apart
NOT_CHANCE = 1.5  # standard errors; a share of wrong labels that is smaller counts as zero
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
    on witnesses, nodes whose labels are trusted, such as validation nodes, with the same regressions and weighted such
    that their class shares are those of the labels. The share of wrong labels, :math:`\varepsilon`, is chosen such that
    the mean evidence of the labels is the corresponding mixture of the two, but zero if it does not exceed its standard
    error by half. So clean labels keep their weight, and so do all labels if the evidence cannot tell right labels from
    wrong ones. This is the counterpart of :func:`gssc.trust.edges.edge_trust` for labels.

    With too few witnesses or labels, every label is trusted, and so is the only label of a class: no regression without
    it knows the class.

    Args:
        rows: rows of the labelled nodes, averaged over trusted edges if there are any, [n, d].
        labels: their classes, [n].
        witness_rows: rows of the witnesses, [m, d].
        witness_labels: their classes, [m].
        classes: number of classes C.
        seed: seed of the folds and of the random classes.
    """
    judged = np.bincount(labels, minlength=classes)[labels] > 1
    if len(witness_labels) < FEWEST_WITNESSES or judged.sum() < FOLDS or classes < 2:
        return LabelTrust(np.ones(len(labels), np.float32), 0.0)
    margin, right, wrong = _margins(rows, labels, witness_rows, witness_labels, classes, np.random.default_rng(seed))
    evidence = np.concatenate([right.ravel(), wrong.ravel()])
    scale = max(float(evidence.std()), 1e-12)
    weights = fit_logistic(evidence[:, None] / scale, np.repeat([1.0, 0.0], right.size))
    odds = log_odds(margin[:, None] / scale, weights)
    of_right, of_wrong = (expit(weights[0] + weights[1] * m / scale).mean(axis=0) for m in (right, wrong))
    weight = with_shares_of(witness_labels, labels[judged], classes)
    share = share_of_wrong(expit(odds[judged]), of_right, of_wrong, weight)
    likely = (1 - share) * np.exp(np.clip(odds, -50, 50))
    keep = np.where(judged, np.clip(likely / np.maximum(likely + share, 1e-30), LEAST, 1), 1)
    return LabelTrust(keep.astype(np.float32), share)


def _margins(
    rows: np.ndarray,
    labels: np.ndarray,
    witness_rows: np.ndarray,
    witness_labels: np.ndarray,
    classes: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the margin of each label by the regression without its fold, and those of the witnesses by all of them.

    Those of the witnesses are of their labels and of random other classes, [FOLDS, m] each. Folds are stratified by
    class: otherwise the class of a held-out label would be rarer than usual among the others.
    """
    order = rng.permutation(len(labels))
    folds = np.empty(len(labels), dtype=np.int64)
    folds[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(labels)) % FOLDS
    others = (witness_labels + rng.integers(1, classes, len(witness_labels))) % classes
    margin, right, wrong = np.empty(len(labels)), [], []
    for fold in range(FOLDS):
        out = folds == fold
        scores = regression_scores(rows[~out], labels[~out], classes, np.concatenate([rows[out], witness_rows]))
        margin[out] = -margins(scores[: out.sum()], labels[out])
        right.append(-margins(scores[out.sum() :], witness_labels))
        wrong.append(-margins(scores[out.sum() :], others))
    return margin, np.stack(right), np.stack(wrong)


def with_shares_of(witness_labels: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Return weights of the witnesses that give their classes the shares of the labels' classes; they sum to one, [m].

    >>> with_shares_of(np.array([0, 1, 1]), np.array([0, 1]), 2).tolist()
    [0.5, 0.25, 0.25]
    """
    wanted, found = (np.bincount(given, minlength=classes) / len(given) for given in (labels, witness_labels))
    weight = (wanted / np.maximum(found, 1e-12))[witness_labels]
    return np.asarray(weight / weight.sum() if weight.any() else np.full(len(weight), 1 / len(weight)))


def share_of_wrong(given: np.ndarray, right: np.ndarray, wrong: np.ndarray, weight: np.ndarray) -> float:
    """Return the estimated share of wrong labels; zero if it may be chance, or if the evidence cannot tell.

    Args:
        given: evidence for each label, between 0 and 1, [n].
        right: the same for the labels of the witnesses, [m].
        wrong: for random other classes of the witnesses, [m].
        weight: weights of the witnesses, which sum to one, [m].
    """
    high, low = weight @ right, weight @ wrong
    error = np.sqrt(given.var() / len(given) + weight**2 @ (right - high) ** 2)
    if high <= low or high - low < TELLS * error or high - given.mean() < NOT_CHANCE * error:
        return 0.0
    return float(min((high - given.mean()) / (high - low), 1))
