"""Run folders: written whole, resumed after a real kill, and the ones that are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from gssc import run_folder
from gssc.cli.main import main
from gssc.config import ContrastConfig, RunConfig, parse_config
from gssc.data import csbm
from gssc.deploy import DeployedModel
from gssc.deploy.export import export_run
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.recipes import config_for
from gssc.result import fit
from gssc.run import Run
from gssc.train.checkpoint import load_checkpoint, save_checkpoint

FILES = {"config.yaml", "metrics.jsonl", "metrics.json", "model.safetensors", "model.json", "edges.npz"}


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.npz"
    csbm(nodes=120, seed=3).save(path)
    return path


def settings(graph_file: Path, **train: object) -> ContrastConfig:
    schedule = {"epochs": 6, "warmup_epochs": 4, "batch_size": 64, "normalize": "none", **train}
    return parse_config(
        {
            "data": {"graph": str(graph_file)},
            "model": {"name": "str_contrast", "hidden": 16},
            "sparsifier": {"hidden": 8, "pretrain_epochs": 5},
            "train": schedule,
            "consolidate": {"epochs": 2},
        }
    )


def test_a_run_folder_holds_everything(graph_file: Path, tmp_path: Path) -> None:
    config = settings(graph_file)
    run = Run(tmp_path / "run", config)
    metrics = run.train()
    assert {path.name for path in run.folder.iterdir()} == FILES
    assert metrics == json.loads((run.folder / "metrics.json").read_text())
    expected = {"dataset", "split", "setting", "seed", "val_score", "test_score", "seconds", "epochs"}
    assert expected | {"edges_kept", "versions"} <= set(metrics)
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == metrics["epochs"] == 12
    (best,) = [line for line in lines if line["best"]]
    assert best["epoch"] == metrics["best_epoch"]
    assert metrics["kept_because"]
    assert best["val_score"] == pytest.approx(metrics["val_score"], abs=1e-6)

    edges = np.load(run.folder / "edges.npz")
    assert np.array_equal(edges["edge_index"], run.graph.edges)
    assert ((edges["keep_probability"] > 0) & (edges["keep_probability"] <= 1)).all()

    model = DeployedModel.load(run.folder)
    assert model.temperature == pytest.approx(metrics["calibration"]["temperature"], abs=1e-5)
    assert 0 <= metrics["calibration"]["test_error_after"] <= 1
    logits = run.result.scores
    assert np.allclose(model.logits(run.graph.features), logits, atol=1e-5)
    accuracy = (model.predict(run.graph.features) == run.graph.labels)[run.graph.test].mean()
    assert accuracy == pytest.approx(metrics["test_score"], abs=1e-6)


def test_an_existing_run_is_refused_resumed_or_replaced(graph_file: Path, tmp_path: Path) -> None:
    config = settings(graph_file)
    first = Run(tmp_path / "run", config).train()
    with pytest.raises(GsscError, match="--resume to continue it or --overwrite"):
        Run(tmp_path / "run", config)
    assert Run(tmp_path / "run", config, resume=True).train() == first
    assert Run(tmp_path / "run", resume=True).train() == first  # with the settings it began with
    with pytest.raises(GsscError, match=r"train\.lr was 0\.01, now 0\.5"):
        Run(tmp_path / "run", settings(graph_file, lr=0.5), resume=True)
    again = Run(tmp_path / "run", settings(graph_file, seed=1), overwrite=True).train()
    assert again["seed"] == 1


def test_a_run_of_an_earlier_version_is_resumed_or_refused_with_what_to_do(graph_file: Path, tmp_path: Path) -> None:
    first = Run(tmp_path / "run", settings(graph_file, epochs=1, warmup_epochs=1)).train()
    config = tmp_path / "run" / "config.yaml"
    present = config.read_text()
    config.write_text(present.replace("train:\n", "train:\n  select: accuracy\n"))  # what is always done now
    assert Run(tmp_path / "run", resume=True).train() == first
    config.write_text(present.replace("train:\n", "train:\n  select: loss\n"))
    for given in (None, settings(graph_file, epochs=1, warmup_epochs=1)):
        with pytest.raises(GsscError, match=r"config\.yaml does not fit .*train\.select.* correct that line of"):
            Run(tmp_path / "run", given, resume=True)


def test_numbers_of_numpy_are_numbers_in_the_folder_too(graph_file: Path, tmp_path: Path) -> None:
    config = settings(graph_file, epochs=1, warmup_epochs=1)
    config.train.seed, config.train.lr, config.model.dropout = np.int64(3), np.float32(0.25), np.float64(0.5)
    Run(tmp_path / "run", config).train()
    again = parse_config(yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()))
    assert (again.train.seed, again.train.lr, again.model.dropout) == (3, 0.25, 0.5)


def test_a_folder_that_is_no_run_is_left_alone(graph_file: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("keep me")
    with pytest.raises(GsscError, match="not a run of gssc"):
        Run(tmp_path / "letters", settings(graph_file), overwrite=True)
    assert (tmp_path / "letters" / "dear.txt").read_text() == "keep me"


def test_a_bad_graph_leaves_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "graph.npz").write_bytes(b"PK not really")
    with pytest.raises(GsscError):
        Run(tmp_path / "run", settings(tmp_path / "graph.npz"))
    assert not (tmp_path / "run").exists()


def test_another_graph_is_not_taken_up(graph_file: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", settings(graph_file))
    for number, record in enumerate(run.training.epochs()):
        run.log.append(asdict(record))
        if number == 3:
            run._save_checkpoint()
            break
    del run
    csbm(nodes=120, seed=4).save(graph_file)
    with pytest.raises(GsscError, match="not the one the run began with"):
        Run(tmp_path / "run", settings(graph_file), resume=True)


def test_other_edge_weights_are_another_graph(graph_file: Path, tmp_path: Path) -> None:
    weight = np.linspace(1, 2, csbm(nodes=120).num_edges)
    csbm(nodes=120).with_(edge_weight=weight).save(graph_file)
    Run(tmp_path / "run", settings(graph_file))
    csbm(nodes=120).with_(edge_weight=weight[::-1]).save(graph_file)
    with pytest.raises(GsscError, match="not the one the run began with"):
        Run(tmp_path / "run", settings(graph_file), resume=True)


@pytest.mark.parametrize("finished", [False, True])
def test_another_graph_is_not_taken_up_before_the_first_epoch_nor_after_the_last(
    graph_file: Path, tmp_path: Path, finished: bool
) -> None:
    run = Run(tmp_path / "run", settings(graph_file))
    if finished:
        run.train()
    del run
    csbm(nodes=120, seed=4).save(graph_file)
    with pytest.raises(GsscError, match="not the one the run began with"):
        Run(tmp_path / "run", settings(graph_file), resume=True)


def test_two_at_once_in_one_folder_are_one_too_many(graph_file: Path, tmp_path: Path) -> None:
    first = Run(tmp_path / "run", settings(graph_file))
    for how in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(GsscError, match="another process is at work in"):
            Run(tmp_path / "run", settings(graph_file), **how)
    first.train()
    assert Run(tmp_path / "run", settings(graph_file), resume=True).finished


def test_files_of_another_program_are_not_overwritten(graph_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.yaml").write_text("my: settings\n")
    (folder / "edges.npz").write_bytes(b"mine")
    for how in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(GsscError, match="not a run of gssc"):
            Run(folder, settings(graph_file), **how)
    assert (folder / "config.yaml").read_text() == "my: settings\n"
    assert (folder / "edges.npz").read_bytes() == b"mine"


QUICK = {"epochs": 1, "warmup_epochs": 1}
OF_ANOTHER_PROGRAM = [
    *("model: {name: resnet}\ntrain: {epochs: 3}\n", "{}\n", "a: [1\n", "model:\n"),
    "data: 1\nmodel: 2\nsparsifier: 3\ntrain: 4\n",
    "data: {}\nmodel: {}\nsparsifier: {}\ntrain: {}\n",
]


@pytest.mark.parametrize("content", OF_ANOTHER_PROGRAM)
def test_a_config_with_our_sections_does_not_make_a_run(graph_file: Path, tmp_path: Path, content: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.yaml").write_text(content)
    (folder / "model.safetensors").write_bytes(b"weights of another program")
    for how in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(GsscError, match="not a run of gssc"):
            Run(folder, settings(graph_file), **how)
    assert (folder / "config.yaml").read_text() == content
    assert (folder / "model.safetensors").read_bytes() == b"weights of another program"


def test_a_run_without_the_mark_of_later_versions_is_a_run(graph_file: Path, tmp_path: Path) -> None:
    Run(tmp_path / "run", settings(graph_file)).train()
    config = tmp_path / "run" / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text())))
    assert Run(tmp_path / "run", settings(graph_file), resume=True).finished


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}, {}])
def test_a_kill_while_the_config_was_written_is_no_obstacle(graph_file: Path, tmp_path: Path, how: dict) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.0123456789ab.yaml").write_text("data:\n  data")
    assert Run(tmp_path / "run", settings(graph_file), **how).train()["epochs"] == 12


def test_the_old_run_survives_a_new_one_that_diverges(graph_file: Path, tmp_path: Path) -> None:
    Run(tmp_path / "run", settings(graph_file)).train()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    diverging = settings(graph_file)
    diverging.train.lr = 1e30
    with pytest.raises(GsscError, match=r"diverged in epoch \d.*; the run before it is still in .*run$"):
        Run(tmp_path / "run", diverging, overwrite=True).train()
    assert {name: (tmp_path / "run" / name).read_bytes() for name in before} == before
    again = Run(tmp_path / "run", settings(graph_file, seed=1), overwrite=True).train()
    assert again["seed"] == json.loads((tmp_path / "run" / "metrics.json").read_text())["seed"] == 1
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES


def test_an_interrupted_replacement_goes_on_and_then_takes_the_place(graph_file: Path, tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", settings(graph_file, seed=1))
    whole.train()
    Run(tmp_path / "run", settings(graph_file)).train()
    old = (tmp_path / "run" / "model.safetensors").read_bytes()
    run = Run(tmp_path / "run", settings(graph_file, seed=1), overwrite=True)
    with pytest.raises(KeyboardInterrupt):
        run.train(lambda epoch: interrupt(run))
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == old
    with pytest.raises(GsscError, match=r"train\.seed was 1, now 0"):
        Run(tmp_path / "run", settings(graph_file), resume=True)
    resumed = Run(tmp_path / "run", settings(graph_file, seed=1), resume=True)
    assert resumed.resumed
    resumed.train()
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES


def interrupt(run: Run) -> None:
    run._save_checkpoint()
    raise KeyboardInterrupt


@pytest.mark.parametrize("moved", [0, 1, 4])
def test_a_replacement_cut_off_while_it_moves_is_completed(graph_file: Path, tmp_path: Path, moved: int) -> None:
    for name, seed in (("run", 0), ("new", 1)):
        Run(tmp_path / name, settings(graph_file, seed=seed, **QUICK)).train()
    expected = (tmp_path / "new" / "model.safetensors").read_bytes()
    (tmp_path / "new").rename(tmp_path / "run" / ".done")
    if moved:
        (tmp_path / "run" / ".done" / ".moving").touch()
    for name in [name for name in reversed(run_folder.FILES) if name in FILES][:moved]:
        (tmp_path / "run" / ".done" / name).replace(tmp_path / "run" / name)
    assert Run(tmp_path / "run", settings(graph_file, seed=1, **QUICK), resume=True).train()["seed"] == 1
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES


def test_resuming_and_overwriting_exclude_each_other(graph_file: Path, tmp_path: Path) -> None:
    with pytest.raises(GsscError, match="give one of the two"):
        Run(tmp_path / "run", settings(graph_file), resume=True, overwrite=True)


def test_a_result_that_is_none_says_so(graph_file: Path, tmp_path: Path) -> None:
    Run(tmp_path / "run", settings(graph_file)).train()
    (tmp_path / "run" / "metrics.json").write_text("{}")
    with pytest.raises(GsscError, match="is not the result of a run"):
        Run(tmp_path / "run", settings(graph_file), resume=True)


def test_a_damaged_checkpoint_says_so(graph_file: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", settings(graph_file))
    (run.folder / "checkpoint.safetensors").write_bytes(b"half a file")
    del run
    with pytest.raises(GsscError, match="not a readable checkpoint"):
        Run(tmp_path / "run", settings(graph_file), resume=True)


TRAIN_AND_BE_KILLED = """
import os, signal, sys, threading, time
import gssc.run
gssc.run.SECONDS_BETWEEN_CHECKPOINTS = 0.0
from gssc.cli.main import main

def kill_after_lines(path, lines):
    while not (os.path.exists(path) and len(open(path).read().splitlines()) >= lines):
        time.sleep(0.0005)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill_after_lines, args=(sys.argv[1], int(sys.argv[2])), daemon=True).start()
main(sys.argv[3:])
"""
OPTIONS = [
    "--model", "str_contrast", "--model.hidden=16", "--sparsifier.hidden=8", "--sparsifier.pretrain_epochs=5",
    "--train.epochs=6", "--train.warmup_epochs=5", "--consolidate.epochs=9",
    "--train.batch_size=64", "--train.normalize=none",
]  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    csbm(nodes=120, seed=3).save(folder / "graph.npz")
    assert main(["train", "--graph", str(folder / "graph.npz"), "--out", str(folder / "run"), *OPTIONS]) == 0
    return folder


@pytest.mark.parametrize("lines_before_kill", [1, 6, 13])
def test_a_killed_process_resumes_to_the_same_weights(
    uninterrupted: Path, tmp_path: Path, lines_before_kill: int
) -> None:
    whole, killed = uninterrupted / "run", tmp_path / "killed"
    arguments = ["train", "--graph", str(uninterrupted / "graph.npz"), "--out", str(killed), *OPTIONS]
    watch = [str(killed / "metrics.jsonl"), str(lines_before_kill)]
    process = subprocess.run([sys.executable, "-c", TRAIN_AND_BE_KILLED, *watch, *arguments], capture_output=True)
    assert process.returncode == -signal.SIGKILL, "finished before it was killed"
    assert not (killed / "metrics.json").exists()

    assert main(["train", "--out", str(killed), "--resume"]) == 0
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert np.array_equal(
        np.load(killed / "edges.npz")["keep_probability"], np.load(whole / "edges.npz")["keep_probability"]
    )
    epochs = [json.loads(line)["epoch"] for line in (killed / "metrics.jsonl").read_text().splitlines()]
    assert epochs == [json.loads(line)["epoch"] for line in (whole / "metrics.jsonl").read_text().splitlines()]


def test_the_seed_decides_every_byte(graph_file: Path, tmp_path: Path) -> None:
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        Run(tmp_path / name, settings(graph_file, seed=seed)).train()
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody may write, not even root")
def test_an_unwritable_place_is_named(graph_file: Path) -> None:
    with pytest.raises(GsscError, match="cannot write"):
        Run(Path("/proc/self/run"), settings(graph_file))


def test_a_log_is_json_to_the_last_number_without_validation_nodes(graph_file: Path, tmp_path: Path) -> None:
    graph = Graph.load(graph_file)
    graph.with_(val=[]).save(tmp_path / "unjudged.npz")
    Run(tmp_path / "run", settings(tmp_path / "unjudged.npz")).train()

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line, parse_constant=refuse)["val_score"] for line in lines} == {None}


def test_starting_over_takes_exports_of_the_old_model_with_it(graph_file: Path, tmp_path: Path) -> None:
    Run(tmp_path / "run", settings(graph_file)).train()
    export = export_run(tmp_path / "run", "numpy").folder
    (export / "notes.txt").write_text("mine")
    with pytest.raises(GsscError, match=r"notes\.txt"):
        Run(tmp_path / "run", settings(graph_file, seed=1), overwrite=True)
    assert (tmp_path / "run" / "metrics.json").exists()
    (export / "notes.txt").unlink()
    Run(tmp_path / "run", settings(graph_file, seed=1), overwrite=True).train()
    assert not export.exists()


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_result_is_named(graph_file: Path, tmp_path: Path, content: str) -> None:
    Run(tmp_path / "run", settings(graph_file)).train()
    (tmp_path / "run" / "metrics.json").write_text(content)
    with pytest.raises(GsscError, match=r"metrics\.json is damaged"):
        Run(tmp_path / "run", settings(graph_file), resume=True).train()


@pytest.mark.parametrize("missing", [None, "graph", "lines"])
def test_a_checkpoint_of_another_version_is_refused(graph_file: Path, tmp_path: Path, missing: str | None) -> None:
    run = Run(tmp_path / "run", settings(graph_file))
    run.train(lambda epoch: run._save_checkpoint())
    (tmp_path / "run" / "metrics.json").unlink()
    run._save_checkpoint()
    state = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    if missing:
        del state[missing]
    else:
        del state["training"]["consensus"]["merit"]
    save_checkpoint(tmp_path / "run" / "checkpoint.safetensors", state)
    with pytest.raises(GsscError, match=r"another version of gssc.*--overwrite"):
        Run(tmp_path / "run", settings(graph_file), resume=True)


LAST_GOOD = r"; the last good checkpoint is .*run/checkpoint\.safetensors, before epoch 0$"


def test_a_run_that_diverges_stops_and_says_what_to_do(graph_file: Path, tmp_path: Path) -> None:
    config = settings(graph_file)
    config.train.lr = 1e30
    with pytest.raises(
        GsscError, match=rf"diverged in epoch 0, batch \d: .*lower train\.lr \(now 1e\+30\).*{LAST_GOOD}"
    ):
        Run(tmp_path / "run", config).train()


def test_a_file_in_the_way_is_named(graph_file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(GsscError, match="taken"):
        Run(tmp_path / "taken" / "run", settings(graph_file))


def quick(model: str) -> RunConfig:
    return config_for(model, "csbm", "", {"train": {"normalize": "none"}}).shortened(6)


@pytest.mark.parametrize("model", ["gcn", "mlp", "glnn", "label_spreading", "str_contrast"])
def test_any_model_is_a_run_on_a_graph_in_memory(model: str, tmp_path: Path) -> None:
    graph = csbm(nodes=80, degree=4, seed=3)
    config = quick(model)
    whole = Run(tmp_path / "whole", config, graph)
    metrics = whole.train()
    assert metrics["model"] == model
    assert metrics["edges_kept"] <= metrics["edges_total"] == graph.num_edges
    assert whole.result.scores.shape == (80, graph.num_classes)
    if metrics.get("needs_graph"):
        assert np.array_equal(np.load(tmp_path / "whole" / "scores.npz")["scores"], whole.result.scores)
        assert not (tmp_path / "whole" / "model.json").exists()
    else:
        assert np.allclose(
            DeployedModel.load(tmp_path / "whole").logits(graph.features), whole.result.scores, atol=1e-4
        )

    stopped = Run(tmp_path / "stopped", config, graph)
    for number, record in enumerate(stopped.training.epochs()):
        stopped.log.append(asdict(record))
        if number == 2:
            stopped._save_checkpoint()
            break
    del stopped
    resumed = Run(tmp_path / "stopped", config, graph, resume=True)
    assert resumed.resumed
    again = resumed.train()
    assert np.array_equal(resumed.result.scores, whole.result.scores)
    assert {**again, "seconds": 0} == {**metrics, "seconds": 0}


def test_a_graph_is_given_or_named_not_both(graph_file: Path, tmp_path: Path) -> None:
    with pytest.raises(GsscError, match="one of them"):
        Run(tmp_path / "run", settings(graph_file), csbm(nodes=60, degree=4))
    assert not (tmp_path / "run").exists()


def test_fit_and_run_give_the_same_model(tmp_path: Path) -> None:
    graph, config = csbm(nodes=80, degree=4, seed=3), quick("str_contrast")
    Run(tmp_path / "run", config, graph).train()
    from_folder, from_memory = DeployedModel.load(tmp_path / "run"), fit(graph, config).deployed()
    assert from_folder.temperature == pytest.approx(from_memory.temperature)
    for (weight, bias), (other_weight, other_bias) in zip(from_folder.layers, from_memory.layers, strict=True):
        assert np.array_equal(weight, other_weight)
        assert np.array_equal(bias, other_bias)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_loses_no_finished_epoch(graph_file: Path, tmp_path: Path, number: int, request) -> None:
    request.addfinalizer(partial(signal.signal, number, signal.getsignal(number)))
    signal.signal(number, signal.default_int_handler)  # whatever the shell of the tests has set
    before, told = signal.getsignal(number), []

    def interrupt(record) -> None:
        if record.epoch == 3:
            os.kill(os.getpid(), number)

    run = Run(tmp_path / "run", settings(graph_file))
    with pytest.raises(KeyboardInterrupt) as raised:
        run.train(interrupt, on_interrupt=lambda: told.append("stopping"))
    assert getattr(raised.value, "number", signal.SIGINT) == number
    assert told == ["stopping"]
    assert signal.getsignal(number) is before
    again = Run(tmp_path / "run", settings(graph_file), resume=True)
    assert again.training.epoch == 4


def test_a_second_interruption_stops_at_once(graph_file: Path, tmp_path: Path) -> None:
    def twice(record) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")

    with pytest.raises(KeyboardInterrupt):
        Run(tmp_path / "run", settings(graph_file)).train(twice)
