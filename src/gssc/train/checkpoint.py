"""Checkpoints without pickle: one safetensors file, written atomically, with everything needed to resume a run."""

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

State = dict[str, Any]  # nested dicts and lists of tensors and of plain values that JSON can hold


def save_checkpoint(path: Path, state: State) -> None:
    """Write a nested state as one file, with a digest over tensors and everything else."""
    tensors: dict[str, Tensor] = {}
    outline = json.dumps(_outline(state, tensors))
    # One entry, because the order of several is random, and equal states must give equal bytes.
    metadata = {"state": json.dumps({"digest": _digest(tensors, outline), "outline": outline})}
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(tensors, metadata=metadata))


def load_checkpoint(path: Path) -> State:
    """Return the state written by :func:`save_checkpoint`. Raises :class:`GsscError` if any bit of it has changed."""
    try:
        require_regular(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        if "state" not in metadata:
            raise ValueError("it has no digest: it was written by another version of gssc")
        written = json.loads(metadata["state"])
        if _digest(tensors, written["outline"]) != written["digest"]:
            raise ValueError("its digest differs: the file was damaged")
        state: State = _filled(json.loads(written["outline"]), tensors)
        if not isinstance(state, dict):
            raise TypeError("it does not hold a state")
    except Exception as error:
        raise GsscError(
            f"{path} is not a readable checkpoint ({' '.join(str(error).split())}); start over with --overwrite"
        ) from error
    return state


def _outline(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the state with tensors moved to ``tensors``, numbers in their place, and dicts as pairs (typed keys)."""
    if isinstance(value, Tensor):
        number = str(len(tensors))
        tensors[number] = value.detach().cpu().contiguous().clone()  # the format does not allow shared memory
        return {"tensor": number}
    if isinstance(value, dict):
        return {"dict": [[key, _outline(inner, tensors)] for key, inner in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_outline(inner, tensors) for inner in value]}
    return value


def _filled(outline: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(outline, dict):
        return outline
    ((kind, content),) = outline.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _filled(inner, tensors) for key, inner in content}
    return [_filled(inner, tensors) for inner in content]


def _digest(tensors: dict[str, Tensor], outline: str) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of all tensors, and of the outline."""
    digest = hashlib.sha256(outline.encode())
    for key in sorted(tensors):
        value = tensors[key]
        digest.update(f"\0{key} {value.dtype} {list(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return digest.hexdigest()


def module_state(module: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the weights and buffers of a module."""
    return {name: value.clone() for name, value in module.state_dict().items()}


def rng_state(rng: np.random.Generator) -> Any:
    """Return the state of a generator as plain lists and numbers."""
    return json.loads(json.dumps(rng.bit_generator.state, default=lambda value: value.tolist()))


def restore_rng(rng: np.random.Generator, state: Any) -> None:
    """Set a generator to a state of :func:`rng_state`."""
    words = np.array(state["state"]["state"], dtype=np.uint64)
    rng.bit_generator.state = {**state, "state": {"state": words}}
