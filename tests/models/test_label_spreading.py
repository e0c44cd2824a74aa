"""Label spreading: the fixed point by hand, nodes that no label reaches, missing classes, weights."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose

from gssc.models.label_spreading import LabelSpreading

PATH = sp.csr_matrix(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]], dtype=np.float64))


def test_a_path_converges_to_the_solution_of_the_equation() -> None:
    labels, alpha = np.array([0, -1, -1, 1]), 0.9
    degree = np.array([1, 2, 2, 1]) ** -0.5
    near = degree[:, None] * PATH.toarray() * degree
    target = np.array([[1, 0], [0, 0], [0, 0], [0, 1]])
    solved = np.linalg.solve(np.eye(4) - alpha * near, (1 - alpha) * target)
    found = LabelSpreading(alpha).scores(PATH, labels, 2)
    assert_allclose(found, solved / solved.sum(1, keepdims=True), atol=1e-3)
    assert found.argmax(1).tolist() == [0, 0, 1, 1]


def test_a_node_no_label_reaches_gets_the_class_shares() -> None:
    lonely = sp.block_diag([PATH, sp.csr_matrix((1, 1))]).tocsr()
    found = LabelSpreading().scores(lonely, np.array([0, 0, -1, 1, -1]), 2)
    assert_allclose(found[4], [2 / 3, 1 / 3])


def test_a_class_without_label_gets_nothing() -> None:
    found = LabelSpreading().scores(PATH, np.array([0, -1, -1, 2]), 4)
    assert (found[:, [1, 3]] == 0).all()
    assert_allclose(found.sum(1), 1)


def test_a_heavier_edge_carries_more() -> None:
    star = np.array([[0, 1, 3.0], [1, 0, 0], [3, 0, 0]])
    found = LabelSpreading().scores(sp.csr_matrix(star), np.array([-1, 0, 1]), 2)
    assert found[0, 1] > found[0, 0]


def test_too_few_rounds_are_no_warning() -> None:
    assert LabelSpreading(0.99, max_iter=1).scores(PATH, np.array([0, -1, -1, 1]), 2).shape == (4, 2)
