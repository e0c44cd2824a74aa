from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gssc.evaluate.executor import LocalProcesses, report
from gssc.files import atomic_write


def double(number: int) -> int:
    return 2 * number


def fail_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three is right out")
    return number


def die_on_two(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def threads(_: int) -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


def who(_: int) -> int:
    time.sleep(0.3)
    return os.getpid()


def write_for_long(path: Path) -> None:
    with atomic_write(path):
        time.sleep(60)


def finished(work, jobs, processes=2):
    started = []
    ended = list(LocalProcesses(work, processes).run(jobs, started.append))
    assert sorted(started) == sorted(jobs)
    return {each.job: each for each in ended}


def test_every_job_comes_back_with_its_result():
    ended = finished(double, list(range(7)))
    assert {job: each.result for job, each in ended.items()} == {number: 2 * number for number in range(7)}


def test_one_failure_stops_nothing_else():
    ended = finished(fail_on_three, [1, 2, 3, 4])
    assert "three is right out" in ended[3].error
    assert "fail_on_three" in ended[3].error
    assert [ended[job].result for job in (1, 2, 4)] == [1, 2, 4]


def test_a_process_that_dies_fails_its_own_job_and_is_replaced():
    ended = finished(die_on_two, [1, 2, 3, 4, 5])
    assert "signal 9" in ended[2].error
    assert [ended[job].result for job in (1, 3, 4, 5)] == [1, 3, 4, 5]


def test_a_process_that_dies_with_nothing_to_do_is_replaced():
    executor = LocalProcesses(double, 1)

    def jobs():
        yield 1
        (worker,) = executor._workers
        worker.process.kill()
        worker.process.join()
        yield 2

    results = [each.result for each in executor.run(jobs(), lambda job: None)]
    assert results == [2, 4]


SWEEP = """
import sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
from gssc.evaluate.executor import LocalProcesses
from test_executor import busy

if __name__ == "__main__":
    list(LocalProcesses(busy, 1).run([{note!r}], lambda job: None))
"""


def busy(note: str) -> None:
    Path(note).write_text(str(os.getpid()))
    while True:
        pass


def runs(process: int) -> bool:
    """Whether a process is alive; a zombie is not."""
    try:
        os.kill(process, 0)
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # gone since, or no /proc here
        return Path("/proc/self").exists() is False


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    note, script = tmp_path / "pid", tmp_path / "sweep.py"
    script.write_text(SWEEP.format(folder=str(Path(__file__).parent), note=str(note)))
    parent = subprocess.Popen([sys.executable, str(script)])
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    worker = int(note.read_text())
    parent.kill()
    parent.wait()
    while runs(worker):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_each_process_has_one_thread_and_the_parent_keeps_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert finished(threads, [0], 1)[0].result == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_two_processes_share_the_work():
    assert len({each.result for each in finished(who, [0, 1, 2, 3]).values()}) == 2


def test_jobs_are_taken_as_room_frees_up():
    taken = []

    def jobs():
        for number in range(5):
            taken.append(number)
            yield number

    running = LocalProcesses(double, 1).run(jobs(), lambda job: None)
    next(running)
    assert len(taken) <= 2
    running.close()


def test_a_worker_that_is_stopped_leaves_no_part_of_a_file(tmp_path: Path):
    started = time.monotonic()

    def jobs():
        yield tmp_path / "one"
        while not any(tmp_path.iterdir()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(LocalProcesses(write_for_long, 2).run(jobs(), lambda job: None))
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - started < 50


def half_then_wait(go: Path) -> str:
    report(0.5)
    deadline = time.monotonic() + 60
    while not go.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return "done"


def test_a_job_reports_its_share_before_it_ends(tmp_path: Path):
    executor, go, shares = LocalProcesses(half_then_wait, 1), tmp_path / "go", []

    def wait_for_share() -> None:
        deadline = time.monotonic() + 60
        while not shares and time.monotonic() < deadline:
            shares.extend([executor.in_flight()] if executor.in_flight() else [])
            time.sleep(0.01)
        go.touch()

    watcher = threading.Thread(target=wait_for_share)
    watcher.start()
    (ended,) = executor.run([go], lambda job: None)
    watcher.join()
    assert ended.result == "done"
    assert shares == [0.5]
    assert executor.in_flight() == 0
    report(0.7)  # outside a worker nothing happens
