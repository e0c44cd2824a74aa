"""Trust in edges updated by class probabilities: odds by hand, and what must not change."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gssc.data import load_dataset
from gssc.data.noise import add_noise
from gssc.learner.settings import Config
from gssc.result import fit
from gssc.trust.opinions import with_opinions

SURE = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])


def test_odds_by_hand() -> None:
    """Two edges within classes and one across; classes are equal, so random pairs agree half of the time."""
    edges = np.array([[0, 2, 1], [1, 3, 2]])
    keep = with_opinions(np.array([0.5, 0.5, 0.5], dtype=np.float32), edges, SURE)
    homophily = 2 * keep[0] / (2 * keep[0] + keep[2])  # what the rounds have come to
    assert keep[0] == keep[1]
    assert keep[0] / (1 - keep[0]) == pytest.approx(homophily / 0.5, rel=0.02)
    assert keep[2] / (1 - keep[2]) == pytest.approx((1 - homophily) / 0.5, rel=0.1)


def test_nothing_changes_where_edges_agree_as_random_pairs_do() -> None:
    edges = np.array([[0, 1], [1, 2]])
    keep = with_opinions(np.array([0.8, 0.8], dtype=np.float32), edges, SURE)
    assert keep == pytest.approx([0.8, 0.8], abs=1e-3)
    undecided = np.full((4, 2), 0.5)
    assert with_opinions(np.array([0.3, 0.9], dtype=np.float32), edges, undecided) == pytest.approx(
        [0.3, 0.9], abs=1e-3
    )


def test_no_edges_and_one_class() -> None:
    assert with_opinions(np.empty(0, np.float32), np.empty((2, 0), np.int64), SURE).shape == (0,)
    keep = with_opinions(np.array([0.7], dtype=np.float32), np.array([[0], [1]]), np.ones((2, 1)))
    assert keep == pytest.approx([0.7], abs=1e-3)


def test_the_trust_that_is_reported_finds_wrong_edges_better_than_evidence_alone() -> None:
    clean = load_dataset("csbm", nodes=600, homophily=0.9, signal=1.0, seed=1)
    noisy, _ = add_noise(clean, label="none", structure="random:0.3", features="none", seed=0)
    config = Config()
    config.teachers.pairs, config.teachers.trees, config.teachers.rounds = "never", False, 1
    result = fit(noisy, config)
    right = {tuple(pair) for pair in np.sort(clean.edges, axis=0).T.tolist()}
    edges, keep = result.edge_trust()
    known = [tuple(pair) in right for pair in np.sort(edges, axis=0).T.tolist()]
    evidence = result.training.trust.keep  # type: ignore[attr-defined]
    assert roc_auc_score(known, keep) > roc_auc_score(known, evidence) + 0.02
