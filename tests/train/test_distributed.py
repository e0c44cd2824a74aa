"""Real processes of torchrun: two give what one gives; one that is killed ends the run in one line, and it resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from gssc.cli.main import main
from gssc.config import parse_config
from gssc.data import load_dataset
from gssc.errors import GsscError
from gssc.learner.streamed import StreamedLearner
from gssc.result import make_training
from gssc.run import Run
from gssc.train.batches import EdgeBatches
from gssc.train.distributed import LOST, Processes, SharedModel, _disconnect
from gssc.train.stream import StreamedTraining

# The same global batches in one process and in two: nothing is drawn that depends on the process.
ALIKE = {
    "model": {"name": "str_contrast", "hidden": 16, "mix_hidden": 8, "norm": "none", "dropout": 0.0},
    "objective": {"negatives": "uniform"},
    "sparsifier": {"hidden": 8, "pretrain_epochs": 3},
    "train": {"warmup_epochs": 2, "epochs": 3, "batch_size": 100, "average": 0.9, "normalize": "none"},
    "consolidate": {"epochs": 2},
}
USUAL = {
    "model": {"name": "str_contrast", "hidden": 16, "mix_hidden": 8},
    "sparsifier": {"hidden": 8, "pretrain_epochs": 3},
    "train": {"warmup_epochs": 8, "epochs": 4, "batch_size": 128, "normalize": "none"},
    "consolidate": {"epochs": 4},
}

STREAMED = {**ALIKE, "sparsifier": {"name": "evidence"}, "consolidate": {"epochs": 0}}
LEARNER = {"teachers": {"pair_epochs": 3, "pair_batches": 4}, "model": {"hidden": 16}}

SCRIPT = """
import json, sys
import numpy as np
from gssc.config import parse_config
from gssc.data import load_dataset
from gssc.errors import GsscError
from gssc.result import make_training
from gssc.train.distributed import joined
from gssc.learner.streamed import StreamedLearner
from gssc.train.stream import StreamedTraining

place, graph = sys.argv[1], load_dataset("csbm", nodes=200, degree=8, signal=4.0, classes=2)
with joined() as processes:
    found = {}
    for name, settings in json.loads(sys.argv[2]).items():
        make = {"streamed": StreamedTraining, "learner": StreamedLearner}.get(name, make_training)
        training = make(graph, parse_config(settings))
        for _ in training.epochs():
            pass
        found[name] = np.asarray(training.outcome().scores)
    try:
        make_training(graph, parse_config({}))
    except GsscError as error:
        found["refused"] = str(error)

    def make():
        assert processes.rank == 0, "made twice"
        return {"made": np.arange(5.0)}

    shared = processes.shared_arrays(make)["made"]
    found["shared"], found["mapped"] = shared, isinstance(shared, np.memmap)

    def fail():
        raise GsscError("no sketches")

    try:
        processes.shared_arrays(fail)
    except GsscError as error:
        found["failure"] = str(error)
    np.savez(f"{place}/{processes.rank}.npz", count=processes.count, **found)
"""


def torchrun(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    cases = {"alike": ALIKE, "usual": USUAL, "streamed": STREAMED, "learner": LEARNER}
    (tmp_path / "temporary").mkdir()
    variables = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    process = torchrun(str(tmp_path / "script.py"), str(tmp_path), json.dumps(cases), env=variables)
    stderr = process.communicate(timeout=600)[1]
    assert process.returncode == 0, stderr
    assert "not writable" not in stderr  # torch warns of sketches that are mapped for reading only
    assert not list((tmp_path / "temporary").glob("gssc-*"))
    first, second = (np.load(tmp_path / f"{rank}.npz") for rank in range(2))
    assert first["count"] == 2
    for found in (first, second):  # one process makes arrays for both, and an error ends both
        assert found["mapped"]
        assert found["shared"].tolist() == [0, 1, 2, 3, 4]
        assert str(found["failure"]) == "no sketches"
    graph = load_dataset("csbm", nodes=200, degree=8, signal=4.0, classes=2)
    alone = {}
    for name, settings in cases.items():
        make = {"streamed": StreamedTraining, "learner": StreamedLearner}.get(name, make_training)
        training = make(graph, parse_config(settings))
        for _ in training.epochs():
            pass
        alone[name] = np.asarray(training.outcome().scores)
    for name in ("alike", "streamed"):
        np.testing.assert_allclose(first[name], alone[name], atol=1e-3 * alone[name].std())
    for name in cases:  # processes hold the same weights and the same running statistics
        np.testing.assert_allclose(first[name], second[name], atol=1e-5)
    for name in ("usual", "learner"):
        right = [(scores.argmax(1) == graph.labels).mean() for scores in (first[name], alone[name])]
        assert min(right) > 0.85
        assert abs(right[0] - right[1]) < 0.1
    assert str(first["refused"]).startswith("model gssc trains in one process: start it without torchrun")


ARGUMENTS = (
    *("csbm", "--model", "str_contrast", "--model.hidden", "32", "--train.batch_size", "64", "--sparsifier", "none"),
    *("--train.warmup_epochs", "15", "--train.epochs", "0", "--consolidate.epochs", "0"),
)


def rank_of(pid: str) -> str | None:
    try:
        variables = Path("/proc", pid, "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((value[5:].decode() for value in variables if value.startswith(b"RANK=")), None)


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in /proc")
def test_a_killed_process_ends_the_run_in_one_line_and_it_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = torchrun("-m", "gssc", "train", *ARGUMENTS, "--out", str(folder), env=os.environ)
    log = folder / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not log.exists() or log.read_text().count("\n") < 2:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (worker,) = [pid for pid in children(process.pid) if rank_of(pid) == "1"]
    os.kill(int(worker), signal.SIGKILL)
    stderr = process.communicate(timeout=300)[1]
    assert process.returncode != 0
    assert [line for line in stderr.splitlines() if line.startswith("error:")] == [f"error: {LOST}"]
    assert not (folder / "metrics.json").exists()
    assert main(["train", *ARGUMENTS, "--out", str(folder), "--resume"]) == 0  # with one process
    assert json.loads((folder / "metrics.json").read_text())["epochs"] == 15


def test_a_disconnected_model_computes_alone(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        shared = SharedModel(torch.nn.Linear(2, 2), Processes(count=2))
        rows = torch.ones(1, 2)
        found = shared("forward", rows)
        assert isinstance(shared._module, DistributedDataParallel)
    finally:
        _disconnect()
    assert not torch.distributed.is_initialized()
    assert not isinstance(shared._module, DistributedDataParallel)
    assert torch.equal(shared("forward", rows), found)


def test_one_process_changes_nothing() -> None:
    one = Processes()
    values = np.array([1.0, 2.0])
    assert list(one.scaled([3, 5], lambda pairs: (pairs, 0.0))) == [(3, [1.0, 1.0]), (5, [1.0, 1.0])]
    assert one.mean(values) is values
    assert one.share(1) == slice(0, 1)
    assert one.from_first(lambda: 5) == 5
    rng = np.random.default_rng(0)
    assert one.own_rng(rng) is rng


@pytest.mark.parametrize("count", [0, 3, 4, 5, 101])
def test_every_row_is_in_one_share_or_all_in_every_one(count: int) -> None:
    shares = [np.arange(count)[Processes(rank, 2).share(count)] for rank in range(2)]
    if count < 4:
        assert all(share.tolist() == list(range(count)) for share in shares)
    else:
        assert np.concatenate(shares).tolist() == list(range(count))
        assert min(map(len, shares)) >= 2


def test_a_batch_is_shared_out(tmp_path: Path) -> None:
    graph = load_dataset("csbm", nodes=60, degree=4)
    from gssc.features import FeatureTable

    table, labels = FeatureTable(graph.features), torch.from_numpy(graph.labels)
    pairs = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    made = []
    for processes in (Processes(), Processes(0, 2), Processes(1, 2)):
        batches = EdgeBatches(table, labels, 50, "degree", processes=processes)
        made.append(list(batches.epoch(pairs, np.random.default_rng(0))))
    for whole, first, second in zip(*made, strict=True):
        assert np.concatenate([first.index, second.index]).tolist() == whole.index.tolist()
        parts = [batch.rows[batch.negative] for batch in (first, second)]
        assert torch.equal(torch.cat(parts), whole.rows[whole.negative])


def test_too_small_a_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssc.train.distributed._here", Processes(0, 2))
    settings = {"model": {"name": "str_contrast"}, "train": {"batch_size": 3}}
    with pytest.raises(GsscError, match="2 processes need at least 4"):
        make_training(load_dataset("csbm", nodes=60, degree=4), parse_config(settings))


def test_without_batch_norm_the_deployed_model_is_the_trained_one(tmp_path: Path) -> None:
    graph = load_dataset("csbm", nodes=60, degree=4)
    run = Run(tmp_path / "run", parse_config(ALIKE, {"train": {"epochs": 1, "warmup_epochs": 1}}), graph)
    run.train()
    assert run.result is not None
    predicted = run.result.deployed().predict_proba(graph.features)
    logits = torch.from_numpy(run.result.scores) / run.result.deployed().temperature
    np.testing.assert_allclose(predicted, logits.softmax(1).numpy(), atol=1e-4)
