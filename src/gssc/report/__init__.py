"""Plots of a run, drawn with matplotlib: learning curves, edges kept, errors, calibration, embeddings.

Every plot is a function of arrays that draws on the axes you give it. :func:`plot_run` draws them all from a run
folder. Needs the extra ``report``; those that need a run's model or graph need ``train`` as well.
"""

from gssc.report.calibration import reliability_diagram
from gssc.report.classes import confusion_matrix
from gssc.report.curves import edge_curves, epoch_columns, learning_curves, read_epochs
from gssc.report.edges import keep_probability_histogram
from gssc.report.embedding import embedding_map, project
from gssc.report.run_plots import PLOTS, plot_run
from gssc.report.style import plot_style

__all__ = [
    "PLOTS",
    "confusion_matrix",
    "edge_curves",
    "embedding_map",
    "epoch_columns",
    "keep_probability_histogram",
    "learning_curves",
    "plot_run",
    "plot_style",
    "project",
    "read_epochs",
    "reliability_diagram",
]
