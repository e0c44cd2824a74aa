"""Reliability diagram: how well the confidence of a model matches its accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gssc.calibration import expected_calibration_error
from gssc.report.style import new_axes, soft_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 15  # of confidence


def reliability_diagram(
    probabilities: np.ndarray, labels: np.ndarray, axes: Sequence[Axes] | None = None, *, of_what: str = "rows"
) -> Sequence[Axes]:
    """Draw accuracy against confidence, and the number of rows at each confidence.

    On the diagonal, of all rows predicted with confidence 0.8, 80% are correct. The error in the title is the expected
    calibration error over the same bins.

    Args:
        probabilities: probability of each class, [n, C].
        labels: true class numbers, [n]; rows with -1 (unknown) are left out.
        axes: two axes to draw on, the diagram first; a new figure if left out.
        of_what: name of the rows on the axis, such as ``test nodes``.
    """
    above, below = new_axes(2, height=5.4, width=5.0, shares=(3, 1)) if axes is None else axes
    known = labels >= 0
    confidence = probabilities[known].max(axis=1)
    right = probabilities[known].argmax(axis=1) == labels[known]
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    count = np.bincount(place, minlength=BINS)
    filled = count > 0
    accuracy = np.bincount(place, right, minlength=BINS)[filled] / count[filled]
    mean = np.bincount(place, confidence, minlength=BINS)[filled] / count[filled]

    above.plot([0, 1], [0, 1], color=soft_colour(), linestyle="--", linewidth=1, label="perfectly calibrated")
    low, high = wilson_interval(accuracy * count[filled], count[filled])
    above.errorbar(
        mean,
        accuracy,
        yerr=np.maximum([accuracy - low, high - accuracy], 0),
        fmt="o",
        markersize=4,
        linewidth=1,
        color="C0",
        label="accuracy, 95% interval",
        clip_on=False,
        zorder=3,
    )
    above.set_xlim(0, 1)
    above.set_ylim(0, 1.02)
    above.set_ylabel("accuracy")
    error = expected_calibration_error(probabilities, labels, BINS)
    above.set_title(f"Reliability, calibration error {error:.3f}")
    # There is room below the diagonal: only wide intervals reach the corner.
    above.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none").set_zorder(4)
    below.bar(edges[:-1], count, width=1 / BINS, align="edge", linewidth=0, alpha=0.8)
    below.set_ylabel(of_what)
    below.set_xlabel("confidence")
    return above, below


def wilson_interval(right: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the 95% Wilson interval of a share, which is valid for few rows and for shares of 0 or 1.

    >>> low, high = wilson_interval(np.array([8.0]), np.array([10]))
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (0.49, 0.943)
    """
    z = 1.96
    share, scale = right / count, 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z / scale * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return middle - half, middle + half
