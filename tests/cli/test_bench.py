from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from gssc.data import load_dataset
from gssc.evaluate.store import Store


def test_list_names_every_model_sparsifier_dataset_and_noise(gssc):
    from gssc.data.noise import NOISE
    from gssc.data.registry import DATASETS
    from gssc.models.registry import MODELS
    from gssc.sparsify.registry import SPARSIFIERS

    done = gssc("bench", "--list")
    assert done.returncode == 0
    for name in (*MODELS, *SPARSIFIERS, *DATASETS, *(kind for kinds in NOISE.values() for kind in kinds)):
        assert name in done.stdout


def test_a_sweep_from_the_command_line(gssc, tmp_path):
    store = str(tmp_path / "r.sqlite")
    common = ["bench", "--models", "mlp,gcn", "--sparsifiers", "none,drop_edge", "--datasets", "digits", "--seeds", "2"]
    common += ["--max-epochs", "3", "--store", store]
    done = gssc(*common, "--jobs", "2", "--export", str(tmp_path / "t.md"))
    assert done.returncode == 0, done.stderr
    assert "mlp does not use edges" in " ".join(done.stderr.split())
    assert "gcn+drop_edge" in done.stdout
    assert "| mlp |" in (tmp_path / "t.md").read_text()
    again = gssc(*common)
    assert "6 in" in " ".join(again.stderr.split())
    shown = gssc("bench", "--store", store, "--export", str(tmp_path / "t.csv"))
    assert shown.returncode == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 7


def test_mistakes_are_one_line_and_leave_nothing(gssc, tmp_path):
    store = tmp_path / "r.sqlite"
    mistakes = {
        ("--models", "gcnn", "--datasets", "cora"): "did you mean 'gcn'",
        ("--models", "gcn"): "name --models, and --datasets or --graph",
        ("--models", "mlp", "--datasets", "cora", "--sparsifiers", "drop_edge"): "nothing is left to run",
        ("--models", "gcn", "--datasets", "cora", "--label-noise", "loud:0.1"): "unknown noise",
        ("--models", "gcn", "--datasets", "cora", "--export", "t.xlsx"): "must end in one of",
        (): "does not exist",
    }
    for options, message in mistakes.items():
        done = gssc("bench", *options, "--store", str(store))
        assert done.returncode == 2, options
        assert message in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
        assert not store.exists()


def test_only_typed_sparsifier_settings_reach_a_run(gssc, tmp_path):
    common = [
        "bench",
        "--models",
        "str_contrast",
        "--sparsifiers",
        "str_sparse",
        "--datasets",
        "digits",
        "--seeds",
        "1",
    ]
    common += ["--max-epochs", "1", "--store", "r.sqlite"]
    recipe, default = 50, 100  # pretrain_epochs of the digits recipe, and of everything else
    assert gssc(*common).returncode == 0
    assert gssc(*common, "--sparsifier.pretrain_epochs", str(default)).returncode == 0
    rows = Store(tmp_path / "r.sqlite").runs()
    assert {json.loads(row["config"])["sparsifier"]["pretrain_epochs"] for row in rows} == {recipe, default}


def test_a_graph_of_your_own_beside_a_dataset_and_a_failed_run(gssc, tmp_path):
    graph = load_dataset("csbm", nodes=60, degree=4, classes=3, per_class=5)
    graph.save(tmp_path / "mine.npz")
    common = ["bench", "--models", "mlp,gcn", "--datasets", "csbm", "--graph", "mine.npz", "--seeds", "1"]
    common += ["--max-epochs", "2", "--store", "r.sqlite"]
    done = gssc(*common, "--export", "runs.csv")
    assert done.returncode == 0, done.stderr
    assert "mine.npz" in done.stdout
    assert "4 runs written to runs.csv" in done.stdout
    # LDS wants validation nodes, and finds none once it runs.
    graph.with_(val=None).save(tmp_path / "blind.npz")
    failed = gssc(*common, "--graph", "blind.npz", "--models", "gcn", "--sparsifiers", "none,lds")
    assert failed.returncode == 2
    assert failed.stderr.splitlines()[-1] == "error: 1 of 4 runs failed; add --retry to run them again"
    assert gssc("bench", "--store", "r.sqlite").returncode == 0, "looking at a store that holds a failure is no failure"


def test_an_edited_store_is_one_line(gssc, tmp_path):
    common = [
        "bench",
        "--models",
        "mlp",
        "--datasets",
        "csbm",
        "--seeds",
        "1",
        "--max-epochs",
        "1",
        "--store",
        "r.sqlite",
    ]
    assert gssc(*common).returncode == 0
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET test_score = 'great'")
    for command in (common, ["bench", "--store", "r.sqlite"]):
        done = gssc(*command)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "test_score 'great' where a number belongs" in done.stderr.splitlines()[-1]
