"""A model on disk: weights as safetensors, the rest as JSON, both guarded by digests.

``model.json`` holds the SHA-256 of ``model.safetensors`` and, under ``digest``, one over its own other content.
The weights are written first, so a save that is cut short leaves a folder that does not load rather than one that
loads half of each. Digests catch damage and careless edits; they are no signature against someone who can also
recompute them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from gssc.errors import GsscError
from gssc.files import atomic_write, write_json

if TYPE_CHECKING:
    from gssc.deploy.model import DeployedModel

WEIGHTS = "model.safetensors"
DESCRIPTION = "model.json"
FORMAT = "gssc-mlp"
FORMAT_VERSION = 1
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "activation": str,
    "normalize": str,
    "task": str,
    "temperature": (int, float),
    "class_names": list,
    "feature_names": (list, type(None)),
    "metadata": dict,
}


def save(model: DeployedModel, folder: Path) -> None:
    """Write both files atomically, the weights first."""
    tensors = {}
    for number, (weight, bias) in enumerate(model.layers):
        tensors[f"layers.{number}.weight"] = weight
        tensors[f"layers.{number}.bias"] = bias
    weights = safetensors.save(tensors)
    description: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "widths": model.widths,
        **{name: getattr(model, name) for name in _FIELDS},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    try:
        # What JSON makes of it (tuples become lists) is what a reader will see, so that is what is digested.
        description = json.loads(json.dumps(description, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise GsscError(f"model metadata does not fit into JSON: {error}") from error
    description["digest"] = _digest(description)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GsscError(f"cannot create the model folder {folder}: {error.strerror}") from error
    with atomic_write(folder / WEIGHTS) as temporary:
        temporary.write_bytes(weights)
    write_json(folder / DESCRIPTION, description)


def load(folder: Path) -> dict[str, Any]:
    """The arguments of a :class:`DeployedModel`, checked against the digests."""
    description = _read_description(folder / DESCRIPTION)
    content = _read(folder / WEIGHTS)
    if hashlib.sha256(content).hexdigest() != description["weights_sha256"]:
        raise GsscError(
            f"{folder / WEIGHTS} is not the file {DESCRIPTION} was written for (digest differs): "
            "it was changed or cut short; copy the model folder again"
        )
    try:
        tensors = safetensors.load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise GsscError(f"{folder / WEIGHTS} is not a safetensors file: {error}") from error
    count = len(description["widths"]) - 1
    wanted = {f"layers.{number}.{part}" for number in range(count) for part in ("weight", "bias")}
    if set(tensors) != wanted:
        raise GsscError(f"{folder / WEIGHTS} does not hold the {count} layers {DESCRIPTION} describes")
    layers = [(tensors[f"layers.{n}.weight"], tensors[f"layers.{n}.bias"]) for n in range(count)]
    if [layers[0][0].shape[-1], *(len(bias) for _, bias in layers)] != description["widths"]:
        raise GsscError(f"{folder / WEIGHTS} has other layer sizes than {DESCRIPTION} describes")
    if any(tensor.dtype != np.float32 for tensor in tensors.values()):
        raise GsscError(f"{folder / WEIGHTS} holds numbers other than float32")
    return {"layers": layers, **{name: description[name] for name in _FIELDS}}


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(_read(path))
    except ValueError as error:
        raise GsscError(f"{path} is not JSON: {error}; copy the model folder again") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise GsscError(f"{path} does not describe a gssc model")
    if description.get("format_version") != FORMAT_VERSION:
        raise GsscError(
            f"{path} has format version {description.get('format_version')}, this gssc reads {FORMAT_VERSION}: "
            "use the gssc that wrote it"
        )
    if description.pop("digest", None) != _digest(description):
        raise GsscError(f"{path} was changed after it was written (digest differs): copy the model folder again")
    for name, kind in {**_FIELDS, "weights_sha256": str, "widths": list}.items():
        if not isinstance(description.get(name), kind) or (name == "widths" and len(description[name]) < 2):
            raise GsscError(f"{path} lacks a usable {name!r}")
    return description


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        what = "there is no such folder" if not path.parent.exists() else f"it has no {path.name}"
        raise GsscError(f"{path.parent} is not a model folder: {what}") from None
    except OSError as error:
        raise GsscError(f"cannot read {path}: {error.strerror}") from error


def _digest(description: dict[str, Any]) -> str:
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
