"""Keep probability of edges within a class and between classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gssc.metrics import roc_auc
from gssc.report.style import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20
ROOM_FOR_LEGEND = 1.25  # height of the axes, in heights of the tallest bar


def keep_probability_histogram(keep_probability: np.ndarray, same_class: np.ndarray, ax: Axes | None = None) -> Axes:
    """Draw histograms of the keep probability of edges within a class and between classes, as shares of each kind.

    The area under the ROC curve in the title is the chance that an edge within a class gets a higher keep probability
    than one between classes: 0.5 is no better than guessing.

    Args:
        keep_probability: one per edge, [E]; edges with NaN (unknown) are left out.
        same_class: whether the two ends have the same class, [E].
        ax: where to draw; a new figure if left out.
    """
    ax = new_axes(height=4.0)[0] if ax is None else ax
    known = ~np.isnan(keep_probability)
    keep, same = keep_probability[known], same_class[known].astype(bool)
    bins = np.linspace(0, 1, BINS + 1).tolist()
    both = (("within a class", same, "C0"), ("between classes", ~same, "C1"))
    if kinds := [kind for kind in both if kind[1].any()]:
        ax.hist(
            [keep[of] for _, of, _ in kinds],
            bins=bins,
            weights=[np.full(int(of.sum()), 1 / of.sum()) for _, of, _ in kinds],
            color=[colour for *_, colour in kinds],
            label=[f"{name} ({of.sum():,}, mean {keep[of].mean():.2f})" for name, of, _ in kinds],
        )
    area = roc_auc(keep[:, None], same[:, None].astype(float)) if len(keep) else float("nan")
    ax.set_title(f"Keep probability of edges, ROC-AUC {area:.2f}" if area == area else "Keep probability of edges")
    ax.set_xlim(0, 1)
    ax.set_xlabel("keep probability")
    ax.set_ylabel("share of the edges")
    if len(keep):
        ax.set_ylim(0, ROOM_FOR_LEGEND * ax.get_ylim()[1])
        ax.set_yticks([tick for tick in ax.get_yticks() if tick <= 1])
        ax.legend(loc="upper left")
    return ax
