from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.trust.class_means import held_out_probabilities, margins, probabilities_by_means
from gssc.trust.spreading import normalized_adjacency, spread


def test_spreading_by_hand() -> None:
    # Two joined nodes: A-hat has one half everywhere, so after one step both carry 0.9 of the mean, and keep doing so.
    adjacency = sp.csr_matrix(np.array([[0, 1], [1, 0]], dtype=np.float32))
    found = spread(np.array([[1.0], [0.0]], dtype=np.float32), normalized_adjacency(adjacency))
    np.testing.assert_allclose(found, [[0.9 * 0.5 + 0.1], [0.9 * 0.5]], atol=1e-6)


def test_a_node_without_neighbours_keeps_its_row() -> None:
    rows = np.array([[2.0, -1.0]], dtype=np.float32)
    np.testing.assert_allclose(
        spread(rows, normalized_adjacency(sp.csr_matrix((1, 1), dtype=np.float32))), rows, atol=1e-6
    )


def test_a_wrong_label_is_found_by_the_others() -> None:
    rows = np.array([[1, 0], [1, 0.1], [1, -0.1], [0, 1], [0.1, 1], [-0.1, 1]])
    labels = np.array([0, 0, 1, 1, 1, 1])  # the third looks like the first two
    found = held_out_probabilities(rows, labels, 2)
    assert found.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_a_label_is_not_evidence_for_itself() -> None:
    rows = np.array([[1.0, 0], [0, 1], [0, 1], [1, 0]])
    # The two rows of a class are at right angles: left out, the one has nothing in common with the other (cosine 0),
    # and at 45 degrees to the sum of the other class. No label fits, so the cosines are as blunt as can be.
    found = held_out_probabilities(rows, np.array([0, 0, 1, 1]), 2)
    against = 1 / (1 + np.exp(np.sqrt(0.5)))
    np.testing.assert_allclose(found[np.arange(4), [0, 0, 1, 1]], against, atol=1e-6)


def test_the_only_member_of_a_class_is_not_judged() -> None:
    rows = np.array([[1.0, 0], [0, 1], [0.1, 1]])
    np.testing.assert_allclose(held_out_probabilities(rows, np.array([0, 1, 1]), 2)[0], 0.5)


def test_classes_nobody_has_are_least_likely() -> None:
    rows = np.array([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1]])
    found = held_out_probabilities(rows, np.array([0, 0, 2, 2]), 3)
    assert (found[:, 1] < found.max(axis=1)).all()


def test_means_of_other_rows() -> None:
    others, memberships = np.array([[2.0, 0], [0, 3]]), np.array([[1.0, 0], [0, 1]])
    found = probabilities_by_means(np.array([[1.0, 0], [0, 1]]), np.array([0, 1]), others, memberships)
    assert found[0, 0] == pytest.approx(found[1, 1])
    assert found[0, 0] > 0.99, "labels that fit make it sharp"
    unsure = probabilities_by_means(np.array([[1.0, 0], [0, 1]]), np.array([1, 0]), others, memberships)
    assert unsure[0, 0] == pytest.approx(1 / (1 + np.exp(-1))), "labels that do not fit leave it as blunt as can be"


def test_margins_with_one_class_only() -> None:
    assert margins(np.array([[1.0]]), np.array([0])).tolist() == [-np.inf]
