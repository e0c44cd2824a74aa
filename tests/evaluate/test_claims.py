from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from gssc.evaluate import claims as module
from gssc.evaluate.claims import Claims, is_gone, this_process
from gssc.evaluate.store import Store

CLAIM_AND_WAIT = """
import sys, time
from pathlib import Path
from gssc.evaluate.claims import Claims
from gssc.evaluate.store import Store
print(Claims(Store(Path(sys.argv[1]))).take("run"), flush=True)
time.sleep(600)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "r.sqlite")


def test_a_claim_keeps_others_out_until_it_is_released(store):
    one, other = Claims(store), Claims(store)
    assert one.take("run")
    assert one.take("run"), "its own claim is no obstacle"
    assert not other.take("run")
    assert other.take("another run")
    other.release("run")
    assert not other.take("run"), "only the owner can release a claim"
    one.release("run")
    assert other.take("run")


def test_claims_end_with_the_sweep_even_when_it_fails(store):
    one = Claims(store)
    with pytest.raises(KeyboardInterrupt), one.alive():
        one.take("run")
        raise KeyboardInterrupt
    assert Claims(store).take("run")


def test_the_claim_of_a_killed_process_is_void_at_once(store):
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_WAIT, str(store.path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "True\n"
    mine = Claims(store)
    assert not mine.take("run"), "it is alive, though it never beats"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert mine.take("run")


def test_a_claim_from_another_machine_lasts_as_long_as_it_beats(store, monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)

    def beats() -> int:
        with store.writing() as connection:
            return connection.execute("SELECT beats FROM claims").fetchone()["beats"]

    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(module, "this_process", lambda: "another-machine 1 1")
        theirs, mine = Claims(store), Claims(store)
        with theirs.alive():
            assert theirs.take("run")
            for _ in range(5):
                assert not mine.take("run")
                before, deadline = beats(), time.monotonic() + 60
                while beats() == before and time.monotonic() < deadline:
                    time.sleep(0.01)
                clock.now += 0.8 * module.SILENCE_SECONDS
        assert theirs.take("run")  # and from here on nobody beats
    assert not mine.take("run")
    clock.now += 0.8 * module.SILENCE_SECONDS
    assert not mine.take("run")
    clock.now += 0.4 * module.SILENCE_SECONDS
    assert mine.take("run")


def test_a_process_id_that_is_used_again_is_another_process():
    here = this_process()
    machine, number, began = here.rsplit(" ", 2)
    assert not is_gone(here)
    assert is_gone(f"{machine} {number} {int(began) + 1}")
    assert not is_gone(f"elsewhere {number} {int(began) + 1}")


SWEEP = """
import sys, time
from pathlib import Path
import gssc.evaluate.sweep as module
from gssc.evaluate.cell import cells
from gssc.evaluate.executor import Finished
from gssc.evaluate.store import Store

class Slow:
    def run(self, jobs, on_start):
        for job in jobs:
            with open(sys.argv[2], "a") as log:
                log.write(job.key + "\\n")
            print("working", flush=True)
            time.sleep(float(sys.argv[3]))
            yield Finished(job, {"test_score": 0.5, "noise": {}})

module.SECONDS_BETWEEN_LOOKS = 0.05
made, _ = cells(["mlp", "gcn"], ["none"], ["csbm"], settings=["inductive", "cold-start"], seeds=5)
module.Sweep(made, Store(Path(sys.argv[1])), Slow()).run()
"""
# Five seeds: of the MLP one training each, which serves both settings; of the GCN two.
RUNS, TRAININGS = 20, 15


def sweep(folder: Path, seconds: float) -> subprocess.Popen:
    arguments = [sys.executable, "-c", SWEEP, str(folder / "r.sqlite"), str(folder / "log"), str(seconds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_two_sweeps_never_train_the_same_run(tmp_path):
    both = [sweep(tmp_path, 0.1) for _ in range(2)]
    worked = [process.communicate(timeout=120)[0].count("working") for process in both]
    assert [process.returncode for process in both] == [0, 0]
    trained = Counter((tmp_path / "log").read_text().splitlines())
    assert set(trained.values()) == {1}
    assert len(trained) == TRAININGS == sum(worked)
    assert len(Store(tmp_path / "r.sqlite").statuses()) == RUNS


def test_a_sweep_takes_over_what_a_killed_one_had_claimed(tmp_path):
    killed = sweep(tmp_path, 600)
    assert killed.stdout.readline() == "working\n"
    other = sweep(tmp_path, 0.01)
    assert other.stdout.readline() == "working\n"
    deadline = time.monotonic() + 60
    store = Store(tmp_path / "r.sqlite")
    while len(store.statuses()) < RUNS - 2:  # all but the two of the training that hangs
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    assert other.poll() is None, "it waits for the claimed run"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    other.communicate(timeout=60)
    assert other.returncode == 0
    assert len(store.statuses()) == RUNS
    trained = Counter((tmp_path / "log").read_text().splitlines())
    assert sorted(trained.values()) == [1] * (TRAININGS - 1) + [2]
