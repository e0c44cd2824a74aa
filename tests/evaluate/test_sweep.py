from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from gssc.errors import GsscError
from gssc.evaluate.cell import cells
from gssc.evaluate.executor import Finished
from gssc.evaluate.store import Store
from gssc.evaluate.sweep import Silence, Sweep, run_job


class Here:
    """Runs jobs in this process, so that a test can look inside."""

    def __init__(self, work=run_job, stop_after=None):
        self.work, self.stop_after, self.ran = work, stop_after, []

    def run(self, jobs, on_start):
        for job in jobs:
            if len(self.ran) == self.stop_after:
                raise KeyboardInterrupt
            on_start(job)
            self.ran.append(job.cell)
            try:
                yield Finished(job, self.work(job))
            except GsscError as error:
                yield Finished(job, error=str(error))


def result(job):
    return {"metric": "accuracy", "test_score": 0.5, "val_score": 0.5, "noise": {}}


def some_cells(**changes):
    usual = {"models": ["gcn", "sage"], "sparsifiers": ["none"], "datasets": ["digits"], "seeds": 2, "max_epochs": 2}
    return cells(**{**usual, **changes})[0]


def test_a_finished_run_is_never_run_again_unless_asked(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    first, second, third = Here(result), Here(result), Here(result)
    Sweep(some_cells(), store, first).run()
    Sweep(some_cells(seeds=3), store, second).run()
    assert len(first.ran) == 4
    assert {cell.seed for cell in second.ran} == {2}
    Sweep(some_cells(), store, third, again=True).run()
    assert len(third.ran) == 4


def test_a_stopped_sweep_goes_on_where_it_stopped(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    with pytest.raises(KeyboardInterrupt):
        Sweep(some_cells(), store, Here(result, stop_after=3)).run()
    rest = Here(result)
    Sweep(some_cells(), store, rest).run()
    assert len(rest.ran) == 1
    assert len(store.runs()) == 4


def test_a_failed_run_is_recorded_and_tried_again_only_on_request(tmp_path):
    def picky(job):
        if job.cell.model == "gcn":
            raise GsscError("not today")
        return result(job)

    store = Store(tmp_path / "r.sqlite")
    heard = []

    class Ear(Silence):
        def ended(self, job, row):
            heard.append((row["model"], row["status"]))

    Sweep(some_cells(seeds=1), store, Here(picky)).run(Ear())
    assert heard == [("gcn", "failed"), ("sage", "done")]
    assert [row["error"] for row in store.runs() if row["model"] == "gcn"] == ["not today"]
    assert Sweep(some_cells(seeds=1), store, Here(result)).missing == []
    again = Here(result)
    Sweep(some_cells(seeds=1), store, again, retry=True).run()
    assert [cell.model for cell in again.ran] == ["gcn"]
    assert {status for status, _ in store.statuses().values()} == {"done"}


def test_what_another_process_finished_meanwhile_is_not_run(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    slow = Sweep(some_cells(), store, Here(result))
    Sweep(some_cells(), store, Here(result)).run()
    found = []

    class Ear(Silence):
        def found(self, job):
            found.append(job)

    slow.run(Ear())
    assert len(found) == 4
    assert slow.executor.ran == []


def test_a_row_keeps_what_is_needed_to_trust_it(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    Sweep(some_cells(models=["gcn"], seeds=1, label_noise=["symmetric:0.4"]), store, Here()).run()
    (row,) = store.runs()
    assert row["error"] is None
    assert 0 <= row["test_score"] <= 1
    assert row["epochs"] == 2
    assert row["peak_memory_mb"] > 10
    assert row["seconds"] > 0
    assert '"torch"' in row["versions"]
    assert row["host_cores"] == os.cpu_count()
    assert '"lr"' in row["config"]
    assert '"realised_rate"' in row["noise"]
    assert len(row["code"]) == 12


def test_the_same_cell_gives_the_same_result(tmp_path):
    scores = []
    for name in ("a", "b"):
        store = Store(tmp_path / f"{name}.sqlite")
        Sweep(some_cells(models=["gcn"], sparsifiers=["drop_edge"], seeds=1), store, Here()).run()
        scores.append(store.runs()[0]["val_score"])
    assert scores[0] == scores[1]


def test_one_training_serves_both_settings_of_a_model_that_needs_no_edges(tmp_path):
    store, here = Store(tmp_path / "r.sqlite"), Here(result)
    both = some_cells(models=["mlp", "gcn"], seeds=1, settings=["inductive", "cold-start"])
    Sweep(both, store, here).run()
    assert sorted((cell.model, cell.setting) for cell in here.ran) == [
        ("gcn", "cold-start"),
        ("gcn", "inductive"),
        ("mlp", "inductive"),
    ]
    assert len(store.runs()) == 4
    assert Sweep(both, store, Here(result)).missing == []


SWEEP = """
import sys
from gssc.cli.main import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_killed_sweep_continues(tmp_path):
    script = tmp_path / "sweep.py"
    script.write_text(SWEEP)
    command = [sys.executable, str(script), "bench", "--models", "mlp,gcn,sgc", "--datasets", "digits", "--seeds", "3"]
    command += ["--max-epochs", "20", "--store", str(tmp_path / "r.sqlite"), "--jobs", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    store = Store(tmp_path / "r.sqlite")
    deadline = time.monotonic() + 300
    while len(store.runs()) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    before = {row["key"]: row["finished_at"] for row in store.runs()}
    assert 2 <= len(before) < 9
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"{len(before)} in" in " ".join(done.stderr.split())
    after = {row["key"]: row["finished_at"] for row in store.runs()}
    assert len(after) == 9
    assert before.items() <= after.items()
