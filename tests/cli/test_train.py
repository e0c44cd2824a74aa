from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console

from gssc.cli.train import show_choices
from gssc.data import csbm
from gssc.run import Run

SHORT = ("--model", "str_contrast", "--sparsifier.hidden=8", "--sparsifier.pretrain_epochs=3", "--train.epochs=3",
    "--train.warmup_epochs=2", "--consolidate.epochs=1", "--train.normalize=none")  # fmt: skip
QUICK = (*SHORT, "--model.hidden=16")


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
    assert (metrics["val_score"], metrics["best_epoch"], metrics["epochs"]) == (None, 5, 6)


def test_a_model_without_a_recipe_is_announced_with_defaults(gssc, graph_file: Path) -> None:
    done = gssc("train", "--graph", graph_file, "--out", "runs/fast", "--fast")
    assert done.returncode == 0, done.stderr
    assert "settings: defaults and options" in done.stderr


def test_the_next_command_is_one_that_a_shell_understands_and_one_class_is_noted(gssc, tmp_path: Path) -> None:
    graph = csbm(nodes=60, degree=4)
    graph.with_(labels=np.zeros(60, dtype=int), class_names=("only",)).save(tmp_path / "graph.npz")
    done = gssc("train", "--graph", "graph.npz", "--out", "my run", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "every label is of the same class" in done.stderr
    assert "next: gssc predict 'my run' ROWS" in done.stdout


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
    assert "has a split of its own" in done.stderr


def test_a_dataset_named_in_a_config_file_gets_its_recipe_too(gssc, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("data: {dataset: digits}\nmodel: {hidden: 16}\n")
    done = gssc("train", "--config", "c.yaml", "--out", "run", *SHORT)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (found["model"]["mix_by"], found["train"]["max_batches"]) == ("vector", 20)  # not the defaults
    assert found["model"]["hidden"] == 16
    (tmp_path / "c.yaml").write_text("model: {name: str_contrast}\ntrain: {epochs: null}\n")
    done = gssc("train", "digits", "--config", "c.yaml", "--out", "other")
    assert done.returncode == 2
    assert "train.epochs is None" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("corra",), "did you mean 'cora'"),
        (("cora", "--graf", "g.npz"), "did you mean '--graph'"),
        (("--model.hiden=3",), "hiden"),
        ((), "name a dataset"),
        (("--graph", "missing.npz"), "missing.npz"),
        (("--graph", "text.npz"), "text.npz"),
        (("--graph", "cut.npz"), "cut.npz"),
        (("--graph", "graph.npz", "--setting", "outductive"), "setting"),
        (("--graph", "graph.npz", "--preset", "papper"), "did you mean 'paper'"),
        (("--graph", "graph.npz", "--model.hidden", "wide"), "hidden"),
        (("--graph", "graph.npz", "--model.hidden", "-1"), "hidden"),
        (("--graph", "graph.npz", "--model.dropout", "1.5"), "dropout"),
        (("--graph", "graph.npz", "--model", "str_contrast", "--model.hidden", "1000000"), "not enough memory"),
        (("csbm", "--split", "fixed-0"), "it offers 20-per-class, per-class:<n>"),
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
    for word in ("--model.hidden", "width of every hidden layer", "gssc train cora --out runs/cora", "--resume"):
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


def test_a_run_goes_on_by_its_default_name_and_from_any_folder(gssc, graph_file: Path, tmp_path: Path) -> None:
    done = gssc("train", "--graph", "graph.npz", "--seed", "3", *QUICK, "--resume")
    assert done.returncode == 0, done.stderr
    assert "there was no run in runs/graph to resume: a new one begins" in done.stderr
    for arguments in (("--graph", "graph.npz"), ("--out", "runs/graph"), ("--out", tmp_path / "runs" / "graph")):
        done = gssc("train", *arguments, "--resume")
        assert done.returncode == 0, done.stderr
        assert "is finished already" in done.stderr
        assert "settings: those of the run" in done.stderr
    (tmp_path / "elsewhere").mkdir()
    done = gssc("train", "--out", "../runs/graph", "--resume", cwd=tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", [("--preset", "paper"), ("--config", "other.yaml"), ("--overwrite",)])
def test_a_run_does_not_go_on_with_other_settings(gssc, graph_file: Path, tmp_path: Path, option) -> None:
    (tmp_path / "other.yaml").write_text("model: {dropout: 0.125}\n")
    assert gssc("train", "--graph", "graph.npz", "--out", "run", *QUICK).returncode == 0
    done = gssc("train", "--out", "run", "--resume", *option)
    assert done.returncode == 2
    assert "cannot resume run with other settings" in done.stderr or "give one of the two" in done.stderr


def test_a_run_does_not_go_on_with_another_model(gssc, graph_file: Path) -> None:
    assert gssc("train", "--graph", "graph.npz", "--out", "run", *QUICK).returncode == 0
    done = gssc("train", "--out", "run", "--resume", "--model", "gssc")
    assert done.returncode == 2
    assert "cannot resume run with another model: it trains str_contrast, not gssc" in done.stderr


def test_a_section_may_come_from_a_file_and_what_is_typed_replaces_the_data_of_one(gssc, graph_file, tmp_path) -> None:
    (tmp_path / "model.yaml").write_text("name: str_contrast\nhidden: 12\n")
    (tmp_path / "all.yaml").write_text("data: {dataset: cora}\nmodel: {dropout: 0.25}\n")
    done = gssc("train", "--graph", "graph.npz", "--out", "run", *SHORT[2:], "--model", "model.yaml")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["model"]["hidden"] == 12
    done = gssc("train", "--graph", "graph.npz", "--config", "all.yaml", "--out", "other", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "all.yaml" in done.stderr
    assert yaml.safe_load((tmp_path / "other" / "config.yaml").read_text())["model"]["dropout"] == 0.25


@pytest.mark.parametrize("text", ["data: csbm", "data: [csbm]", "data: {dataset: csbm, split: 5}"])
def test_odd_data_in_a_config_file_is_one_line(gssc, tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    done = gssc("train", "--config", "odd.yaml", "--out", "run")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "data" in done.stderr


def test_a_folder_without_a_run_cannot_be_gone_on_with(gssc) -> None:
    done = gssc("train", "--out", "nowhere", "--resume")
    assert done.returncode == 2
    assert "there is no run in nowhere" in done.stderr


def test_a_full_disk_is_one_line(graph_file: Path, tmp_path: Path) -> None:
    command = "ulimit -f 8; exec " + " ".join(
        [sys.executable, "-m", "gssc", "train", "--graph", "graph.npz", "--out", "run"]
    )
    done = subprocess.run(["bash", "-c", f"{command} --model.hidden=256"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "cannot write" in last
    assert "make room on the disk" in last


def test_a_rival_is_a_run_too(gssc, graph_file: Path, tmp_path: Path) -> None:
    options = ("--graph", "graph.npz", "--train.epochs=4", "--model.hidden=8")
    done = gssc("train", *options, "--model", "gcn", "--out", "gcn")
    assert done.returncode == 0, done.stderr
    assert "scores.npz" in done.stdout
    assert "gcn passes messages" in done.stdout
    found = yaml.safe_load((tmp_path / "gcn" / "config.yaml").read_text())
    assert (found["model"]["name"], found["model"]["hidden"], found["train"]["epochs"]) == ("gcn", 8, 4)
    done = gssc("train", "--out", "gcn", "--resume")
    assert done.returncode == 0, done.stderr
    assert "is finished already" in done.stderr
    done = gssc("train", *options, "--model=mlp", "--out", "mlp")
    assert done.returncode == 0, done.stderr
    np.savez(tmp_path / "rows.npz", x=csbm(nodes=100, degree=4, seed=1).features[:5])
    assert gssc("predict", "mlp", "rows.npz", "--out", "predictions.csv").returncode == 0


@pytest.mark.parametrize("model", ["glnn", "link_dist", "graph_mlp"])
def test_a_rival_without_a_graph_is_exported_and_predicts(gssc, graph_file: Path, tmp_path: Path, model: str) -> None:
    options = ("--train.epochs=3", "--model.hidden=8", *(["--teacher.max_epochs=3"] if model == "glnn" else []))
    done = gssc("train", "--graph", "graph.npz", "--model", model, "--out", "run", *options)
    assert done.returncode == 0, done.stderr
    np.savez(tmp_path / "rows.npz", x=csbm(nodes=100, degree=4, seed=1).features[:5])
    assert gssc("predict", "run", "rows.npz", "--out", "predictions.csv").returncode == 0
    done = gssc("export", "run", "--format", "numpy")
    assert done.returncode == 0, done.stderr
    assert "of 64 generated rows differ by at most" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "gcnn"), "did you mean 'gcn'"),
        (("--model", "gcn", "--model.mix_by", "off"), "mix_by"),
        (("--model", "gcn", "--consolidate.epochs", "3"), "consolidate"),
        (("--model", "mlp", "--sparsifier.name", "drop_edge"), "does not use edges"),
    ],
)
def test_settings_a_rival_does_not_have_are_refused(gssc, graph_file: Path, arguments, message) -> None:
    done = gssc("train", "--graph", "graph.npz", "--out", "run", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_training_after_the_epoch_with_the_code_shells_expect(
    graph_file: Path, tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "gssc", "train", "--graph", str(graph_file), "--out", "run", *QUICK]
    process = subprocess.Popen(
        [*command, "--train.epochs=100000", "--train.patience=100000"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in the background
    )
    log = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 3):
        time.sleep(0.01)
    process.send_signal(number)
    message = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + number
    assert "resume with: gssc train --out run --resume" in message
    epochs = log.read_text().count("\n")
    again = Run(tmp_path / "run", resume=True)
    assert again.training.epoch == epochs  # every line of the log is in the checkpoint


def test_choices_are_a_line_each_in_a_log_and_wrapped_beside_the_name_on_a_terminal() -> None:
    choices = {"pairs": "no: as set", "normalize": "row: held-out score of linear models on rows"}
    log = Console(file=io.StringIO(), width=30)
    show_choices(log, choices)
    assert log.file.getvalue() == (
        "  pairs      no: as set\n  normalize  row: held-out score of linear models on rows\n"
    )
    terminal = Console(file=io.StringIO(), width=30, force_terminal=True, color_system=None, markup=False)
    show_choices(terminal, choices)
    lines = [line.rstrip() for line in terminal.file.getvalue().splitlines()]
    assert lines[:2] == ["pairs      no: as set", "normalize  row: held-out score"]
    assert lines[2:] == [" " * 11 + "of linear models on", " " * 11 + "rows"]
