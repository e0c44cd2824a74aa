from __future__ import annotations

import errno
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gssc.cli.main import main
from gssc.cli.score import WrittenRows, expected_rows
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.evaluate.executor import Finished, LocalProcesses
from gssc.scoring.parts import FileJob, _Part, parts_of, score_file
from gssc.scoring.score import MANIFEST, score


class Here:
    """Scores files in this process."""

    def run(self, jobs, on_start):
        for job in jobs:
            try:
                yield Finished(job, score_file(job))
            except GsscError as error:
                yield Finished(job, error=str(error))


def rows_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3)).astype(np.float32)


def write_parquet(path: Path, x: np.ndarray, ids=None, **options) -> Path:
    columns = {} if ids is None else {"id": ids}
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({**columns, **dict(zip("abc", x.T, strict=True))}), path, **options)
    return path


def write_csv(path: Path, x: np.ndarray, ids) -> Path:
    path.parent.mkdir(exist_ok=True)
    lines = ["id,a,b,c", *(f"{name},{','.join(map(str, row))}" for name, row in zip(ids, x.tolist(), strict=True))]
    text = "\n".join(lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def probabilities(table: pa.Table) -> np.ndarray:
    return np.stack([table.column(f"probability_{name}").to_numpy() for name in ("cat", "dog")], axis=1)


def test_a_text_table_without_a_header_is_scored_by_position(model: DeployedModel, tmp_path: Path) -> None:
    x = rows_of(5)
    (tmp_path / "in.csv").write_text("\n".join(",".join(map(str, row)) for row in x.tolist()))
    replace(model, feature_names=["a", "b", "c"]).save(tmp_path / "named")
    score(tmp_path / "named", tmp_path / "in.csv", tmp_path / "out", Here())
    table = pq.read_table(tmp_path / "out")
    assert table.column("row").to_pylist() == list(range(5))
    np.testing.assert_allclose(probabilities(table), model.predict_proba(x), rtol=1e-5)


def test_order_keys_and_numbers_are_those_of_the_input(model: DeployedModel, model_folder, tmp_path):
    x, ids = rows_of(1000), np.random.default_rng(1).permutation(1000) - 500
    found = score(
        model_folder,
        write_parquet(tmp_path / "in.parquet", x, ids, row_group_size=70),
        tmp_path / "out",
        Here(),
        rows_per_part=150,
    )
    table = pq.read_table(tmp_path / "out", page_checksum_verification=True)
    assert table.column("id").to_pylist() == ids.tolist()
    np.testing.assert_allclose(probabilities(table), model.predict_proba(x), rtol=1e-5)
    assert table.column("prediction").to_pylist() == [model.class_names[at] for at in model.predict(x)]
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert manifest["complete"]
    assert manifest["rows"] == found.rows == 1000
    assert [(part["start"], part["rows"]) for part in manifest["parts"]] == [
        (start, min(150, 1000 - start)) for start in range(0, 1000, 150)
    ]
    assert found.parts == 7


def test_a_folder_of_every_kind_of_table(model, model_folder, tmp_path):
    source = tmp_path / "in"
    x = rows_of(40)
    write_parquet(source / "b.parquet", x[:10], [f"p{index}" for index in range(10)])
    write_csv(source / "c.csv.gz", x[10:25], [f"00{index}" for index in range(15)])
    write_csv(source / "d.csv", x[25:], ["=1+1", *range(14)])
    write_csv(source / "_ignored.csv", x, range(40))
    assert main(["score", str(model_folder), str(source), "--out", str(tmp_path / "out"), "--jobs", "2"]) == 0
    table = pq.read_table(tmp_path / "out")
    expected = [f"p{i}" for i in range(10)] + [f"00{i}" for i in range(15)] + ["=1+1", *map(str, range(14))]
    assert table.column("id").to_pylist() == expected
    np.testing.assert_allclose(probabilities(table), model.predict_proba(x), rtol=1e-5)


def test_decimal_commas(model, model_folder, tmp_path):
    x = rows_of(4).round(2)
    lines = ["id;a;b;c", *(";".join(["n", *map(str, row)]) for row in x.tolist())]
    (tmp_path / "x.csv").write_text("\n".join(lines).replace(".", ",") + "\n")
    command = ["score", str(model_folder), str(tmp_path / "x.csv"), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    assert main([*command, "--overwrite", "--decimal", ","]) == 0
    np.testing.assert_allclose(probabilities(pq.read_table(tmp_path / "out")), model.predict_proba(x), rtol=1e-4)


def test_rows_without_an_id_have_their_file_and_number(model_folder, tmp_path):
    for name, count in (("a", 3), ("b", 2), ("empty", 0)):
        write_parquet(tmp_path / "in" / f"{name}.parquet", rows_of(count))
    score(model_folder, tmp_path / "in", tmp_path / "out", Here(), rows_per_part=2)
    table = pq.read_table(tmp_path / "out")
    assert table.column("file").to_pylist() == ["a.parquet"] * 3 + ["b.parquet"] * 2
    assert table.column("row").to_pylist() == [0, 1, 2, 0, 1]
    score(model_folder, tmp_path / "in" / "a.parquet", tmp_path / "one", Here())
    assert pq.read_table(tmp_path / "one").column_names[:2] == ["row", "prediction"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_first_column_that_is_no_feature_holds_the_ids(model, tmp_path, suffix):
    DeployedModel(model.layers, model.class_names, feature_names=list("abc")).save(tmp_path / "model")
    path = tmp_path / f"in.{suffix}"
    if suffix == "csv":
        path.write_text("customer,a,b,c\nk1,1,2,3\nk2,4,5,6\n")
    else:
        pq.write_table(pa.table({"customer": ["k1", "k2"], **dict(zip("abc", rows_of(2).T, strict=True))}), path)
    score(tmp_path / "model", path, tmp_path / "out", Here())
    assert pq.read_table(tmp_path / "out").column("id").to_pylist() == ["k1", "k2"]


def test_ids_of_whole_numbers_stay_so_even_where_some_are_missing(model_folder, tmp_path):
    ids = pa.array([7, None, 2**40], pa.int64())
    score(model_folder, write_parquet(tmp_path / "in.parquet", rows_of(3), ids), tmp_path / "out", Here())
    column = pq.read_table(tmp_path / "out").column("id")
    assert (column.type, column.to_pylist()) == (pa.int64(), [7, None, 2**40])


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (pa.array([1, 2], pa.int32()), pa.array([2**40, 3], pa.int64()), pa.int64()),
        (pa.array([1, 2], pa.int64()), pa.array(["k1", "k2"]), pa.string()),
        (pa.array([2**64 - 1, 2], pa.uint64()), pa.array([-1, 3], pa.int64()), pa.string()),
        (pa.array([2**64 - 1, 2], pa.uint64()), pa.array([1, 3], pa.uint64()), pa.uint64()),
    ],
)
def test_ids_of_other_types_in_other_files_are_one_column(model_folder, tmp_path, first, second, kind):
    write_parquet(tmp_path / "in" / "a.parquet", rows_of(2), first)
    write_parquet(tmp_path / "in" / "b.parquet", rows_of(2), second)
    score(model_folder, tmp_path / "in", tmp_path / "out", Here())
    column = pq.read_table(tmp_path / "out").column("id")
    assert column.type == kind
    ids = first.to_pylist() + second.to_pylist()
    assert column.to_pylist() == ([str(each) for each in ids] if kind == pa.string() else ids)


def test_parts_get_the_type_of_a_file_that_was_fixed_later(model_folder, tmp_path):
    write_parquet(tmp_path / "in" / "a.parquet", rows_of(2), [1, 2])
    (tmp_path / "in" / "b.parquet").write_bytes(b"damaged")
    with pytest.raises(GsscError, match="1 of 2 files failed"):
        score(model_folder, tmp_path / "in", tmp_path / "out", Here())
    write_parquet(tmp_path / "in" / "b.parquet", rows_of(2), ["k1", "k2"])
    score(model_folder, tmp_path / "in", tmp_path / "out", Here())
    assert pq.read_table(tmp_path / "out").column("id").to_pylist() == ["1", "2", "k1", "k2"]


def test_files_whose_keys_or_columns_cannot_be_told_apart_are_refused(model, model_folder, tmp_path):
    write_parquet(tmp_path / "in" / "a.parquet", rows_of(2), [1, 2])
    path = write_parquet(tmp_path / "in" / "b.parquet", rows_of(2))
    with pytest.raises(GsscError, match="a.parquet has a column of ids and b.parquet has none"):
        score(model_folder, tmp_path / "in", tmp_path / "out", Here())
    pq.write_table(pa.table({"id": [3, 4], **dict(zip("cba", rows_of(2).T, strict=True))}), path)
    with pytest.raises(GsscError, match="in another order, and the model has no names"):
        score(model_folder, tmp_path / "in", tmp_path / "out", Here())
    assert not (tmp_path / "out").exists()
    DeployedModel(model.layers, model.class_names, feature_names=list("abc")).save(tmp_path / "named")
    assert score(tmp_path / "named", tmp_path / "in", tmp_path / "out", Here()).rows == 4


def test_scores_do_not_become_input_by_a_link_or_a_path_with_dots(model_folder, tmp_path):
    write_parquet(tmp_path / "in" / "a.parquet", rows_of(2))
    (tmp_path / "in" / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in" / "sub")
    for out in (tmp_path / "link", tmp_path / "other" / ".." / "in" / "sub", tmp_path / "link" / "new"):
        with pytest.raises(GsscError, match="scores would become input"):
            score(model_folder, tmp_path / "in", out, Here())


def job_of(model_folder, tmp_path, count=13_000) -> FileJob:
    source = write_parquet(tmp_path / "in.parquet", rows_of(count), np.arange(count))
    (tmp_path / "out").mkdir()
    return FileJob(str(model_folder), str(source), "in.parquet", 0, str(tmp_path / "out"), rows_per_part=5000)


@pytest.mark.parametrize("damage", ["cut", "flip in the footer", "flip in a row", "remove", "other rows"])
def test_parts_that_are_not_whole_are_written_again(model_folder, tmp_path, damage):
    job = job_of(model_folder, tmp_path)
    score_file(job)
    before = pq.read_table(job.out)
    assert len(parts_of(job)) == 3
    part = job.part(1)
    content = part.read_bytes()
    if damage == "cut":
        part.write_bytes(content[: len(content) // 2])
    elif damage == "flip in a row":
        middle = len(content) // 2
        part.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif damage == "flip in the footer":
        part.write_bytes(content[:-20] + bytes([content[-20] ^ 255]) + content[-19:])
    elif damage == "remove":
        part.unlink()
    else:
        part.write_bytes(job.part(2).read_bytes())
    score_file(job)
    assert pq.read_table(job.out).equals(before)


def test_what_is_done_is_not_done_again(model_folder, tmp_path):
    job = job_of(model_folder, tmp_path)
    score_file(job)
    times = [job.part(number).stat().st_mtime_ns for number in range(3)]
    job.part(2).unlink()
    score_file(job)
    after = [job.part(number).stat().st_mtime_ns for number in range(3)]
    assert after[:2] == times[:2]
    assert after[2] > times[2]


def test_what_a_killed_process_left_half_written_is_gone_in_the_end(model_folder, tmp_path):
    source, out = write_parquet(tmp_path / "in.parquet", rows_of(10)), tmp_path / "out"
    score(model_folder, source, out, Here())
    (out / ".part-000000-000000.1dc98e.parquet").write_bytes(b"half")
    score(model_folder, source, out, Here())
    assert [path.name for path in out.glob("*part*")] == ["part-000000-000000.parquet"]


def test_a_bad_file_stops_no_other_and_is_scored_once_it_is_fixed(model_folder, tmp_path):
    source = tmp_path / "in"
    for name in ("a", "b", "c"):
        write_csv(source / f"{name}.csv", rows_of(3), range(3))
    good = (source / "b.csv").read_text()
    (source / "b.csv").write_text(good.replace("\n1,", "\n1,x"))
    with pytest.raises(GsscError, match=r"b.csv:3: column 'a' is .* \(1 of 3 files failed\); fix it"):
        score(model_folder, source, tmp_path / "out", Here())
    assert pq.read_table(tmp_path / "out").num_rows == 6
    assert not json.loads((tmp_path / "out" / MANIFEST).read_text())["complete"]
    (source / "b.csv").write_text(good)
    assert score(model_folder, source, tmp_path / "out", Here()).rows == 9


def test_a_file_that_changed_is_scored_again(model, model_folder, tmp_path):
    source = tmp_path / "in.parquet"
    for seed in (1, 2):
        x = rows_of(30, seed)
        score(model_folder, write_parquet(source, x), tmp_path / "out", Here(), rows_per_part=10)
        np.testing.assert_allclose(probabilities(pq.read_table(tmp_path / "out")), model.predict_proba(x), rtol=1e-5)


@pytest.mark.parametrize("change", ["changed", "deleted"])
def test_a_file_that_changes_after_it_was_scored_leaves_no_complete_manifest(model_folder, tmp_path, change):
    first = write_parquet(tmp_path / "in" / "a.parquet", rows_of(30))
    write_parquet(tmp_path / "in" / "b.parquet", rows_of(20))

    def disturb(result, files):
        if result["name"] == "b.parquet":
            return
        if change == "deleted":
            first.unlink()
        else:
            write_parquet(first, rows_of(40))

    with pytest.raises(GsscError, match=r"a\.parquet changed while it was scored"):
        score(model_folder, tmp_path / "in", tmp_path / "out", Here(), on_file=disturb)
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["complete"] is False
    write_parquet(first, rows_of(40))
    assert score(model_folder, tmp_path / "in", tmp_path / "out", Here()).rows == 60
    assert pq.read_table(tmp_path / "out").num_rows == 60


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_file_that_is_deleted_is_one_line(model_folder, tmp_path, monkeypatch, moment):
    path = write_parquet(tmp_path / "in" / "a.parquet", rows_of(30))
    if moment == "before":
        path.unlink()
    else:
        monkeypatch.setattr("gssc.scoring.parts._score", lambda *given: path.unlink())
    with pytest.raises(GsscError, match=r"a\.parquet changed while it was scored"):
        score_file(FileJob(str(model_folder), str(path), path.name, 0, str(tmp_path)))


@pytest.mark.parametrize(
    ("prepare", "source", "message"),
    [
        (lambda folder: None, "nothing", "no such file or folder"),
        (lambda folder: (folder / "x.npy").touch(), "x.npy", "must end in one of"),
        (lambda folder: (folder / "empty").mkdir(), "empty", "holds no table"),
        (lambda folder: (folder / "out" / "mine.txt").write_text("mine"), "in.parquet", "holds no scores of gssc"),
        (lambda folder: write_parquet(folder / "out" / "a.parquet", rows_of(1)), "out", "lies in"),
    ],
)
def test_what_cannot_be_scored_is_one_line(model_folder, tmp_path, prepare, source, message):
    write_parquet(tmp_path / "in.parquet", rows_of(2))
    (tmp_path / "out").mkdir()
    prepare(tmp_path)
    with pytest.raises(GsscError, match=message):
        score(model_folder, tmp_path / source, tmp_path / "out", Here())


def test_other_scores_are_not_mixed_in(model: DeployedModel, model_folder, tmp_path):
    source = write_parquet(tmp_path / "in.parquet", rows_of(2))
    score(model_folder, source, tmp_path / "out", Here())
    with pytest.raises(GsscError, match="of other files"):
        score(model_folder, write_parquet(tmp_path / "other.parquet", rows_of(2)), tmp_path / "out", Here())
    DeployedModel([(weight + 1, bias) for weight, bias in model.layers], ["cat", "dog"]).save(tmp_path / "second")
    with pytest.raises(GsscError, match="by another model"):
        score(tmp_path / "second", source, tmp_path / "out", Here())
    score(tmp_path / "second", source, tmp_path / "out", Here(), overwrite=True)
    expected = DeployedModel.load(tmp_path / "second").predict_proba(rows_of(2))
    np.testing.assert_allclose(probabilities(pq.read_table(tmp_path / "out")), expected, rtol=1e-5)


@pytest.mark.parametrize("executor", [Here, lambda: LocalProcesses(score_file)])
def test_a_model_that_is_replaced_meanwhile_scores_no_row(model: DeployedModel, tmp_path, executor):
    source, run = tmp_path / "rows", tmp_path / "run"
    for name in ("1", "2"):
        write_parquet(source / f"{name}.parquet", rows_of(5))
    model.save(run)

    class Meanwhile:
        def run(self, jobs, on_start):
            DeployedModel([(weight + 1, bias) for weight, bias in model.layers], ["cat", "dog"]).save(run)
            yield from executor().run(jobs, on_start)

    with pytest.raises(GsscError, match=r"model in .*run was replaced while it was in use; .*--overwrite"):
        score(run, source, tmp_path / "out", Meanwhile())
    assert not list((tmp_path / "out").glob("*.parquet"))
    with pytest.raises(GsscError, match="by another model"):
        score(run, source, tmp_path / "out", executor())
    model.save(run)
    assert score(run, source, tmp_path / "out", executor()).rows == 10  # the old model is back


def test_a_disk_that_fills_up_is_one_line_and_leaves_no_part(model_folder, tmp_path, monkeypatch):
    source = write_parquet(tmp_path / "rows.parquet", rows_of(5), np.arange(5))

    def no_room(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_Part, "_flush", no_room)
    with pytest.raises(GsscError, match="make room on the disk"):
        score(model_folder, source, tmp_path / "out", Here())
    assert [path.name for path in (tmp_path / "out").iterdir()] == [MANIFEST]


SCORE = """
import sys
from gssc.evaluate.executor import LocalProcesses
from gssc.scoring.parts import score_file
from gssc.scoring.score import score
if __name__ == "__main__":
    print("starting", flush=True)
    print(score(*sys.argv[1:4], LocalProcesses(score_file, 2), rows_per_part=20_000))
"""


def test_killed_at_any_moment_it_goes_on_and_ends_the_same(model_folder, tmp_path):
    """kill -9 of the whole process group at seeded moments, until a call completes."""
    for number in range(3):
        count = 150_000
        ids = np.arange(count) + number * count
        write_parquet(tmp_path / "in" / f"{number}.parquet", rows_of(count, number), ids)
    score(model_folder, tmp_path / "in", tmp_path / "undisturbed", Here(), rows_per_part=20_000)
    script = tmp_path / "script.py"
    script.write_text(SCORE)
    command = [sys.executable, str(script), str(model_folder), str(tmp_path / "in"), str(tmp_path / "out")]
    rng, kills, begun = random.Random(0), 0, set()
    for patience in (0.0, 0.3, 0.6, 600.0):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout.readline() == "starting\n"
        deadline = time.monotonic() + 60
        # From the second round on, wait for one more part before the clock of the kill begins.
        while patience and len(set(tmp_path.glob("out/part-*")) - begun) == 0 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        try:
            process.wait(patience * rng.random() if patience < 600 else patience)
        except subprocess.TimeoutExpired:
            # Not the program kill: that of procps 4.0.2 takes "-12345" for "-1" and ends every process of the machine.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        process.stdout.close()
        begun = set(tmp_path.glob("out/part-*"))
    assert kills >= 1
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["complete"]
    found, expected = pq.read_table(tmp_path / "out"), pq.read_table(tmp_path / "undisturbed")
    assert found.equals(expected)
    assert found.column("id").to_pylist() == list(range(450_000))


PEAK = """
import sys
from dataclasses import replace
from pathlib import Path
from gssc.scoring.parts import FileJob, score_file
Path(sys.argv[3]).mkdir()
score_file(FileJob(sys.argv[1], sys.argv[2], "rows", 0, sys.argv[3]))
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    """One row group of 240 MB, which does not compress, takes the memory of one of 40 MB."""
    columns = 20
    rng = np.random.default_rng(0)
    DeployedModel([(rng.standard_normal((2, columns)), np.zeros(2))], ["cat", "dog"]).save(tmp_path / "run")
    peaks = {}
    for count in (500_000, 3_000_000):
        path = tmp_path / f"{count}.parquet"
        arrays = [pa.array(rng.random(count, dtype=np.float32)) for _ in range(columns)]
        table = pa.table(arrays, names=[f"f{index}" for index in range(columns)])
        pq.write_table(table, path, row_group_size=count, use_dictionary=False)
        arguments = [sys.executable, "-c", PEAK, str(tmp_path / "run"), str(path), str(tmp_path / f"out-{count}")]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        peaks[count] = float(done.stdout)
        size = path.stat().st_size / 2**20
    assert size > 200
    assert peaks[3_000_000] - peaks[500_000] < 0.1 * size, (peaks, size)


def test_rows_are_counted_while_a_part_is_being_written(model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("gssc.scoring.parts.SECONDS_BETWEEN_COUNTS", 0.0)
    monkeypatch.setattr("gssc.deploy.table_rows.BLOCK_ROWS", 100)
    counted, written = [], WrittenRows(tmp_path / "out")
    count = _Part._count

    def noted(part: _Part) -> None:
        count(part)
        counted.append(written.count())

    monkeypatch.setattr(_Part, "_count", noted)
    source = tmp_path / "in"
    write_parquet(source / "a.parquet", rows_of(300), range(300))
    write_csv(source / "b.csv", rows_of(200), range(200))
    assert expected_rows(str(source), str(tmp_path / "out")) == 500
    score(model_folder, source, tmp_path / "out", Here(), rows_per_part=250)
    assert counted == [100, 200, 250, 300, 400, 500]
    assert written.count() == 500
    assert not list((tmp_path / "out").glob(".rows-*"))
