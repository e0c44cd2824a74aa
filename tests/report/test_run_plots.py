from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gssc.cli.main import main
from gssc.config import parse_config
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.report import PLOTS, plot_run
from gssc.run import Run

SHORT = {
    "train": {"epochs": 2, "warmup_epochs": 2},
    "consolidate": {"epochs": 1},
    "sparsifier": {"pretrain_epochs": 2, "hidden": 8},
    "model": {"name": "str_contrast", "hidden": 8},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A real run on two classes of 20 nodes, with a file of its graph beside it."""
    folder = tmp_path_factory.mktemp("plots")
    classes = np.repeat([0, 1], 20)
    features = np.random.default_rng(0).random((40, 5)).astype(np.float32)
    features[np.arange(40), classes] += 2
    Graph(
        features,
        np.stack([np.arange(39), np.arange(1, 40)]),
        labels=np.array(["low", "high"])[classes],
        train=np.arange(0, 40, 4),
        val=[1, 21],
        test=np.arange(2, 40, 4),
    ).save(folder / "graph.npz")
    Run(folder / "run", parse_config(SHORT, {"data": {"graph": str(folder / "graph.npz")}})).train()
    return folder


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_every_plot_of_a_run(trained: Path, tmp_path: Path) -> None:
    written = plot_run(trained / "run", tmp_path / "out", style="dark")
    assert list(written.files) == list(PLOTS)
    assert written.skipped == {}
    assert all(is_png(path) for path in written.files.values())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.png" for name in PLOTS)


def test_the_command(trained: Path, capsys) -> None:
    assert main(["plot", str(trained / "run"), "--only", "learning_curves, edges", "--format", "svg"]) == 0
    shown = capsys.readouterr().out.split()
    assert shown == [str(trained / "run" / "plots" / f"{name}.svg") for name in ("learning_curves", "edges")]
    assert (trained / "run" / "plots" / "edges.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_a_saved_model_has_no_curves(trained: Path, tmp_path: Path, capsys) -> None:
    DeployedModel.load(trained / "run").save(tmp_path / "classifier")
    graph = str(trained / "graph.npz")
    assert main(["plot", str(tmp_path / "classifier"), "--graph", graph, "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "skipped learning_curves" in shown
    assert "skipped keep_probability: a saved classifier keeps no keep probabilities" in shown
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == [
        "confusion_matrix",
        "embedding_map",
        "reliability",
    ]


def test_targets_without_classes_have_curves_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, (12, 2)).astype(np.float32)
    graph = Graph(rng.random((12, 3)), [[0, 1, 2], [1, 2, 3]], targets, train=range(6), val=range(6, 12))
    graph.save(tmp_path / "graph.npz")
    Run(tmp_path / "run", parse_config(SHORT, {"data": {"graph": str(tmp_path / "graph.npz")}})).train()
    written = plot_run(tmp_path / "run")
    assert set(written.files) == {"learning_curves", "edges"}
    assert "multi-label" in written.skipped["confusion_matrix"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plots": ["confusion"]}, "there is no plot 'confusion': did you mean 'confusion_matrix'?"),
        ({"file_format": "gif"}, "must be one of png, svg, pdf"),
        ({"style": "blue"}, "light or dark"),
        ({"run": "nowhere"}, "nowhere is not a folder"),
    ],
)
def test_what_the_user_can_fix(trained: Path, tmp_path: Path, options, message: str) -> None:
    with pytest.raises(GsscError, match=message.replace("?", r"\?")):
        plot_run(**{"run": trained / "run", "out": tmp_path, **options})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_nothing_to_plot(tmp_path: Path) -> None:
    with pytest.raises(GsscError, match="nothing to plot in .*: learning_curves: .*metrics.jsonl is missing"):
        plot_run(tmp_path, plots=["learning_curves"])
