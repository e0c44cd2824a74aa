"""Plots of quantities by epoch: scores, losses, edges kept and their homophily."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gssc.errors import GsscError
from gssc.report.style import new_axes, soft_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Epochs = Mapping[str, np.ndarray]

LOSSES = {  # names in the legend
    "smoothness_loss": "smoothness",
    "classification_loss": "classification",
    "center_loss": "class centres",
    "sparsifier_loss": "sparsifier",
}
STREAMED_PHASES = {"pairs", "rows"}  # of a run that streams its graph, whose ``edges_kept`` counts pairs, not edges
TITLE_PAD = 18  # points; leaves room for the names of the phases
PARTS = {"train": "training", "val": "validation", "test": "test"}
# Stages of the default learner by phase; other phases are teachers, or students of a round.
OTHER_STAGES = {"pairs": "pairs", "student on all rows": "all rows"}


def read_epochs(folder: str | Path) -> dict[str, np.ndarray]:
    """Return ``metrics.jsonl`` of a run folder as one array per quantity, each with one value per epoch."""
    path = Path(folder) / "metrics.jsonl"
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise GsscError(f"{path} is missing: only folders written by gssc train have one") from None
    except ValueError as error:
        raise GsscError(f"{path} is damaged: {error}; train the run again") from None
    if not records:
        raise GsscError(f"{path} is empty: no epoch has ended yet")
    return epoch_columns(records)


def epoch_columns(records: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return one array per quantity from one dict per epoch, such as ``GSSCClassifier.history_``.

    >>> epoch_columns([{"epoch": 0, "val_loss": 0.5}, {"epoch": 1, "val_loss": None}])
    {'epoch': array([0., 1.]), 'val_loss': array([0.5, nan])}
    """
    records = list(records)
    columns = {}
    for name in dict.fromkeys(name for record in records for name in record):
        values = [record.get(name) for record in records]
        if any(isinstance(value, str) for value in values):
            columns[name] = np.array([str(value) for value in values])
        else:
            columns[name] = np.array([np.nan if value is None else value for value in values], dtype=float)
    return columns


def learning_curves(
    epochs: Epochs, axes: Sequence[Axes] | None = None, *, kept: int | None = None, metric: str = "accuracy"
) -> Sequence[Axes]:
    """Draw scores and losses against the epoch, with the phases of training shaded.

    Args:
        epochs: one array per quantity, see :func:`read_epochs` and :func:`epoch_columns`.
        axes: two axes to draw on, scores first; a new figure if left out.
        kept: the epoch whose weights were kept, which is marked.
        metric: name of the score, for the axis.
    """
    above, below = new_axes(2, height=5.6, shares=(3, 2)) if axes is None else axes
    for part, name in PARTS.items():
        column = epochs.get(f"{part}_score", epochs.get(f"{part}_accuracy"))
        if column is not None and np.isfinite(column).any():
            above.plot(*with_gaps(epochs, column), label=name, linestyle="--" if part == "test" else "-")
    _mark_kept(above, epochs, kept)
    above.set_ylabel(metric.replace("_", " "))
    above.set_title("Learning curves", pad=TITLE_PAD)
    _legend(above)
    for name, label in LOSSES.items():
        column = epochs.get(name)
        if column is not None and np.any(column):
            # A loss that a phase does not have is recorded as 0: leave a gap there.
            shown = np.where(column == 0, np.nan, column)
            below.plot(*with_gaps(epochs, shown), label=label)
    below.set_ylabel("loss")
    _finish(above, below, epochs)
    return above, below


def edge_curves(epochs: Epochs, total: int | None = None, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Draw the edges kept for training, and their homophily, against the epoch.

    Args:
        epochs: one array per quantity, see :func:`read_epochs`.
        total: total number of edges; if given, the share of edges kept is drawn instead of the number, except for a
            run that streams its graph: the pairs of its epochs are not a share of the edges.
        axes: two axes to draw on, edges first; a new figure if left out.
    """
    above, below = new_axes(2, height=5.0) if axes is None else axes
    at, count = epochs["epoch"], epochs["edges_kept"]
    counts_pairs = "phase" in epochs and set(epochs["phase"].tolist()) <= STREAMED_PHASES
    if total and not counts_pairs:
        above.plot(at, count / total)
        above.set_ylabel("share of edges kept")
        above.set_ylim(0, 1.05)
    else:
        above.plot(at, count)
        above.set_ylabel("pairs trained on" if counts_pairs else "edges kept")
    above.set_title("Edges kept and their homophily", pad=TITLE_PAD)
    names = {"homophily": "true labels (analysis only)", "pseudo_homophily": "predicted labels"}
    for name, label in names.items():
        if name in epochs and np.isfinite(epochs[name]).any():
            below.plot(*with_gaps(epochs, epochs[name]), label=label)
    below.set_ylabel("homophily")
    _finish(above, below, epochs)
    return above, below


def _finish(above: Axes, below: Axes, epochs: Epochs) -> None:
    """Label the epochs and shade the phases of training."""
    below.set_xlabel("epoch")
    _legend(below)
    for drawn in (above, below):
        _shade_phases(drawn, epochs, named=drawn is above)


def stages(phases: Sequence[str]) -> list[str]:
    """Return the stage of each phase of the default learner; phases of other models are returned unchanged.

    >>> stages(["trees", "pairs", "student 1, plain", "student 2, plain", "student on all rows"])
    ['teachers', 'pairs', 'round 1', 'round 2', 'all rows']
    >>> stages(["warm-up", "alternate"])
    ['warm-up', 'alternate']
    """
    rounds = [re.match(r"student (\d+), ", phase) for phase in phases]
    if not any(rounds):
        return list(phases)
    named = (OTHER_STAGES.get(phase, "teachers") for phase in phases)
    return [f"round {found[1]}" if found else name for found, name in zip(rounds, named, strict=True)]


def with_gaps(epochs: Epochs, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return epochs and values with a gap wherever the training of another model begins."""
    at, phases = epochs["epoch"], [str(phase) for phase in epochs.get("phase", ())]
    names = stages(phases)
    if names == phases:  # one model, trained in phases
        return at, values
    models = [phase if name.startswith("round") else name for phase, name in zip(phases, names, strict=True)]
    starts = [place for place in range(1, len(models)) if models[place] != models[place - 1]]
    return np.insert(at, starts, np.nan), np.insert(values, starts, np.nan)


def _legend(axes: Axes) -> None:
    if axes.lines:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)


def _mark_kept(axes: Axes, epochs: Epochs, kept: int | None) -> None:
    if kept is None:
        return
    axes.axvline(kept, color=soft_colour(), linewidth=1, linestyle=":")
    late = kept > np.mean([epochs["epoch"].min(), epochs["epoch"].max()])
    axes.annotate(
        f"kept: epoch {kept}",
        (kept, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if late else 4, 0),
        textcoords="offset points",
        ha="right" if late else "left",
        color=soft_colour(),
        fontsize=8,
    )


def _shade_phases(axes: Axes, epochs: Epochs, named: bool) -> None:
    """Shade every second phase and write the name of each above the axes."""
    if "phase" not in epochs or len(epochs["phase"]) < 2:
        return
    phase, at = np.array(stages([str(name) for name in epochs["phase"]])), epochs["epoch"]
    starts = np.flatnonzero(np.r_[True, phase[1:] != phase[:-1]])
    bounds = [*(at[starts] - 0.5), at[-1] + 0.5]
    axes.set_xlim(bounds[0], bounds[-1])
    for number, (left, right) in enumerate(pairwise(bounds)):
        if number % 2:
            axes.axvspan(left, right, color=soft_colour(), alpha=0.1, linewidth=0)
        if named and len(starts) > 1 and right - left > 0.045 * (bounds[-1] - bounds[0]):
            axes.annotate(
                str(phase[starts[number]]),
                ((left + right) / 2, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                color=soft_colour(),
                fontsize=8,
            )
