"""Checkpoints without pickle: one safetensors file, written atomically, holds everything a run needs to go on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from gssc.errors import GsscError
from gssc.files import atomic_write, require_regular

State = dict[str, dict[str, Tensor]]


def save_checkpoint(path: Path, tensors: State, notes: dict[str, Any]) -> None:
    """Write named groups of tensors and JSON-able notes as one file, with a digest over both."""
    flat = {f"{group}/{name}": value.contiguous() for group, named in tensors.items() for name, value in named.items()}
    text = json.dumps(notes)
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(flat, metadata={"notes": text, "digest": _digest(flat, text)}))


def load_checkpoint(path: Path) -> tuple[State, dict[str, Any]]:
    """Read back what :func:`save_checkpoint` wrote; raises :class:`GsscError` if any bit of it has changed."""
    tensors: State = {}
    try:
        require_regular(path)
        with safe_open(path, framework="pt") as file:
            written = file.metadata() or {}
            flat = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        if "digest" not in written:
            raise ValueError("it has no digest: another version of gssc wrote it")
        if _digest(flat, written["notes"]) != written["digest"]:
            raise ValueError("its digest differs: the file was damaged")
        notes = json.loads(written["notes"])
        if not isinstance(notes, dict):
            raise TypeError("its notes are not a JSON object")
        for key, value in flat.items():
            group, name = key.split("/", 1)
            tensors.setdefault(group, {})[name] = value
    except Exception as error:
        raise GsscError(
            f"{path} is not a checkpoint that can be read ({' '.join(str(error).split())}); start over with --overwrite"
        ) from error
    return tensors, notes


def _digest(flat: dict[str, Tensor], notes: str) -> str:
    """SHA-256 over names, types, shapes and bytes of all tensors, and over the notes."""
    digest = hashlib.sha256(notes.encode())
    for key in sorted(flat):
        value = flat[key]
        digest.update(f"\0{key} {value.dtype} {list(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return digest.hexdigest()


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
