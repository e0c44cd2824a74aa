"""Trust in labels: changed ones get less weight, clean ones keep theirs."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from gssc.trust.labels import label_trust


def clusters(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three well separated classes in ten dimensions."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    return (4 * np.eye(3, 10)[labels] + rng.standard_normal((count, 10))).astype(np.float32), labels


def test_wrong_labels_are_found():
    rows, labels = clusters(150, 0)
    given = np.where(np.arange(150) % 5 == 0, (labels + 1) % 3, labels)
    trust = label_trust(rows, given, *clusters(120, 1), 3)
    assert roc_auc_score(given == labels, trust.keep) > 0.95
    assert abs(trust.noise_share - 0.2) < 0.08


def test_clean_labels_keep_their_weight():
    trust = label_trust(*clusters(150, 0), *clusters(120, 1), 3)
    assert trust.noise_share < 0.03
    assert trust.keep.mean() > 0.97


def test_without_witnesses_every_label_is_believed():
    rows, labels = clusters(150, 0)
    trust = label_trust(rows, labels, rows[:10], labels[:10], 3)
    assert (trust.keep == 1).all()
