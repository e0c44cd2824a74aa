from __future__ import annotations

import copy

import torch
from torch import nn

from gssc.config import parse_config
from gssc.data import csbm
from gssc.train.bilevel import BilevelTraining
from gssc.train.checkpoint import load_checkpoint, save_checkpoint
from gssc.train.optimize import AveragedModel

SETTINGS = {
    "model": {"name": "str_contrast", "hidden": 8},
    "sparsifier": {"hidden": 4, "pretrain_epochs": 2},
    "train": {"epochs": 3, "warmup_epochs": 3, "batch_size": 32, "normalize": "none", "average": 0.9},
}


def test_the_average_by_hand() -> None:
    # Start 0; the weights are 11 for two steps. Early decay is steps / (steps + 10):
    # step 1: 0 * 1/11 + 11 * 10/11 = 10; step 2: 10 * 2/12 + 11 * 10/12 = 10.8333.
    trained = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(trained.weight)
    averaged = AveragedModel(trained, 0.9)
    nn.init.constant_(trained.weight, 11.0)
    averaged.follow()
    assert averaged.model.weight.item() == 10.0
    averaged.follow()
    assert abs(averaged.model.weight.item() - (10 * 2 / 12 + 11 * 10 / 12)) < 1e-6


def test_the_decay_takes_over_from_the_start_up() -> None:
    trained = nn.Linear(1, 1, bias=False)
    averaged = AveragedModel(trained, 0.5)
    for _ in range(100):
        averaged.follow()
    before = averaged.model.weight.item()
    nn.init.constant_(trained.weight, before + 1)
    averaged.follow()
    assert abs(averaged.model.weight.item() - (before + 0.5)) < 1e-6


def test_without_a_decay_there_is_one_model() -> None:
    trained = nn.Linear(2, 2)
    assert AveragedModel(trained, 0.0).model is trained


def test_the_average_predicts_and_is_deployed() -> None:
    graph = csbm(nodes=60, degree=4)
    training = BilevelTraining(graph, parse_config(SETTINGS))
    for _ in training.epochs():
        pass
    logits = training.predict_all()
    with torch.no_grad():
        alone = torch.cat([training.model.eval()(rows) for rows in training.all_rows.blocks()])
    assert not torch.equal(logits, alone)
    deployed = torch.from_numpy(training.deployed().logits(graph.features))
    assert torch.allclose(deployed, logits, atol=1e-5)


def test_a_resumed_average_ends_in_the_same_weights(tmp_path) -> None:
    graph, config = csbm(nodes=60, degree=4), parse_config(SETTINGS)
    whole = BilevelTraining(graph, config)
    steps = whole.epochs()
    for _ in range(2):
        next(steps)
    save_checkpoint(tmp_path / "c.safetensors", whole.state_dict())
    resumed = BilevelTraining(graph, copy.deepcopy(config))
    resumed.load_state_dict(load_checkpoint(tmp_path / "c.safetensors"))
    for training in (whole, resumed):
        for _ in training.epochs():
            pass
    first, second = (t.averaged.model.state_dict() for t in (whole, resumed))
    assert all(torch.equal(first[name], second[name]) for name in first)
