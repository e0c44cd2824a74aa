"""A real Ray of two workers, one of which is killed: the executor of sweeps, and scoring, in one go, as Ray is slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCRIPT = """
import os, signal, sys
from pathlib import Path

from gssc.evaluate.ray_executor import RayData, RayTasks, ray_cluster
from gssc.scoring.parts import score_file
from gssc.scoring.score import score

folder = Path(sys.argv[1])


def score_or_die(job):
    if job.number == 1:
        marker = Path(job.out).parent / "scorer-died"
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return score_file(job)


def square_or_die(job):
    number, place = job
    marker = Path(place) / "worker-died"
    if number == 2 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 3:
        raise ValueError("three is right out")
    return number**2


if __name__ == "__main__":
    with ray_cluster(2):
        started = []
        ended = list(RayTasks(square_or_die, 2).run([(n, str(folder)) for n in range(5)], started.append))
        print("found", sorted((each.job[0], each.result, each.error) for each in ended))
        print("found", len(started))
        rows = score(folder / "run", folder / "in", folder / "out", RayData(score_or_die, 2), rows_per_part=300).rows
        print("found", rows)
"""


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(model, model_folder, tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    (tmp_path / "in").mkdir()
    rows = [np.random.default_rng(number).random((1000, 3), dtype=np.float32) for number in range(4)]
    for number, x in enumerate(rows):
        columns = {"id": np.arange(1000) + 1000 * number, **dict(zip("abc", x.T, strict=True))}
        pq.write_table(pa.table(columns), tmp_path / "in" / f"{number}.parquet")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    # Ray's own news about the dead worker may stand in between.
    squares, started, scored = (line[6:] for line in done.stdout.splitlines() if line.startswith("found "))
    assert squares.startswith("[(0, 0, None), (1, 1, None), (2, 4, None), (3, None, 'ValueError: three is right out")
    assert (started, scored) == ("5", "4000")
    assert (tmp_path / "worker-died").exists()
    assert (tmp_path / "scorer-died").exists()
    table = pq.read_table(tmp_path / "out")
    assert table.column("id").to_pylist() == list(range(4000))
    np.testing.assert_allclose(
        table.column("probability_cat").to_numpy(), model.predict_proba(np.concatenate(rows))[:, 0], rtol=1e-5
    )
    assert Path(tmp_path / "out" / "_manifest.json").exists()
