"""A model on disk: weights as safetensors, the rest as JSON, both checked by digests.

``model.json`` holds the SHA-256 of ``model.safetensors`` and, under ``digest``, one over its own other content.
The weights are written first, so a save that is cut short leaves a folder that does not load rather than one that
loads half of each. Digests catch damage and careless edits; they are not a signature against someone who can also
recompute them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors import numpy as safetensors

from gssc.errors import GsscError
from gssc.files import atomic_write, read_bytes, read_json, write_json

if TYPE_CHECKING:
    from gssc.deploy.model import DeployedModel

WEIGHTS = "model.safetensors"
DESCRIPTION = "model.json"
SCORES = "scores.npz"  # written instead by a run whose model needs the graph
FORMAT = "gssc-mlp"
FORMAT_VERSION = 1
OF_MOLECULES = "gssc-molecules"  # beginning of the formats of gssc.molecules.deployed
LARGEST_TEMPERATURE = 1e30  # keeps logits divided by it apart from zero
T = TypeVar("T")
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
        # The digest is of the values as a reader gets them back: tuples become lists.
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
    """Return the arguments of a :class:`DeployedModel`, checked against the digests."""
    description = _read_description(folder / DESCRIPTION)
    content = _of_model(folder, read_bytes, WEIGHTS)
    if hashlib.sha256(content).hexdigest() != description["weights_sha256"]:
        raise GsscError(
            f"{folder / WEIGHTS} is not the file {DESCRIPTION} was written for (digest differs): "
            "it was changed or cut short; copy the model folder again"
        )
    try:
        tensors = safetensors.load(content)
    except Exception as error:  # the type of the exception depends on the version of safetensors
        raise GsscError(f"{folder / WEIGHTS} is not a safetensors file: {' '.join(str(error).split())}") from None
    count = len(description["widths"]) - 1
    wanted = {f"layers.{number}.{part}" for number in range(count) for part in ("weight", "bias")}
    if set(tensors) != wanted:
        raise GsscError(f"{folder / WEIGHTS} does not hold the {count} layers {DESCRIPTION} describes")
    layers = [(tensors[f"layers.{n}.weight"], tensors[f"layers.{n}.bias"]) for n in range(count)]
    shapes = [shape for into, out in pairwise(description["widths"]) for shape in ((out, into), (out,))]
    if [tensor.shape for layer in layers for tensor in layer] != shapes:
        raise GsscError(f"{folder / WEIGHTS} has other layer sizes than {DESCRIPTION} describes")
    if any(tensor.dtype != np.float32 for tensor in tensors.values()):
        raise GsscError(f"{folder / WEIGHTS} holds numbers other than float32")
    return {"layers": layers, **{name: description[name] for name in _FIELDS}}


def _read_description(path: Path) -> dict[str, Any]:
    description = _of_model(path.parent, read_json, path.name)
    if str(description.get("format")).startswith(OF_MOLECULES):
        raise GsscError(f"{path.parent} holds a model for molecules, which takes SMILES and not feature rows")
    if description.get("format") != FORMAT:
        raise GsscError(f"{path} does not describe a gssc model")
    if description.get("format_version") != FORMAT_VERSION:
        raise GsscError(
            f"{path} has format version {description.get('format_version')}, this gssc reads {FORMAT_VERSION}: "
            "use the gssc that wrote it"
        )
    if description.pop("digest", None) != _digest(description):
        raise GsscError(f"{path} was changed after it was written (digest differs): copy the model folder again")
    for name, kind in {**_FIELDS, "weights_sha256": str, "widths": list}.items():
        value = description.get(name)
        unusable = not isinstance(value, kind) or isinstance(value, bool) or not _usable(name, value)
        if name not in description or unusable:
            raise GsscError(f"{path} lacks a usable {name!r}")
    return description


def _usable(name: str, value: Any) -> bool:
    """Return whether the items of a list, or the size of a number, are what the field needs."""
    if name == "widths":
        return len(value) >= 2 and all(type(width) is int and width > 0 for width in value)
    if name == "temperature":
        return 0 < value <= LARGEST_TEMPERATURE
    return not isinstance(value, list) or all(isinstance(item, str) for item in value)


def _of_model(folder: Path, read: Callable[[Path], T], name: str) -> T:
    """Return what ``read`` returns for a file of the model folder. Raises GsscError with the reason if it is gone."""
    try:
        return read(folder / name)
    except FileNotFoundError:
        raise GsscError(f"{folder} is not a model folder: {why_no_model(folder, name)}") from None


def why_no_model(folder: Path, missing: str = DESCRIPTION) -> str:
    """Return why a folder holds no model that can be used alone."""
    if not folder.exists():
        return "there is no such folder"
    if (folder / SCORES).exists():
        return f"its model needs the graph to predict; the scores of the graph's nodes are in {SCORES}"
    return f"it has no {missing}: name the --out folder of gssc train"


def _digest(description: dict[str, Any]) -> str:
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
