"""GLNN's student: the loss by hand, label weight, batches, no edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from gssc.features import SparseRows
from gssc.models.base import TrainingGraph
from gssc.models.glnn import GLNN
from gssc.tasks import Classes

TASK = Classes(2)

NO_EDGES = torch.empty(2, 0, dtype=torch.int64)
ROWS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
LABELS, TRAIN = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 3])
TEACHER = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 3.0]])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def student(**settings: float) -> GLNN:
    torch.manual_seed(0)
    model = GLNN(3, 2, **{"hidden": 4, "dropout": 0.0, **settings})  # type: ignore[arg-type]
    model.learn_from(TEACHER)
    return model


def test_agreeing_with_the_teacher_costs_nothing() -> None:
    model = student()
    model.learn_from(model(ROWS).detach())
    (loss,) = model.losses(TrainingGraph(ROWS, NO_EDGES, None, LABELS, TRAIN, TASK), rng())
    assert torch.isclose(loss, torch.zeros(()), atol=1e-6)


def test_the_loss_by_hand() -> None:
    model = student(label_weight=0.25)
    (loss,) = model.losses(TrainingGraph(ROWS, NO_EDGES, None, LABELS, TRAIN, TASK), rng())
    answers, target = model(ROWS).log_softmax(1), TEACHER.softmax(1)
    divergence = (target * (target.log() - answers)).sum(1).mean()
    taught = F.cross_entropy(model(ROWS)[TRAIN], LABELS[TRAIN])
    assert torch.isclose(loss, 0.25 * taught + 0.75 * divergence)


def test_without_label_weight_labels_do_not_matter() -> None:
    (loss,) = student().losses(TrainingGraph(ROWS, NO_EDGES, None, LABELS, TRAIN, TASK), rng())
    (other,) = student().losses(TrainingGraph(ROWS, NO_EDGES, None, 1 - LABELS, TRAIN, TASK), rng())
    assert torch.equal(loss, other)


def test_batches_cover_all_nodes() -> None:
    model = student(batch_size=2)
    losses = list(model.losses(TrainingGraph(ROWS, NO_EDGES, None, LABELS, TRAIN, TASK), rng()))
    (whole,) = student().losses(TrainingGraph(ROWS, NO_EDGES, None, LABELS, TRAIN, TASK), rng())
    assert len(losses) == 2
    torch.testing.assert_close(torch.stack(losses).mean(), whole)


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("layers", [1, 3])
def test_sparse_rows_give_the_same(layers: int, norm: str) -> None:
    model = student(layers=layers, norm=norm).eval()  # type: ignore[arg-type]
    torch.testing.assert_close(model(SparseRows(sp.csr_matrix(ROWS.numpy()))), model(ROWS))


def test_without_a_teacher_it_cannot_learn() -> None:
    with pytest.raises(AssertionError, match="learn_from"):
        next(iter(GLNN(3, 2).losses(TrainingGraph(ROWS, NO_EDGES, None, LABELS, TRAIN, TASK), rng())))
