"""A trained classifier as a torch module: feature rows in, logits out.

    from model import load
    model = load()
    model.probabilities(rows)

Reads model.json and model.safetensors from the folder of this file. Written by gssc export; it needs torch and
safetensors, not gssc.
"""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as read_tensors
from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with an activation between them; batch norm is folded into the layers already.

    Args:
        description: content of model.json.
    """

    def __init__(self, description: dict[str, Any]):
        super().__init__()
        self.class_names: list[str] = description["class_names"]
        self.feature_names: list[str] | None = description["feature_names"]
        self.normalize = description["normalize"] == "row"
        self.multilabel = description["task"] == "multilabel"
        self.temperature = float(description["temperature"])
        self.layers = nn.ModuleList(nn.Linear(into, out) for into, out in pairwise(description["widths"]))
        names = description["activation"].split(",")
        self.activations: list[str] = names * (len(self.layers) - 1) if len(names) == 1 else names

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [rows, outputs] of rows [rows, features], dense or sparse; not divided by the temperature."""
        first, *rest = self.layers
        assert isinstance(first, nn.Linear)
        if x.layout != torch.strided:
            x = x.to_sparse_coo().coalesce()
        hidden = x @ first.weight.T
        if self.normalize:  # after the product, which is the smaller matrix
            sums = self._sums(x)
            hidden = hidden / torch.where(sums == 0, torch.ones_like(sums), sums).unsqueeze(1)
        hidden = hidden + first.bias
        for layer, name in zip(rest, self.activations, strict=True):
            hidden = layer(self._activated(hidden, name))
        return hidden

    def probabilities(self, x: Tensor) -> Tensor:
        """Return the probability of each class (or, if several may hold, of each task), [rows, outputs]."""
        scaled = self(x) / self.temperature
        return scaled.sigmoid() if self.multilabel else scaled.softmax(1)

    @staticmethod
    def _activated(hidden: Tensor, name: str) -> Tensor:
        if name == "standardize":
            return nn.functional.layer_norm(hidden, hidden.shape[1:], eps=1e-5)
        if name == "asinh":
            return hidden.asinh()
        if name == "gelu":
            return nn.functional.gelu(hidden)
        return nn.functional.leaky_relu(hidden, 0.01 if name == "leaky_relu" else 0.0)

    @staticmethod
    def _sums(x: Tensor) -> Tensor:
        """Return the sum of the absolute values of each row."""
        if x.layout == torch.strided:
            return x.abs().sum(1)
        return x.values().new_zeros(x.shape[0]).index_add(0, x.indices()[0], x.values().abs())


def load(folder: str | Path = Path(__file__).parent) -> MLP:
    """Return the module with its weights, in eval mode."""
    folder = Path(folder)
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    weights = (folder / "model.safetensors").read_bytes()
    if hashlib.sha256(weights).hexdigest() != description["weights_sha256"]:
        raise ValueError(f"{folder / 'model.safetensors'} was changed or cut short: copy the folder again")
    model = MLP(description)
    model.load_state_dict(read_tensors(weights))
    return model.eval()
