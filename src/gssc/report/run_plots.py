"""All plots of a run folder, written as image files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gssc.errors import GsscError
from gssc.extras import require
from gssc.files import atomic_write
from gssc.graph import Graph
from gssc.names import nearest
from gssc.report.calibration import reliability_diagram
from gssc.report.classes import confusion_matrix, matrix_size
from gssc.report.curves import edge_curves, learning_curves, read_epochs
from gssc.report.edges import keep_probability_histogram
from gssc.report.embedding import embedding_map, project
from gssc.report.style import Style, plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gssc.audit.subject import Subject

FORMATS = ("png", "svg", "pdf")
MOST_POINTS = 2000  # maximum number of nodes on the map


class Written(NamedTuple):
    """The file of each plot that was written, and the reason for each that was skipped."""

    files: dict[str, Path]
    skipped: dict[str, str]


class _Plotted:
    """The data of the plots of one run; each part is read once, when a plot needs it."""

    def __init__(self, folder: Path, graph: str | Path | Graph | None, data_root: str | None, seed: int):
        self.folder, self.given, self.data_root, self.seed = folder, graph, data_root, seed

    @cached_property
    def epochs(self) -> dict[str, np.ndarray]:
        return read_epochs(self.folder)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        path = self.folder / "metrics.json"
        try:
            return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
        except ValueError:
            raise GsscError(f"{path} is damaged; train the run again") from None

    @cached_property
    def subject(self) -> Subject:
        require("torch", extra="train")  # plots of arrays do without
        from gssc.audit.subject import read_subject

        subject = read_subject(self.folder, self.given, self.data_root)
        if not subject.graph.task.has_classes:
            raise GsscError("the targets are multi-label: there are no classes to compare")
        return subject

    @cached_property
    def labels(self) -> np.ndarray:
        return self.subject.model_labels()

    @cached_property
    def probabilities(self) -> np.ndarray:
        return self.subject.model.predict_proba(self.subject.graph.features)

    @cached_property
    def judged(self) -> tuple[np.ndarray, str]:
        """The labelled nodes on which errors are counted, and their name: test nodes, or else validation nodes."""
        graph = self.subject.graph
        for nodes, name in ((graph.test, "test nodes"), (graph.val, "validation nodes")):
            if (self.labels[nodes] >= 0).any():
                return nodes[self.labels[nodes] >= 0], name
        raise GsscError("no test or validation node has a label to compare with")


def _learning(run: _Plotted, figure: Figure) -> None:
    axes = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 2)})
    learning_curves(run.epochs, axes, kept=run.metrics.get("best_epoch"), metric=run.metrics.get("metric", "accuracy"))


def _edges(run: _Plotted, figure: Figure) -> None:
    if "edges_kept" not in run.epochs or not run.epochs["edges_kept"].any():
        raise GsscError("the run kept no record of edges")
    edge_curves(run.epochs, run.metrics.get("edges_total"), figure.subplots(2, 1, sharex=True))


def _confusion(run: _Plotted, figure: Figure) -> None:
    nodes, name = run.judged
    names = run.subject.model.class_names
    figure.set_size_inches(*matrix_size(len(names)))
    confusion_matrix(run.labels[nodes], run.probabilities[nodes].argmax(axis=1), names, figure.subplots(), of_what=name)


def _reliability(run: _Plotted, figure: Figure) -> None:
    nodes, name = run.judged
    figure.set_size_inches(5.0, 5.4)
    axes = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 1)})
    reliability_diagram(run.probabilities[nodes], run.labels[nodes], axes, of_what=name)


def _map(run: _Plotted, figure: Figure) -> None:
    graph, model = run.subject.graph, run.subject.model
    count = min(MOST_POINTS, graph.num_nodes)
    if count < 3:
        raise GsscError("the graph has fewer than three nodes")
    nodes = np.sort(np.random.default_rng(run.seed).choice(graph.num_nodes, count, replace=False))
    rows = graph.features[nodes]
    embedding = model.embed(rows) if len(model.layers) > 1 else model.logits(rows)
    figure.set_size_inches(6.6, 6.0)
    shown = f"{count:,} of {graph.num_nodes:,} nodes" if count < graph.num_nodes else f"{count:,} nodes"
    title = f"Map of embeddings, {shown}, coloured by true class"
    embedding_map(project(embedding, run.seed), run.labels[nodes], model.class_names, figure.subplots(), title=title)


def _keep(run: _Plotted, figure: Figure) -> None:
    keep, edges = run.subject.keep_probability, run.subject.graph.edges
    if keep is None:
        raise GsscError(run.subject.notes[0] if run.subject.notes else "no keep probability is known")
    first, second = run.labels[edges]
    known = (first >= 0) & (second >= 0)
    if not known.any():
        raise GsscError("no edge has a label at both ends")
    keep_probability_histogram(keep[known], (first == second)[known], figure.subplots())


PLOTS: dict[str, Callable[[_Plotted, Figure], None]] = {
    "learning_curves": _learning,
    "edges": _edges,
    "confusion_matrix": _confusion,
    "reliability": _reliability,
    "embedding_map": _map,
    "keep_probability": _keep,
}


def plot_run(
    run: str | Path,
    out: str | Path | None = None,
    *,
    plots: Iterable[str] | None = None,
    style: Style = "light",
    file_format: str = "png",
    graph: str | Path | Graph | None = None,
    data_root: str | None = None,
    seed: int = 0,
    on_plot: Callable[[str], None] | None = None,
) -> Written:
    """Draw the plots of a run and write one image file per plot.

    A plot for which the run has no data is skipped, and the reason is returned. True labels of test nodes are read:
    plots show results, and nothing is chosen by them.

    Args:
        run: folder of a run, or of a saved classifier together with ``graph``.
        out: folder for the images; ``plots`` inside the run folder if left out.
        plots: names of plots in :data:`PLOTS`; all if left out.
        style: ``light`` or ``dark``.
        file_format: ``png``, ``svg`` or ``pdf``.
        graph: another graph to predict, or the graph of a saved classifier's table.
        data_root: folder with data files, see :func:`gssc.data.load_dataset`.
        seed: seed of the nodes on the map and of its projection.
        on_plot: called with the name of each plot before it is drawn.
    """
    folder = Path(run)
    if not folder.is_dir():
        raise GsscError(f"{folder} is not a folder: give the run folder that gssc train wrote")
    names = list(PLOTS if plots is None else plots)
    for name in names:
        if name not in PLOTS:
            raise GsscError(f"there is no plot {name!r}: {nearest(name, PLOTS)}")
    if file_format not in FORMATS:
        raise GsscError(f"the format is {file_format!r}; it must be one of {', '.join(FORMATS)}")
    figures = require("matplotlib.figure", extra="report")
    target = folder / "plots" if out is None else Path(out)
    plotted = _Plotted(folder, graph, data_root, seed)
    written = Written({}, {})
    with plot_style(style):
        for name in names:
            if on_plot:
                on_plot(name)
            figure = figures.Figure(figsize=(7.6, 5.4 if name in ("learning_curves", "edges") else 4.0))
            try:
                PLOTS[name](plotted, figure)
            except GsscError as error:
                written.skipped[name] = str(error)
                continue
            target.mkdir(parents=True, exist_ok=True)
            with atomic_write(target / f"{name}.{file_format}") as temporary:
                figure.savefig(temporary, format=file_format)
            written.files[name] = target / f"{name}.{file_format}"
    if not written.files:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in written.skipped.items())
        raise GsscError(f"nothing to plot in {folder}: {reasons}")
    return written
