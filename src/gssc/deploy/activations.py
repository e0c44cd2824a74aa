"""The activations between the linear maps of a deployed model.

GSSC and most other models have one activation throughout. Graph-MLP and LinkDist also put every hidden row on mean zero
and variance one (layer norm, whose scale and shift are folded into a linear map), and columns with long tails are
compressed first (asinh), so a model may have one activation per hidden layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LEAKY_SLOPE = 0.01
STANDARDIZE_EPS = 1e-5  # added to the variance of a row
ACTIVATIONS = ("relu", "leaky_relu", "gelu", "standardize", "asinh")
# Abramowitz and Stegun 7.1.26: the error function to 1.5e-7, without SciPy.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_STEP = 0.3275911


def activations_of(text: str, hidden_layers: int) -> tuple[str, ...]:
    """Return the activation after each hidden layer, from one name for all or one name each, separated by commas.

    >>> activations_of("relu", 2), activations_of("gelu,standardize", 2)
    (('relu', 'relu'), ('gelu', 'standardize'))
    """
    names = tuple(text.split(","))
    return names * hidden_layers if len(names) == 1 else names


def activate(hidden: np.ndarray, name: str, spare: np.ndarray) -> None:
    """Apply an activation to rows [n, width] in place; ``spare`` is an array of the same shape to work in."""
    if name == "gelu":
        np.multiply(hidden, hidden.dtype.type(0.5**0.5), out=spare)
        hidden *= hidden.dtype.type(0.5) * (1 + erf(spare))
    elif name == "standardize":
        hidden -= hidden.mean(axis=1, keepdims=True)
        np.multiply(hidden, hidden, out=spare)
        hidden /= np.sqrt(spare.mean(axis=1, keepdims=True) + hidden.dtype.type(STANDARDIZE_EPS))
    elif name == "asinh":
        np.arcsinh(hidden, out=hidden)
    else:
        slope = np.array(LEAKY_SLOPE if name == "leaky_relu" else 0, dtype=hidden.dtype)
        np.maximum(hidden, np.multiply(hidden, slope, out=spare), out=hidden)


def erf(x: Any) -> Any:
    """Return the error function, to 1.5e-7.

    >>> [round(float(value), 6) for value in erf(np.array([-1.0, 0.0, 0.5, 9.0]))]
    [-0.842701, 0.0, 0.5205, 1.0]
    """
    size = np.abs(x)
    t = 1 / (1 + x.dtype.type(_ERF_STEP) * size)
    series = np.zeros_like(t)
    for factor in _ERF:
        series = (series + x.dtype.type(factor)) * t
    return np.sign(x) * (1 - series * np.exp(-size * size))
