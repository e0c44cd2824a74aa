from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from gssc.data import csbm

QUICK = ("--model.hidden=16", "--sparsifier.hidden=8", "--sparsifier.pretrain_epochs=3", "--train.epochs=3",
         "--train.warmup_epochs=2",
    "--consolidate.epochs=1", "--train.normalize=none")  # fmt: skip


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    csbm(nodes=100, degree=4, seed=1).save(tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def test_train_then_predict_rows_the_graph_never_held(gssc, graph_file: Path, tmp_path: Path) -> None:
    done = gssc("train", "--graph", graph_file, "--out", "runs/mine", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
    width = csbm(nodes=100, degree=4, seed=1).num_features
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(0).standard_normal((7, width)).astype(np.float32))
    done = gssc("predict", "runs/mine", "rows.npz", "--out", "predictions.csv")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 8


def test_no_validation_nodes_trains_the_full_schedule_and_says_so(gssc, tmp_path: Path) -> None:
    csbm(nodes=60, degree=4).with_(val=[]).save(tmp_path / "graph.npz")
    done = gssc("train", "--graph", "graph.npz", "--out", "run", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "no validation nodes" in done.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["val_accuracy"], metrics["best_epoch"], metrics["epochs"]) == (None, 5, 6)


def test_a_class_without_training_label_is_refused_only_on_request(gssc, tmp_path: Path) -> None:
    graph = csbm(nodes=80, degree=4, classes=3)
    lacking = graph.train[graph.labels[graph.train] != 2]
    graph.with_(train=lacking).save(tmp_path / "graph.npz")
    done = gssc("train", "--graph", "graph.npz", "--out", "run", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "no training label" in done.stderr
    done = gssc("train", "--graph", "graph.npz", "--out", "other", "--data.require_all_classes=true", *QUICK)
    assert done.returncode == 2
    assert not (tmp_path / "other").exists()


def test_a_graph_file_without_masks_is_split_as_told(gssc, tmp_path: Path) -> None:
    csbm(nodes=60, degree=4).with_(train=[], val=[], test=[]).save(tmp_path / "graph.npz")
    done = gssc("train", "--graph", "graph.npz", "--out", "run", *QUICK)
    assert done.returncode == 2
    assert "no training nodes: give it a train_mask, or --split ratio:60/20/20" in done.stderr
    done = gssc("train", "--graph", "graph.npz", "--split", "ratio:50/25/25", "--out", "run", *QUICK)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["split"].startswith("ratio 50/25/25")
    csbm(nodes=60, degree=4).save(tmp_path / "graph.npz")
    done = gssc("train", "--graph", "graph.npz", "--split", "ratio:50/25/25", "--out", "other", *QUICK)
    assert done.returncode == 2
    assert "brings its own split" in done.stderr


def test_a_data_set_named_in_a_config_file_gets_its_recipe_too(gssc, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("data: {dataset: digits}\nmodel: {hidden: 16}\n")
    done = gssc("train", "--config", "c.yaml", "--out", "run", *QUICK[1:])
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (found["model"]["mix_by"], found["train"]["max_batches"]) == ("vector", 20)  # not the defaults
    assert found["model"]["hidden"] == 16
    (tmp_path / "c.yaml").write_text("train: {epochs: null}\n")
    done = gssc("train", "digits", "--config", "c.yaml", "--out", "other")
    assert done.returncode == 2
    assert "train.epochs is None" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("corra",), "did you mean 'cora'"),
        (("cora", "--graf", "g.npz"), "did you mean '--graph'"),
        (("--model.hiden=3",), "hiden"),
        ((), "name a data set"),
        (("--graph", "missing.npz"), "missing.npz"),
        (("--graph", "text.npz"), "text.npz"),
        (("--graph", "cut.npz"), "cut.npz"),
        (("--graph", "graph.npz", "--setting", "outductive"), "setting"),
        (("--graph", "graph.npz", "--preset", "papper"), "did you mean 'paper'"),
        (("--graph", "graph.npz", "--model.hidden", "wide"), "hidden"),
        (("--graph", "graph.npz", "--model.hidden", "0"), "hidden"),
        (("--graph", "graph.npz", "--model.dropout", "1.5"), "dropout"),
        (("--graph", "graph.npz", "--config", "missing.yaml"), "missing.yaml"),
        (("--graph", "graph.npz", "--out", "text.npz/run"), "text.npz"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_nothing_written(gssc, graph_file, tmp_path, arguments, message) -> None:
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "cut.npz").write_bytes(graph_file.read_bytes()[:500])
    before = {path.name for path in tmp_path.iterdir()}
    out = () if "--out" in arguments else ("--out", "run")
    done = gssc("train", *arguments, *out)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == before


def test_help_teaches(gssc) -> None:
    done = gssc("train", "--help")
    assert done.returncode == 0
    for word in ("--model.hidden", "width F of every hidden layer", "gssc train cora --out runs/cora", "--resume"):
        assert word in done.stdout


def test_names_with_brackets_are_shown_as_they_are(gssc, tmp_path: Path) -> None:
    graph = csbm(nodes=100, degree=4, seed=1)
    names = ("[/red]", *(f"[bold]{number}" for number in range(1, graph.num_classes)))
    graph.with_(class_names=names, name="[/a]").save(tmp_path / "graph.npz")
    done = gssc("train", "--graph", "graph.npz", "--out", "runs/[/m]", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "[/a] (" in done.stderr
    assert "saved to runs/[/m];" in done.stdout
    np.savez(tmp_path / "rows.npz", x=graph.features[:9])
    done = gssc("predict", "runs/[/m]", "rows.npz", "--out", "predictions.csv")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in names)
    done = gssc("export", "runs/[/m]", "--format", "card")
    assert done.returncode == 0, done.stderr
    assert "runs/[/m]/export-card/MODEL_CARD.md" in done.stdout
