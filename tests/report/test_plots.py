from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from gssc import report
from gssc.errors import GsscError
from gssc.report.calibration import BINS
from gssc.report.classes import confusion_counts
from gssc.report.curves import with_gaps
from gssc.report.style import colours

RECORDS = [
    {"epoch": 0, "phase": "warm-up", "val_score": 0.5, "smoothness_loss": 1.0, "edges_kept": 10, "homophily": 0.6},
    {"epoch": 1, "phase": "alternate", "val_score": 0.7, "smoothness_loss": 0.5, "edges_kept": 8, "homophily": 0.7},
    {"epoch": 2, "phase": "consolidate", "val_score": 0.8, "smoothness_loss": 0.0, "edges_kept": 8, "homophily": None},
]


def test_learning_curves_show_what_was_recorded() -> None:
    above, below = report.learning_curves(
        report.epoch_columns(RECORDS), Figure().subplots(2, 1), kept=2, metric="roc_auc"
    )
    np.testing.assert_array_equal(above.lines[0].get_ydata(), [0.5, 0.7, 0.8])
    assert above.get_ylabel() == "roc auc"
    np.testing.assert_array_equal(below.lines[0].get_ydata(), [1.0, 0.5, np.nan], "no loss is a gap")
    written = {text.get_text() for text in above.texts}
    assert written == {"warm-up", "alternate", "consolidate", "kept: epoch 2"}


def test_losses_have_names_for_readers() -> None:
    records = [{"epoch": at, "phase": "alternate", "center_loss": 1.0, "sparsifier_loss": 2.0} for at in range(2)]
    _, below = report.learning_curves(report.epoch_columns(records), Figure().subplots(2, 1))
    assert [line.get_label() for line in below.lines] == ["class centres", "sparsifier"]


def test_scores_of_older_runs_are_drawn_too() -> None:
    old = report.epoch_columns([{"epoch": 0, "val_accuracy": 0.25}, {"epoch": 1, "val_accuracy": 0.5}])
    above, _ = report.learning_curves(old, Figure().subplots(2, 1))
    np.testing.assert_array_equal(above.lines[0].get_ydata(), [0.25, 0.5])


def test_edges_are_shares_of_what_there_is() -> None:
    above, below = report.edge_curves(report.epoch_columns(RECORDS), 16, Figure().subplots(2, 1))
    np.testing.assert_array_equal(above.lines[0].get_ydata(), [0.625, 0.5, 0.5])
    np.testing.assert_array_equal(below.lines[0].get_ydata(), [0.6, 0.7, np.nan])


def test_pairs_of_a_streamed_run_are_no_share_of_the_edges() -> None:
    records = [{"epoch": at, "phase": phase, "edges_kept": 24} for at, phase in enumerate(("pairs", "pairs", "rows"))]
    above, _ = report.edge_curves(report.epoch_columns(records), 10, Figure().subplots(2, 1))
    assert above.lines[0].get_ydata().tolist() == [24, 24, 24]
    assert above.get_ylabel() == "pairs trained on"
    assert above.get_ylim()[1] > 24


def test_confusion_counts_by_hand() -> None:
    labels, predicted = np.array([0, 0, 0, 1, 2, -1]), np.array([0, 0, 1, 1, 0, 2])
    assert confusion_counts(labels, predicted, 3).tolist() == [[2, 1, 0], [0, 1, 0], [1, 0, 0]]
    ax = report.confusion_matrix(labels, predicted, ["a", "b", "c"], Figure().subplots())
    assert ax.get_title() == "5 rows, 60.0% correct"
    np.testing.assert_allclose(ax.images[0].get_array()[0], [2 / 3, 1 / 3, 0])
    assert {text.get_text() for text in ax.texts} == {"2", "1"}


def test_reliability_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1]] * 4 + [[0.4, 0.6]] * 2 + [[1.0, 0.0]])
    labels = np.array([0, 0, 0, 1, 1, 1, -1])
    above, below = report.reliability_diagram(probabilities, labels, Figure().subplots(2, 1))
    points = above.containers[0].lines[0]
    np.testing.assert_allclose(points.get_xdata(), [0.6, 0.9])
    np.testing.assert_allclose(points.get_ydata(), [1, 0.75])
    counts = [bar.get_height() for bar in below.patches]
    assert (sum(counts), len(counts)) == (6, BINS)
    assert above.get_title() == "Reliability, calibration error 0.233"  # (4 x 0.15 + 2 x 0.4) / 6


def test_the_map_draws_every_node_once_and_names_its_class() -> None:
    points = np.arange(12.0).reshape(6, 2)
    ax = report.embedding_map(points, np.array([0, 0, 0, 1, 1, -1]), ["cat", "dog", "never seen"], Figure().subplots())
    assert [len(kind.get_offsets()) for kind in ax.collections] == [1, 3, 2, 0]
    assert [text.get_text() for text in ax.texts] == ["cat", "dog"]
    assert ax.texts[0].get_position() == (2, 3), "at the median of the class"


def test_the_projection_keeps_groups_apart() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 5)) + np.repeat([[0.0], [50.0]], 20, axis=0)
    places = report.project(rows)
    near = np.linalg.norm(places[:20] - places[:20].mean(axis=0), axis=1).max()
    assert np.linalg.norm(places[:20].mean(axis=0) - places[20:].mean(axis=0)) > near
    np.testing.assert_array_equal(places, report.project(rows))


def test_keep_probabilities_by_kind() -> None:
    keep = np.array([0.9, 0.8, 0.7, 0.75, 0.1, np.nan])
    ax = report.keep_probability_histogram(keep, np.array([1, 1, 1, 0, 0, 1]), Figure().subplots())
    assert ax.get_title() == "Keep probability of edges, ROC-AUC 0.83"  # 5 of 6 pairs in order
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "within a class (3, mean 0.80)",
        "between classes (2, mean 0.42)",
    ]


@pytest.mark.parametrize("count", [1, 10, 40])
def test_colours_differ(count: int) -> None:
    for style in ("light", "dark"):
        with report.plot_style(style):
            assert len(set(colours(count))) == count


def test_a_style_leaves_no_trace() -> None:
    before = matplotlib.rcParams["figure.facecolor"]
    with report.plot_style("dark"):
        assert matplotlib.rcParams["figure.facecolor"] != before
    assert matplotlib.rcParams["figure.facecolor"] == before
    with pytest.raises(GsscError, match="light or dark"), report.plot_style("blue"):
        pass


def test_plots_without_axes_make_their_own_figure() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = report.confusion_matrix(np.array([0]), np.array([0]), ["a name of a class that is long", "b"])
    assert ax.figure in map(pyplot.figure, pyplot.get_fignums())
    pyplot.close("all")


@pytest.mark.parametrize(
    ("content", "message"), [(None, "is missing"), ("", "is empty"), ('{"epoch": 0}\n{"epo', "is damaged")]
)
def test_unreadable_records(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content)
    with pytest.raises(GsscError, match=message):
        report.read_epochs(tmp_path)


def test_records_are_read_as_columns(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))
    epochs = report.read_epochs(tmp_path)
    assert epochs["phase"].tolist() == ["warm-up", "alternate", "consolidate"]
    np.testing.assert_array_equal(epochs["homophily"], [0.6, 0.7, np.nan])


def test_curves_of_different_models_are_not_joined() -> None:
    epochs = {
        "epoch": np.arange(5.0),
        "phase": np.array(["trees", "teachers", "pairs", "student 1, plain", "student 1, close"]),
    }
    at, values = with_gaps(epochs, np.arange(5.0))
    assert np.isnan(values).nonzero()[0].tolist() == [2, 4, 6]
    assert np.array_equal(np.isnan(at), np.isnan(values))
    one = {"epoch": np.arange(3.0), "phase": np.array(["warm-up", "alternate", "alternate"])}
    assert np.array_equal(with_gaps(one, np.arange(3.0))[1], np.arange(3.0))


def test_the_legend_of_keep_probabilities_covers_no_bar() -> None:
    keep, same = np.array([0.01, 0.02, 0.06, 0.9]), np.array([True, False, False, True])
    ax = report.keep_probability_histogram(keep, same, Figure().subplots())
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert not any(legend.overlaps(bar.get_window_extent()) for bar in ax.patches if bar.get_height() > 0)
