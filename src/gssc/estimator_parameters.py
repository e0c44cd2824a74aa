"""The parameters of the estimator: their checks, and their form in a model folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gssc.errors import GsscError

WHOLE = {"n_neighbors": 1, "max_rows": 2}  # the least value of each whole number


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise GsscError, with the name of the parameter, for an invalid value."""
    for name, least in WHOLE.items():
        value = parameters[name]
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise GsscError(f"{name} is {value!r}; it must be a whole number, at least {least}")
    config, normalize = parameters["config"], parameters["normalize"]
    if not (config is None or isinstance(config, dict)):
        raise GsscError(f"config is a {type(config).__name__}; give a dict of sections, as Config.to_dict() does")
    if normalize not in ("auto", "standard", "asinh", "row", "none"):
        raise GsscError(f"normalize is {normalize!r}; it must be auto, standard, asinh, row or none")


def as_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them: a dict of class weights as pairs, since its keys may be numbers."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
    if isinstance(plain["random_state"], np.random.RandomState):
        plain["random_state"] = None  # its state at this time has no relation to the model
    if isinstance(plain["class_weight"], dict):
        pairs = plain["class_weight"].items()
        plain["class_weight"] = [[key.item() if isinstance(key, np.generic) else key, float(w)] for key, w in pairs]
    return plain


def from_json(parameters: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that :func:`as_json` stored, by name."""
    for name, value in parameters.items():
        yield name, dict(value) if name == "class_weight" and isinstance(value, list) else value
