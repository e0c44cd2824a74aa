"""Confusion matrix: which classes are mistaken for which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gssc.extras import require
from gssc.report.style import colours, new_axes, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NUMBERS = 15  # maximum number of classes for which every cell shows its count


def confusion_counts(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Return the number of rows of each true class (row) that were predicted as each class (column), [C, C].

    Rows with label -1 are left out.

    >>> confusion_counts(np.array([0, 0, 1, -1]), np.array([0, 1, 1, 0]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    known = labels >= 0
    cells = labels[known] * classes + predicted[known]
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def matrix_size(classes: int) -> tuple[float, float]:
    """Return width and height of the figure of a confusion matrix, in inches."""
    side = min(4.0 + 0.35 * classes, 12.0)
    return side + 1, side


def confusion_matrix(
    labels: np.ndarray,
    predicted: np.ndarray,
    class_names: Sequence[str],
    ax: Axes | None = None,
    *,
    of_what: str = "rows",
) -> Axes:
    """Draw true against predicted classes; colour is the share of the true class, numbers are counts.

    Args:
        labels: true class numbers, [n]; rows with -1 (unknown) are left out.
        predicted: predicted class numbers, [n].
        class_names: one per class.
        ax: where to draw; a new figure if left out.
        of_what: name of the rows in the title, such as ``test nodes``.
    """
    count = len(class_names)
    width, height = matrix_size(count)
    ax = new_axes(height=height, width=width)[0] if ax is None else ax
    counts = confusion_counts(labels, predicted, count)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.grid(False)
    image = ax.imshow(share, cmap=_shades(ax.get_facecolor()), vmin=0, vmax=1)
    bar = ax.figure.colorbar(image, ax=ax, label="share of the true class", fraction=0.045, pad=0.03)
    bar.outline.set_visible(False)
    names = [shorten(name) for name in class_names]
    if max(map(len, names)) > 3:
        ax.set_xticks(range(count), names, rotation=45, ha="right", rotation_mode="anchor")
    else:
        ax.set_xticks(range(count), names)
    ax.set_yticks(range(count), names)
    ax.set_xlabel("predicted class")
    ax.set_ylabel("true class")
    right = float(np.trace(counts) / max(counts.sum(), 1))
    ax.set_title(f"{counts.sum():,} {of_what}, {right:.1%} correct")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    if count <= MOST_NUMBERS:
        for row, column in np.argwhere(counts > 0):
            ink = ax.get_facecolor() if share[row, column] > 0.55 else ax.title.get_color()
            ax.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", color=ink, fontsize=8)
    return ax


def _shades(paper: Any) -> Any:
    """Return a colour map from the background to the style's first colour."""
    return require("matplotlib.colors", extra="report").LinearSegmentedColormap.from_list(
        "shares", [paper, colours(1)[0]]
    )
