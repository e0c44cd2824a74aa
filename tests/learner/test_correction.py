"""Corrections of opinions that mistake classes, by hand and on made confusions."""

from __future__ import annotations

import numpy as np

from gssc.learner.correction import corrected, fit_correction, gain, on_one_scale


def sure(labels: np.ndarray, classes: int, share: float = 0.8) -> np.ndarray:
    """Log-probabilities that give a label this share and the others the rest."""
    probabilities = np.full((len(labels), classes), (1 - share) / (classes - 1))
    probabilities[np.arange(len(labels)), labels] = share
    return np.log(probabilities)


def test_the_identity_changes_nothing():
    logs = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]))
    assert np.allclose(corrected(logs, np.eye(3, 4)), np.exp(logs), atol=1e-6)


def test_a_correction_by_hand():
    """The first class gets a bias of log 3: odds of 1 to 1 become 3 to 1."""
    correction = np.array([[1.0, 0.0, np.log(3)], [0.0, 1.0, 0.0]])
    assert np.allclose(corrected(np.log([[0.5, 0.5]]), correction), [[0.75, 0.25]])


def test_swapped_classes_are_swapped_back():
    truth = np.random.default_rng(0).integers(0, 3, 300)
    mistaken = sure((truth + 1) % 3, 3)
    found = corrected(mistaken, fit_correction(mistaken, truth))
    assert (found.argmax(axis=1) == truth).mean() == 1.0


def test_few_labels_hardly_move_it():
    logs = sure(np.array([0, 1]), 2)
    assert np.abs(fit_correction(logs, np.array([1, 0])) - np.eye(2, 3)).max() < 0.5


def test_it_gains_where_classes_are_mistaken_and_not_where_they_are_right():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 400)
    seen = np.where(rng.random(400) < 0.75, truth, rng.integers(0, 4, 400))  # right in about four of five cases
    flat = np.full(400, -np.log(4))
    gained, error = gain(sure((seen + 1) % 4, 4), truth, flat, rng)
    assert gained > 5 * error
    usual = sure(seen, 4)[np.arange(400), truth]
    gained, error = gain(sure(seen, 4), truth, usual, rng)
    assert gained < error


def test_opinions_are_put_on_one_scale():
    rng = np.random.default_rng(2)
    logs = rng.standard_normal((100, 3))
    views = [np.exp(factor * logs) / np.exp(factor * logs).sum(axis=1, keepdims=True) for factor in (0.01, 1.0)]
    flat, sharp = (on_one_scale(view, np.arange(100)) for view in views)
    assert np.allclose(flat, sharp, atol=0.01)
