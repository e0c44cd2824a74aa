"""The students: settings by the data, and a ridge regression for rows that training does not see."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gssc.data import load_dataset
from gssc.learner.learner import LearnerTraining
from gssc.learner.settings import Config
from gssc.learner.student import StudentTraining, student_variants
from gssc.models.settings import GsscSettings
from gssc.models.student import Student, StudentSettings


def test_without_hidden_layers_a_student_is_a_linear_map() -> None:
    student = Student(3, 2, StudentSettings(layers=0, batch_norm=False), input_scale=2.0).eval()
    ((weight, bias),) = student.folded_layers()
    rows = torch.tensor([[1.0, -1.0, 0.5]])
    np.testing.assert_allclose(student(rows).detach().numpy(), rows.numpy() @ weight.T + bias, rtol=1e-6)
    assert weight.shape == (2, 3)


def test_a_ridge_regression_is_tried_where_rows_judge_that_it_did_not_learn_from() -> None:
    assert "ridge" not in student_variants(GsscSettings(), 1000, 20)
    ridge = student_variants(GsscSettings(), 1000, 20, judged=True)["ridge"]
    assert (ridge.layers, ridge.steps) == (0, 0)
    for setting, tried in (("transductive", False), ("cold-start", True)):
        graph = load_dataset("csbm", nodes=400, seed=0).with_(setting=setting)
        assert ("ridge" in LearnerTraining(graph, Config()).students.settings) == tried


@pytest.mark.parametrize("kind", [np.array, sp.csr_matrix])
def test_a_column_without_values_has_no_weight(kind) -> None:
    rows = kind(np.array([[1, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=np.float32))
    soft = np.eye(2, dtype=np.float32)[[0, 1, 1]]
    student = StudentTraining(rows, soft, np.array([0, 1]), StudentSettings(hidden=4, steps=5, weight_decay=0.0), 0)
    list(student.run())
    (weight, _), *_ = student.model.folded_layers()
    assert (weight[:, 2] == 0).all()
    assert (weight[:, :2] != 0).any(axis=0).all()
