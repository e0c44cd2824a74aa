"""Each kind of task by hand: loss, metric, agreement, decoding, and what is unknown."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
import torch

from gssc.data import csbm
from gssc.tasks import Classes, MultiLabel, Regression, Task

NAN = float("nan")
TASKS = {
    "classes": (Classes(2), torch.tensor([0, -1, 1])),
    "multilabel": (MultiLabel(2), torch.tensor([[1.0, NAN], [NAN, NAN], [0.0, 1.0]])),
    "regression": (Regression(2), torch.tensor([[1.0, NAN], [NAN, NAN], [0.0, 1.0]])),
}
LOGITS = torch.tensor([[2.0, 0.0], [9.0, 9.0], [1.0, 1.0]])
# log(1 + e^-2) and log 2; then three binary losses; then squared errors 1, 1 and 0.
LOSSES = {
    "classes": (log(1 + exp(-2)) + log(2)) / 2,
    "multilabel": (log(1 + exp(-2)) + log(1 + exp(1)) + log(1 + exp(-1))) / 3,
    "regression": 2 / 3,
}


@pytest.mark.parametrize("name", TASKS)
def test_loss_by_hand_over_known_targets(name: str) -> None:
    task, targets = TASKS[name]
    assert task.loss(LOGITS, targets).item() == pytest.approx(LOSSES[name], rel=1e-6)
    assert task.log_loss(LOGITS.numpy(), targets.numpy()) == pytest.approx(LOSSES[name], rel=1e-6)


@pytest.mark.parametrize("name", TASKS)
def test_nothing_known_costs_nothing_and_scores_nothing(name: str) -> None:
    task, _ = TASKS[name]
    logits, unknown = LOGITS.clone().requires_grad_(), task.unknown(3)
    assert not task.known(unknown).any()
    assert not task.known(unknown.numpy()).any()
    loss = task.loss(logits, unknown)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad.abs().sum() == 0
    assert np.isnan(task.score(LOGITS.numpy(), unknown.numpy()))
    assert np.isnan(task.log_loss(LOGITS.numpy(), unknown.numpy()))


def test_class_weights_count_by_class() -> None:
    # Weights 3 and 1: (3 log(1 + e^-2) + log 2) / 4.
    found = Classes(2).loss(LOGITS, torch.tensor([0, -1, 1]), torch.tensor([3.0, 1.0]))
    assert found.item() == pytest.approx((3 * log(1 + exp(-2)) + log(2)) / 4, rel=1e-6)


def test_loss_towards_soft_targets_by_hand() -> None:
    # Logits 0, 0 give log 2 whatever the soft label is; (log 3, 0) gives probabilities 0.75, 0.25.
    logits, soft = torch.tensor([[0.0, 0.0], [log(3.0), 0.0]]), torch.tensor([[0.3, 0.7], [0.5, 0.5]])
    by_hand = (log(2) - 0.5 * log(0.75) - 0.5 * log(0.25)) / 2
    assert Classes(2).soft_loss(logits, soft).item() == pytest.approx(by_hand, abs=1e-6)
    assert MultiLabel(2).soft_loss(logits[:1], soft[:1]).item() == pytest.approx(log(2), abs=1e-6)
    assert Regression(2).soft_loss(logits[:1], soft[:1]).item() == pytest.approx((0.09 + 0.49) / 2, abs=1e-6)


def test_agreement_by_hand() -> None:
    first, second = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 2])
    logits = torch.tensor([[1.0, -1.0, 2.0, -2.0], [1.0, 1.0, 2.0, -2.0], [-1.0, -1.0, -1.0, 1.0]])
    # Signs: 0 and 1 differ in target 1; 0 and 2 agree in target 1 alone; 1 and 2 agree nowhere.
    assert MultiLabel(4).agreement(logits, first, second).tolist() == [0.75, 0.25, 0]
    # Largest: column 2, column 2, column 3.
    assert Classes(4).agreement(logits, first, second).tolist() == [1, 0, 0]
    # 0 and 1 differ by 2 in one of four columns: exp(-1).
    assert Regression(4).agreement(logits, first, second)[0].item() == pytest.approx(exp(-1))


@pytest.mark.parametrize("name", ["classes", "multilabel"])
def test_agreement_carries_no_gradient(name: str) -> None:
    task, _ = TASKS[name]
    assert not task.agreement(LOGITS.clone().requires_grad_(), torch.tensor([0]), torch.tensor([1])).requires_grad


def test_known_targets_replace_soft_ones() -> None:
    soft = torch.tensor([[0.4, 0.6], [0.3, 0.7], [0.5, 0.5]])
    assert torch.equal(TASKS["classes"][0].with_known(soft, TASKS["classes"][1])[[0, 2]], torch.eye(2))
    put_in = TASKS["multilabel"][0].with_known(soft, TASKS["multilabel"][1])
    assert torch.equal(put_in, torch.tensor([[1.0, 0.6], [0.3, 0.7], [0.0, 1.0]]))


def test_soft_agreement_by_hand() -> None:
    probabilities = torch.tensor([[0.8, 0.2], [0.5, 0.5]])
    ends = torch.tensor([0]), torch.tensor([1])
    assert Classes(2).soft_agreement(probabilities, *ends).item() == pytest.approx(0.5)  # 0.8*0.5 + 0.2*0.5
    assert MultiLabel(2).soft_agreement(probabilities, *ends).item() == pytest.approx(0.5)  # (0.5 + 0.5) / 2


@pytest.mark.parametrize(
    ("task", "scores", "targets", "score"),
    [
        (Classes(2), [[1, 0], [0, 1], [3, 2]], [0, 1, 1], 2 / 3),
        (MultiLabel(1), [[0.1], [0.4], [0.35], [0.8]], [[0.0], [0.0], [1.0], [1.0]], 0.75),
        (Regression(1), [[1.0], [3.0]], [[1.0], [5.0]], -(2**0.5)),
    ],
)
def test_score_is_the_metric_and_higher_is_better(task: Task, scores: list, targets: list, score: float) -> None:
    assert task.score(np.array(scores, dtype=float), np.array(targets)) == pytest.approx(score)


def test_decoding() -> None:
    logits = np.array([[1.0, -2.0], [-1.0, 3.0]])
    assert Classes(2).decode(logits).tolist() == [0, 1]
    assert MultiLabel(2).decode(logits).tolist() == [[1, 0], [0, 1]]
    assert Regression(2).decode(logits).tolist() == logits.tolist()


def test_a_graph_has_the_task_of_its_labels() -> None:
    graph = csbm(nodes=60, classes=3, degree=4, per_class=2)
    assert graph.task == Classes(3)
    assert graph.with_(labels=np.zeros((60, 5)), class_names=None).task == MultiLabel(5)
