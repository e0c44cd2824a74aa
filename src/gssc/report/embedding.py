"""A map of nodes: the last hidden layer in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gssc.extras import require, sklearn_seed
from gssc.report.style import colours, new_axes, shorten, soft_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 20  # maximum number of classes whose names are written on the map


def project(embedding: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return a point in the plane for each row, so that similar rows are close (t-SNE of scikit-learn), [n, 2].

    Distances between separate groups are meaningless on such a map. Time grows with the number of rows: 2,000 take
    seconds.

    Args:
        embedding: one row per node, [n, F]; at least two rows.
        seed: seed of the projection.
    """
    rows = embedding - embedding.mean(axis=0)
    spread = rows.std()
    perplexity = min(30.0, (len(rows) - 1) / 3)
    method = require("sklearn.manifold", extra="report").TSNE(
        perplexity=perplexity, init="pca" if min(rows.shape) >= 2 else "random", random_state=sklearn_seed(seed)
    )
    return np.asarray(method.fit_transform(rows / spread if spread > 0 else rows))


def embedding_map(
    points: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    ax: Axes | None = None,
    *,
    title: str = "Map of embeddings",
) -> Axes:
    """Draw one point per node, coloured by class, with the name of each class at its middle.

    Args:
        points: [n, 2], such as :func:`project` returns.
        labels: class numbers, [n]; nodes with -1 are drawn in grey.
        class_names: one per class.
        ax: where to draw; a new figure if left out.
        title: title of the plot.
    """
    ax = new_axes(height=6.0, width=6.6)[0] if ax is None else ax
    size = float(np.clip(9000 / max(len(points), 1), 3, 24))
    (x, y), unknown = points.T, labels < 0
    ax.scatter(x[unknown], y[unknown], s=size, color=soft_colour(), alpha=0.4, linewidths=0)
    for number, colour in enumerate(colours(len(class_names))):
        ax.scatter(x[labels == number], y[labels == number], s=size, color=colour, alpha=0.75, linewidths=0)
    if len(class_names) <= MOST_NAMES:
        paper = ax.get_facecolor()
        for number, name in enumerate(class_names):
            if (labels == number).any():
                middle = np.median(points[labels == number], axis=0)
                box = {"facecolor": paper, "alpha": 0.75, "edgecolor": "none", "boxstyle": "round,pad=0.2"}
                ax.text(
                    middle[0],
                    middle[1],
                    shorten(name),
                    ha="center",
                    va="center",
                    fontsize=9,
                    fontweight="bold",
                    bbox=box,
                )
    ax.set_title(title)
    ax.set_aspect("equal", adjustable="datalim")
    ax.grid(False)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    return ax
