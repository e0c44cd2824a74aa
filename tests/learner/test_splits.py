"""Students whose first layer starts at the splits of trees."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gssc.learner.splits import STEEPNESS, start_at_splits, tree_splits
from gssc.learner.student import StudentTraining, student_variants
from gssc.models.settings import GsscSettings
from gssc.models.student import Student, StudentSettings, all_logits


def steps_in_one_column(count: int = 200, width: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose class depends on whether column 3 is above 0.25, and on nothing else."""
    rows = np.random.default_rng(0).uniform(-1, 1, (count, width)).astype(np.float32)
    return rows, np.eye(2, dtype=np.float32)[(rows[:, 3] > 0.25).astype(int)]


def test_one_threshold_is_one_split() -> None:
    rows = np.array([[0, 9], [1, 9], [2, 9], [3, 9]] * 5, dtype=np.float32)
    columns, thresholds, gains = tree_splits(rows, np.eye(2)[(rows[:, 0] > 1.5).astype(int)], seed=0)
    assert (columns == 0).all()
    assert ((thresholds > 1) & (thresholds < 2)).mean() > 0.9  # a bootstrap sample may lack the rows next to it
    assert (gains > 0).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_units_are_zero_at_their_thresholds(sparse: bool) -> None:
    rows, soft = steps_in_one_column()
    model = Student(30, 2, StudentSettings(hidden=16, splits=0.5), input_scale=0.25)
    others = model.first.weight.data[:, 8:].clone()
    start_at_splits(model, sp.csr_matrix(rows) if sparse else rows, soft, 0.5, seed=0)
    weight, bias = (model.first.weight.data * model.input_scale).numpy(), model.first.bias.data.numpy()
    assert (np.count_nonzero(weight[:, :8], axis=0) == 1).all()
    assert torch.equal(model.first.weight.data[:, 8:], others)
    column = np.abs(weight[:, :8]).argmax(axis=0)
    slope = weight[column, np.arange(8)]
    assert np.allclose(np.abs(slope), STEEPNESS / rows.std(axis=0)[column], rtol=1e-4)
    at_three = -bias[:8][column == 3] / slope[column == 3]
    assert len(at_three) >= 4
    assert np.abs(at_three - 0.25).min() < 0.05


def test_a_teacher_that_is_the_same_everywhere_leaves_the_student_as_it_was() -> None:
    rows, _ = steps_in_one_column(20)
    model = Student(30, 2, StudentSettings(hidden=8))
    before = model.first.weight.data.clone()
    start_at_splits(model, rows, np.full((20, 2), 0.5, dtype=np.float32), 0.5, seed=0)
    assert torch.equal(model.first.weight.data, before)


def test_few_rows_suffice_for_a_threshold_among_many_columns() -> None:
    rows, soft = steps_in_one_column(2000)
    kind = student_variants(GsscSettings(), 200, 30)["plain"]
    right = {}
    for splits in (0.0, kind.splits):
        settings = StudentSettings(**{**vars(kind), "splits": splits})
        training = StudentTraining(rows[:200], soft[:200], np.arange(200), settings, seed=0)
        for _ in training.run():
            pass
        predicted = all_logits(training.model, rows[200:]).argmax(axis=1)
        right[splits] = (predicted == soft[200:].argmax(axis=1)).mean()
    assert right[kind.splits] > right[0.0] + 0.03
