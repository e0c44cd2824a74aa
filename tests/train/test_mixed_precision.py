"""Mixed precision, as a GPU would use it, on a CPU: products in bfloat16, everything that is kept in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gssc.config import ContrastConfig, parse_config
from gssc.data import load_dataset
from gssc.features import on_device
from gssc.models.str_contrast import STRContrast
from gssc.train.bilevel import BilevelTraining
from gssc.train.process import is_mixed


def settings(mixed: str, **model: object) -> ContrastConfig:
    config = parse_config(
        {
            "model": {"name": "str_contrast", "hidden": 16, "mix_hidden": 8, "dropout": 0.0, **model},
            "sparsifier": {"hidden": 8, "pretrain_epochs": 2},
            "train": {"warmup_epochs": 8, "epochs": 2, "normalize": "none", "mixed_precision": mixed},
            "consolidate": {"epochs": 3},
        }
    )
    assert isinstance(config, ContrastConfig)
    return config


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"mix_at": "last", "mix_by": "vector", "layer_order": "activation_first"},
        {"mix_at": "output", "mix_by": "vector", "head_norms": "shared"},
    ],
)
def test_products_are_bfloat16_and_the_result_is_much_the_same(model: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_dataset("csbm", nodes=200, degree=8, signal=4.0, classes=2)
    used, name = set(), "compare_rows" if model.get("mix_at") == "output" else "compare"
    compare = getattr(STRContrast, name)

    def watched(self: STRContrast, batch: object) -> object:
        out = compare(self, batch)
        used.add(out.some_ends(1).dtype)
        return out

    monkeypatch.setattr(STRContrast, name, watched)
    right = []
    for mixed, dtype in (("off", torch.float32), ("on", torch.bfloat16)):
        used.clear()
        training = BilevelTraining(graph, settings(mixed, **model))
        for _ in training.epochs():
            pass
        assert used == {dtype}
        assert {weight.dtype for weight in training.model.parameters()} == {torch.float32}
        scores = training.outcome().scores
        assert scores.dtype == np.float32
        right.append((scores.argmax(1) == graph.labels).mean())
    assert min(right) > 0.85
    assert abs(right[0] - right[1]) < 0.05


def test_auto_is_off_on_a_cpu() -> None:
    assert not is_mixed("auto", torch.device("cpu"))
    assert is_mixed("on", torch.device("cpu"))


def test_rows_go_to_a_device_as_they_are() -> None:
    rows = torch.arange(6.0).view(2, 3)
    assert on_device(rows, torch.device("meta")).shape == (2, 3)
    assert torch.equal(on_device(rows, torch.device("cpu")), rows)
