"""Corrections of opinions that mistake classes, by hand and on made confusions."""

from __future__ import annotations

import numpy as np

from gssc.learner.correction import corrected, fit_confusion, fit_shares, gain, on_one_scale


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
    found = corrected(mistaken, fit_confusion(mistaken, truth))
    assert (found.argmax(axis=1) == truth).mean() == 1.0


def test_few_labels_hardly_move_it():
    logs = sure(np.array([0, 1]), 2)
    assert np.abs(fit_confusion(logs, np.array([1, 0])) - np.eye(2, 3)).max() < 0.5


def test_it_gains_where_classes_are_mistaken_and_not_where_they_are_right():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 400)
    seen = np.where(rng.random(400) < 0.75, truth, rng.integers(0, 4, 400))  # right in about four of five cases
    flat = np.full(400, -np.log(4))
    gained, error = gain(fit_confusion, sure((seen + 1) % 4, 4), truth, flat, rng)
    assert gained > 5 * error
    usual = sure(seen, 4)[np.arange(400), truth]
    gained, error = gain(fit_confusion, sure(seen, 4), truth, usual, rng)
    assert gained < error


def test_opinions_are_put_on_one_scale():
    rng = np.random.default_rng(2)
    logs = rng.standard_normal((100, 3))
    views = [np.exp(factor * logs) / np.exp(factor * logs).sum(axis=1, keepdims=True) for factor in (0.01, 1.0)]
    flat, sharp = (on_one_scale(view, np.arange(100)) for view in views)
    assert np.allclose(flat, sharp, atol=0.01)


def test_shares_by_hand():
    """Every opinion is undecided, and three labels of four are of the first class.

    The biases are b and -b, so the first class gets p = sigmoid(2 b), and the slope of the loss by b is 4 p - 3 + 5 b.
    """
    found = fit_shares(np.log(np.full((4, 2), 0.5)), np.array([0, 0, 0, 1]))
    bias = found[1]
    assert np.allclose(found, [1, bias, -bias], atol=1e-4)
    assert abs(4 / (1 + np.exp(-2 * bias)) - 3 + 5 * bias) < 1e-3


def test_shares_of_classes_are_found_where_a_matrix_would_overfit():
    """Opinions for equal shares; one of ten classes is far more frequent than the others. 100 labels."""
    rng = np.random.default_rng(3)
    truth = np.where(rng.random(3000) < 0.6, 0, rng.integers(0, 10, 3000))
    logs = np.eye(10)[truth] * 2 + rng.standard_normal((3000, 10))
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    few, rest = np.arange(100), np.arange(100, 3000)

    def likely(correction: np.ndarray) -> float:
        return float(np.log(corrected(logs[rest], correction)[np.arange(2900), truth[rest]]).mean())

    unchanged, shares, matrix = (
        likely(fit) for fit in (np.eye(10, 11), *(fit(logs[few], truth[few]) for fit in (fit_shares, fit_confusion)))
    )
    assert shares > unchanged + 0.1
    assert shares > matrix
    gained, error = gain(fit_shares, logs[few], truth[few], logs[few, truth[few]], rng)
    assert gained > error
