"""Checkpoints without pickle: one safetensors file, written atomically, holds everything a run needs to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from gssc.errors import GsscError
from gssc.files import atomic_write

State = dict[str, dict[str, Tensor]]


def save_checkpoint(path: Path, tensors: State, notes: dict[str, Any]) -> None:
    """Write named groups of tensors and JSON-able notes as one file."""
    flat = {f"{group}/{name}": value.contiguous() for group, named in tensors.items() for name, value in named.items()}
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(flat, metadata={"notes": json.dumps(notes)}))


def load_checkpoint(path: Path) -> tuple[State, dict[str, Any]]:
    """Read back what :func:`save_checkpoint` wrote."""
    tensors: State = {}
    try:
        with safe_open(path, framework="pt") as file:
            notes = json.loads((file.metadata() or {})["notes"])
            for key in file.keys():  # noqa: SIM118 - not a dict
                group, name = key.split("/", 1)
                tensors.setdefault(group, {})[name] = file.get_tensor(key)
    except Exception as error:
        raise GsscError(
            f"{path} is not a checkpoint that can be read ({error}); start over with --overwrite"
        ) from error
    return tensors, notes


def module_state(module: nn.Module) -> dict[str, Tensor]:
    """A copy of a module's weights and buffers."""
    return {name: value.clone() for name, value in module.state_dict().items()}


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments and step counts as named tensors."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value.clone() for index, entry in state.items() for name, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give an optimiser the moments of :func:`optimizer_state` back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def rng_state(rng: np.random.Generator) -> Any:
    """The state of a generator as plain lists and numbers."""
    return json.loads(json.dumps(rng.bit_generator.state, default=lambda value: value.tolist()))


def restore_rng(rng: np.random.Generator, state: Any) -> None:
    """Set a generator to a state of :func:`rng_state`."""
    words = np.array(state["state"]["state"], dtype=np.uint64)
    rng.bit_generator.state = {**state, "state": {"state": words}}
