"""Trust in labels: changed ones get less weight, clean ones keep theirs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gssc.trust.labels import label_trust, share_of_wrong


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


def test_labels_are_believed_if_rows_do_not_tell_the_classes():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, labels = rng.standard_normal((400, 10)).astype(np.float32), rng.integers(0, 5, 400)
        trust = label_trust(rows[:100], labels[:100], rows[100:], labels[100:], 5)
        assert trust.noise_share < 0.1
        assert trust.keep.mean() > 0.9


@pytest.mark.parametrize("wrong", [0.0, 0.3])
@pytest.mark.parametrize("only", [3, 10])
def test_the_only_label_of_a_class_is_believed(only, wrong):
    """Of ten classes, some or all have one label, which a regression without it cannot support."""
    rng = np.random.default_rng(0)
    labels, witnesses = np.concatenate([np.repeat(np.arange(only, 10), 20), np.arange(only)]), np.arange(200) % 10
    rows, seen = (4 * np.eye(10)[given] + 0.5 * rng.standard_normal((len(given), 10)) for given in (labels, witnesses))
    changed = rng.random(len(labels) - only) < wrong
    labels[:-only][changed] = 9
    trust = label_trust(rows, labels, seen, witnesses, 10)
    assert (trust.keep[-only:] == 1).all()
    assert (trust.noise_share > 0.1) == changed.any()


def test_two_labels_of_a_class_are_never_held_out_together():
    """If they were, nothing would support either of them."""
    rng = np.random.default_rng(0)
    labels, witnesses = np.repeat(np.arange(10), 2), np.arange(200) % 10
    rows, seen = (4 * np.eye(10)[given] + 0.5 * rng.standard_normal((len(given), 10)) for given in (labels, witnesses))
    for seed in range(5):
        assert label_trust(rows, labels, seen, witnesses, 10, seed).keep.min() > 0.9


def test_the_shares_of_classes_among_witnesses_do_not_matter():
    """Class 0 is hard to recognise, most of the labels are of it, and few of the witnesses."""
    rng = np.random.default_rng(0)
    labels, witnesses = np.repeat([0, 1, 2], [200, 50, 50]), np.repeat([0, 1, 2], [40, 200, 200])
    rows, seen = (
        np.diag([1.0, 4.0, 4.0])[given] + rng.standard_normal((len(given), 3)) for given in (labels, witnesses)
    )
    assert label_trust(rows, labels, seen, witnesses, 3).noise_share < 0.03


def test_the_share_of_wrong_labels_by_hand():
    right, wrong, weight = np.full(100, 0.9), np.full(100, 0.1), np.full(100, 0.01)
    given = np.repeat([0.9, 0.1], [80, 20])  # mean 0.74, standard error 0.032
    assert share_of_wrong(given, right, wrong, weight) == pytest.approx((0.9 - 0.74) / 0.8)
    assert share_of_wrong(given[16:], right, wrong, weight) > 0
    few = np.repeat([0.9, 0.1], [98, 2])  # mean 0.884, standard error 0.011: may be chance
    assert share_of_wrong(few, right, wrong, weight) == 0
    assert share_of_wrong(right, right, wrong, weight) == 0
    assert share_of_wrong(given, wrong, wrong, weight) == 0  # nothing tells right labels from others
