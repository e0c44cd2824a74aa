from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from gssc.config import parse_config
from gssc.data import csbm
from gssc.metrics import accuracy
from gssc.tasks import Classes, MultiLabel
from gssc.train.bilevel import BilevelTraining
from gssc.train.checkpoint import load_checkpoint, save_checkpoint
from gssc.train.consensus import Consensus, averaging_matrix

TASK = Classes(2)
PATH = np.array([[0, 1, 2], [1, 2, 3]])  # 0 - 1 - 2 - 3
PROBABILITIES = torch.tensor([[0.5, 0.5], [0.8, 0.2], [0.5, 0.5], [0.1, 0.9]])
KNOWN = torch.tensor([0, -1, -1, -1])


def settings(**train: object) -> dict:
    return {
        "model": {"name": "str_contrast", "hidden": 8},
        "sparsifier": {"hidden": 4, "pretrain_epochs": 2},
        "train": {"epochs": 2, "warmup_epochs": 2, "batch_size": 32, "normalize": "none", **train},
        "consolidate": {"epochs": 4},
    }


def test_one_round_of_averaging_by_hand() -> None:
    consensus = Consensus(TASK, PATH, KNOWN, steps=1)
    consensus.take_in(PROBABILITIES)
    soft = consensus.soft_labels()
    # Node 0 is known: (1, 0). Agreement: 0-1 1*0.8 = 0.8; 1-2 0.8*0.5 + 0.2*0.5 = 0.5; 2-3 0.5*0.1 + 0.5*0.9 = 0.5.
    # Node 1: (0.8*(1, 0) + (0.8, 0.2) + 0.5*(0.5, 0.5)) / 2.3. Node 3: ((0.1, 0.9) + 0.5*(0.5, 0.5)) / 1.5.
    expected = [[1, 0], [1.85 / 2.3, 0.45 / 2.3], [0, 0], [0.35 / 1.5, 1.15 / 1.5]]
    # Node 2: (0.5*(0.8, 0.2) + (0.5, 0.5) + 0.5*(0.1, 0.9)) / 2.
    expected[2] = [0.95 / 2, 1.05 / 2]
    assert torch.allclose(soft, torch.tensor(expected))


def test_the_mean_forgets_by_its_decay() -> None:
    consensus = Consensus(TASK, PATH, torch.full((4,), -1), steps=0)
    consensus.take_in(torch.tensor([[1.0, 0.0]] * 4))
    consensus.take_in(torch.tensor([[0.0, 1.0]] * 4))
    # (0.97 * (1, 0) + (0, 1)) / 1.97
    assert torch.allclose(consensus.soft_labels(), torch.tensor([[0.97 / 1.97, 1 / 1.97]] * 4))


def test_the_mean_with_the_best_validation_score_is_kept_and_of_equals_the_last() -> None:
    consensus = Consensus(TASK, PATH, torch.full((4,), -1), steps=0)
    for first, merit in ((0.9, 0.5), (0.8, 0.7), (0.7, 0.7), (0.1, 0.6)):
        consensus.keep_if_best(torch.tensor([[first, 1 - first]] * 4), merit)
    assert torch.allclose(consensus.soft_labels(), torch.tensor([[0.7, 0.3]] * 4))


def test_without_validation_nodes_the_last_mean_counts() -> None:
    consensus = Consensus(TASK, PATH, torch.full((4,), -1), steps=0)
    for first in (0.9, 0.2):
        consensus.keep_if_best(torch.tensor([[first, 1 - first]] * 4), float("nan"))
    assert torch.allclose(consensus.soft_labels(), torch.tensor([[0.2, 0.8]] * 4))


def test_training_consolidates_from_the_epoch_of_the_best_mean() -> None:
    training = BilevelTraining(csbm(nodes=80, degree=4, per_class=4), parse_config(settings()))
    means, graph = [], training.graph
    for record in training.epochs():
        if record.phase != "consolidate":
            means.append(training.consensus.mean())
    merits = [accuracy(mean.numpy()[graph.val], graph.labels[graph.val]) for mean in means]
    best = max(range(len(means)), key=lambda epoch: (merits[epoch], epoch))
    assert torch.equal(training.consensus.kept, means[best])


def test_an_isolated_node_keeps_its_own_mean() -> None:
    consensus = Consensus(TASK, np.array([[0], [1]]), torch.full((3,), -1), steps=3)
    probabilities = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    consensus.take_in(probabilities)
    assert torch.allclose(consensus.soft_labels()[2], probabilities[2])


def test_tasks_keep_known_entries_and_average_the_rest() -> None:
    labels = torch.tensor([[1.0, float("nan")], [float("nan"), float("nan")]])
    consensus = Consensus(MultiLabel(2), np.array([[0], [1]]), labels, steps=1)
    consensus.take_in(torch.tensor([[0.2, 0.6], [0.5, 0.4]]))
    # Node 0 is (1, 0.6). Agreement: task 0: 1*0.5 + 0 = 0.5; task 1: 0.6*0.4 + 0.4*0.6 = 0.48; mean 0.49.
    share = 0.49 / 1.49
    expected = torch.tensor(
        [[1.0, (1 - share) * 0.6 + share * 0.4], [(1 - share) * 0.5 + share, (1 - share) * 0.4 + share * 0.6]]
    )
    assert torch.allclose(consensus.soft_labels(), expected)


def test_walk_rows_sum_to_one() -> None:
    walk = averaging_matrix(PATH, TASK.soft_agreement(PROBABILITIES, *torch.from_numpy(PATH)).numpy(), 4)
    assert np.allclose(np.asarray(walk.sum(1)).ravel(), 1)
    assert walk[0, 2] == 0


def test_soft_labels_before_any_prediction_are_refused() -> None:
    with pytest.raises(ValueError, match="no predictions"):
        Consensus(TASK, PATH, KNOWN, 1).soft_labels()


def test_the_last_phase_comes_last_and_its_last_epoch_is_kept() -> None:
    training = BilevelTraining(csbm(nodes=80, degree=4, per_class=4), parse_config(settings()))
    records = list(training.epochs())
    assert [record.phase for record in records] == ["warm-up"] * 2 + ["alternate"] * 2 + ["consolidate"] * 4
    assert training.best.record is records[-1]


def test_it_draws_the_model_towards_the_consensus() -> None:
    training = BilevelTraining(csbm(nodes=80, degree=4, per_class=4), parse_config(settings(lr=0.02)))
    soft_loss, before = training.task.soft_loss, None
    for record in training.epochs():
        if record.phase != "consolidate":
            soft = training.consensus.soft_labels()
            before = soft_loss(training.predict_all(), soft).item()
    assert torch.equal(training.soft_labels, soft)
    assert soft_loss(training.predict_all(), soft).item() < before


def test_without_it_the_best_validation_epoch_is_kept() -> None:
    training = BilevelTraining(
        csbm(nodes=80, degree=4, per_class=4), parse_config({**settings(), "consolidate": {"epochs": 0}})
    )
    records = list(training.epochs())
    assert len(records) == 4
    assert training.best.record.val_score == max(record.val_score for record in records)


@pytest.mark.parametrize("stop_after", [3, 4, 5, 7])
@pytest.mark.parametrize("patience", [1, 50])
def test_resuming_around_the_last_phase_ends_in_the_same_weights(tmp_path, stop_after: int, patience: int) -> None:
    graph, config = csbm(nodes=60, degree=4), parse_config(settings(patience=patience))
    whole = BilevelTraining(graph, config)
    steps = whole.epochs()
    for _ in range(stop_after):
        next(steps)
    save_checkpoint(tmp_path / "c.safetensors", whole.state_dict())
    resumed = BilevelTraining(graph, copy.deepcopy(config))
    resumed.load_state_dict(load_checkpoint(tmp_path / "c.safetensors"))
    left = [[record.phase for record in training] for training in (steps, resumed.epochs())]
    assert left[0] == left[1]
    first, second = (t.averaged.model.state_dict() for t in (whole, resumed))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_unseen_nodes_have_no_influence() -> None:
    graph = csbm(nodes=80, degree=4, per_class=4).with_(setting="inductive")
    poisoned_features = graph.features.copy()
    poisoned_features[graph.test] += 100
    runs = []
    for one in (graph, graph.with_(features=poisoned_features, _checked_features=None)):
        training = BilevelTraining(one, parse_config(settings()))
        list(training.epochs())
        runs.append(training.averaged.model.state_dict())
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
