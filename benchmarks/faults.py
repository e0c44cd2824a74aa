"""Cause real faults: kill -9 at random moments, a full disk, a read-only folder, damaged files, too little memory.

    python benchmarks/faults.py --out results/faults.md                  every fault, 20 rounds of kills each
    python benchmarks/faults.py --only kill:train --rounds 5             some of them

A round of kills starts the work in a separate process, kills it (SIGKILL) once it has used a random share of the CPU
time of the undisturbed work, one to three times, and then lets it finish. The result must equal the undisturbed one
byte for byte. Checkpoints are written after every epoch, so that most kills hit a run that can be resumed. Processes
are forked from one that has imported everything, so that kills hit the work, not imports. Mounting a small tmpfs needs
root; without it, the faults of full and read-only disks are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gssc import run as run_module
from gssc.cli.main import main as gssc
from gssc.data import load_dataset
from gssc.data.build import build_graph
from gssc.data.graph_stream import InMemoryStream
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.evaluate.cell import cells
from gssc.evaluate.executor import Finished
from gssc.evaluate.store import Store
from gssc.evaluate.sweep import Sweep, run_job
from gssc.scoring.parts import score_file
from gssc.scoring.score import score

TICKS = os.sysconf("SC_CLK_TCK")
FAILED = 2  # exit code of a one-line error


class Here:
    """Runs jobs in this process, so that a kill hits the work itself."""

    def __init__(self, work: Callable):
        self.work = work

    def run(self, jobs: object, on_start: Callable) -> Iterator[Finished]:
        """Run every job."""
        for job in jobs:
            on_start(job)
            yield Finished(job, self.work(job))


@dataclass
class Work:
    """One kind of work that must survive faults.

    Args:
        name: name in the table.
        run: does or resumes the work in a folder; returns the exit code.
        files: patterns of the files that are compared byte for byte.
        content: function whose value is compared instead of files.
    """

    name: str
    run: Callable[[Path], int]
    files: tuple[str, ...] = ()
    content: Callable[[Path], object] | None = None

    def result(self, folder: Path) -> str:
        """Return a digest of the result."""
        digest = hashlib.sha256()
        for pattern in self.files:
            for path in sorted(folder.glob(pattern)):
                digest.update(path.name.encode() + path.read_bytes())
        digest.update(repr(self.content(folder) if self.content else None).encode())
        return digest.hexdigest()


SMALL = ("--model.hidden", "16", "--train.batch_size", "256", "--train.warmup_epochs", "6", "--train.epochs", "3")
PAIRS = ("--model", "str_contrast", *SMALL, "--consolidate.epochs", "3", "--sparsifier.pretrain_epochs", "5")
LEARNER = ("--teachers.rounds", "1", "--teachers.trees", "false", "--teachers.pair_epochs", "3", "--model.hidden", "16")
LEARNER = (*LEARNER, "--teachers.pairs", "always", "--model.steps", "40")
STREAMED = ("--train.memory", "0", "--teachers.pair_epochs", "2", "--teachers.pair_batches", "4", *SMALL[:2])
WEIGHTS = ("run/model.safetensors", "run/edges.npz")


def train(inputs: Path, folder: Path, *options: str, graph: str = "graph.npz") -> int:
    """Run ``gssc train``, resuming it if possible."""
    return gssc(["train", "--graph", str(inputs / graph), "--out", str(folder / "run"), "--resume", *options])


def build(folder: Path) -> int:
    """Run ``gssc data build``; a finished graph is not built again."""
    if (folder / "big.graph").exists():
        return 0
    sizes = ("--nodes", "20000", "--edges", "200000", "--features", "16")
    return gssc(["data", "build", "csbm", *sizes, "--out", str(folder / "big.graph")])


def score_all(inputs: Path, folder: Path) -> int:
    """Do the work of ``gssc score`` in this process."""
    score(inputs / "model", inputs / "rows", folder / "scores", Here(score_file), rows_per_part=5_000)
    return 0


def sweep(folder: Path) -> int:
    """Do the work of ``gssc bench`` in this process."""
    made, _ = cells(["mlp", "sgc"], ["none"], ["digits"], seeds=2, max_epochs=5)
    Sweep(made, Store(folder / "store.sqlite"), Here(run_job)).run()
    return 0


def scores_of_rows(folder: Path) -> list:
    """Return the results of a sweep without times."""
    return [(row["key"], row["status"], row["val_score"], row["test_score"]) for row in store_rows(folder)]


def store_rows(folder: Path) -> list:
    """Return the rows of a sweep."""
    return Store(folder / "store.sqlite").runs()


def works(inputs: Path) -> list[Work]:
    """Return all kinds of work that must survive faults."""
    return [
        Work("train gssc", lambda folder: train(inputs, folder, *LEARNER), WEIGHTS),
        Work("train streamed", lambda folder: train(inputs, folder, *STREAMED, graph="disk.graph"), WEIGHTS),
        Work("train str_contrast", lambda folder: train(inputs, folder, *PAIRS), WEIGHTS),
        Work("build", build, ("big.graph/*",)),
        Work("score", lambda folder: score_all(inputs, folder), ("scores/part-*", "scores/_manifest.json")),
        Work("sweep", sweep, (), scores_of_rows),
    ]


def make_inputs(folder: Path) -> None:
    """Write the training graph, a model and the rows that it scores."""
    folder.mkdir(parents=True)
    graph = load_dataset("csbm", nodes=160, degree=6, signal=2.0, classes=3)
    graph.save(folder / "graph.npz")
    build_graph(InMemoryStream(graph), folder / "disk.graph")
    rng = np.random.default_rng(0)
    DeployedModel([(rng.standard_normal((2, 3)), np.zeros(2))], ["cat", "dog"]).save(folder / "model")
    (folder / "rows").mkdir()
    for number in range(4):
        columns = {"id": np.arange(20_000) + 20_000 * number, **{name: rng.random(20_000) for name in "abc"}}
        pq.write_table(pa.table(columns), folder / "rows" / f"{number}.parquet")


# Processes ------------------------------------------------------------------------------------------------------


def start(work: Callable[[], int], log: Path) -> int:
    """Fork a process that does the work, with its output in a file, and return its id."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    code = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        run_module.SECONDS_BETWEEN_CHECKPOINTS = 0.0
        try:
            code = work()
        except GsscError as error:
            print(f"error: {error}", file=sys.stderr)
            code = FAILED
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def used(pid: int) -> float:
    """Return the CPU seconds a process has used; infinity once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return float("inf") if fields[0] == "Z" else (int(fields[11]) + int(fields[12])) / TICKS


def finish(work: Callable[[], int], log: Path) -> int:
    """Do the work to its end in a separate process and return the exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(start(work, log), 0)[1])


def one_line(log: Path) -> str | None:
    """Return the error in the output of a process if it is one line without a traceback, else None."""
    text = log.read_text(errors="replace")
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    return lines[0][7:] if len(lines) == 1 and "Traceback" not in text else None


# Faults: each returns the number of rounds and their outcome -----------------------------------------------------

Outcome = tuple[int, str]


def kills(work: Work, rounds: int, seed: int, place: Path) -> Outcome:
    """Kill the work at random moments and compare the result with the undisturbed one."""
    log = place / "log"
    undisturbed = place / "undisturbed"
    undisturbed.mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = finish(lambda: work.run(undisturbed), log)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert code == 0, log.read_text()
    takes = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    expected, rng, killed, wrong = work.result(undisturbed), random.Random(f"{work.name} {seed}"), 0, []
    for number in range(rounds):
        folder = place / f"round-{number}"
        folder.mkdir()
        for _ in range(rng.choice([1, 1, 2, 3])):
            limit, pid = rng.random() * takes, start(lambda folder=folder: work.run(folder), log)
            while used(pid) < limit:
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
            killed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        code = finish(lambda folder=folder: work.run(folder), log)
        if code != 0 or work.result(folder) != expected:
            wrong.append(f"round {number}: exit {code}, {one_line(log) or log.read_text()[-300:]}")
        print(f"{work.name}: {number + 1} rounds, {killed} kills, {len(wrong)} wrong", file=sys.stderr, flush=True)
    bad = f"; WRONG: {'; '.join(wrong)}" if wrong else ""
    return rounds, f"{killed} kills; {rounds - len(wrong)} of {rounds} resumed to the undisturbed bytes{bad}"


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """Mount a tmpfs of this size."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def full_disk(work: Work, size: str, place: Path) -> Outcome:
    """Do the work on a disk that is too small for it, then enlarge the disk and resume."""
    undisturbed = place / "undisturbed"
    undisturbed.mkdir(parents=True)
    assert finish(lambda: work.run(undisturbed), place / "log") == 0
    with small_disk(size) as folder:
        code = finish(lambda: work.run(folder), place / "log")
        said = one_line(place / "log")
        subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)
        again = finish(lambda: work.run(folder), place / "log")
        same = again == 0 and work.result(folder) == work.result(undisturbed)
    return 1, told(code, said) + (", with room it goes on to the same bytes" if same else ", and then WRONG")


def read_only(work: Work, place: Path) -> Outcome:
    """Do the work in a folder on a disk mounted read-only."""
    place.mkdir(parents=True)
    with small_disk("50m") as folder:
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        code = finish(lambda: work.run(folder), place / "log")
    return 1, told(code, one_line(place / "log"))


def little_memory(work: Work, megabytes: int, place: Path) -> Outcome:
    """Do the work with a limited address space, then resume it without a limit."""
    undisturbed, folder = place / "undisturbed", place / "limited"
    for each in (undisturbed, folder):
        each.mkdir(parents=True)
    assert finish(lambda: work.run(undisturbed), place / "log") == 0

    def limited() -> int:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 2**20, resource.RLIM_INFINITY))
        return work.run(folder)

    code = finish(limited, place / "log")
    said = one_line(place / "log")
    if said is None:
        print((place / "log").read_text()[-2000:], file=sys.stderr)
    again = finish(lambda: work.run(folder), place / "log")
    same = again == 0 and work.result(folder) == work.result(undisturbed)
    return 1, told(code, said) + (", without the limit it goes on to the same bytes" if same else ", and then WRONG")


def told(code: int, said: str | None) -> str:
    """Return an exit code and an error as text."""
    if code == 0:
        return "done in spite of it"
    return f"one line: {said}" if code == FAILED and said else f"WRONG: exit {code}, no line"


def damages(path: Path, use: Callable[[], object], rounds: int, seed: int) -> Outcome:
    """Truncate a file or flip one bit of it, ``rounds`` times each; using it must fail or give the same result."""
    whole, rng = path.read_bytes(), random.Random(seed)
    expected, refused, harmless, wrong = repr(use()), 0, 0, 0
    for number in range(2 * rounds):
        place = rng.randrange(len(whole))
        flipped = whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
        path.write_bytes(flipped if number % 2 else whole[:place])
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                same = repr(use()) == expected
            harmless, wrong = harmless + same, wrong + (not same)
        except GsscError:
            refused += 1
    path.write_bytes(whole)
    note = f"; WRONG: {wrong} gave another result" if wrong else ""
    return 2 * rounds, f"{refused} refused in one line, {harmless} changed nothing that is read{note}"


def damaged_files(inputs: Path, rounds: int, seed: int, place: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcomes of damaging checkpoint, model, graphs and store."""
    from gssc.data.disk import check_digests, open_graph
    from gssc.graph import Graph
    from gssc.run_graph import fingerprint
    from gssc.train.checkpoint import load_checkpoint

    place.mkdir(parents=True)
    log = place / "log"
    for work in works(inputs):
        if work.name.startswith("train"):
            checkpoint = unfinished(work, place / work.name, log)
            outcome = damages(checkpoint, lambda path=checkpoint: state_digest(load_checkpoint(path)), rounds, seed)
            yield f"checkpoint, {work.name}", outcome
    rows = np.random.default_rng(0).random((5, 3))
    model = inputs / "model"
    for name in ("model.safetensors", "model.json"):
        yield name, damages(model / name, lambda: DeployedModel.load(model).predict_proba(rows), rounds, seed)
    graph = inputs / "graph.npz"
    yield "graph.npz", damages(graph, lambda: fingerprint(Graph.load(graph)), rounds, seed)
    assert finish(lambda: build(place), log) == 0, log.read_text()
    big = place / "big.graph"

    def opened() -> str:
        check_digests(big)
        return fingerprint(open_graph(big))

    for name in ("features.npy", "edges.npy", "graph.json"):
        yield f"graph on disk, {name}", damages(big / name, opened, rounds, seed)
    assert finish(lambda: sweep(place), log) == 0, log.read_text()

    def stored() -> list:
        for leftover in place.glob("store.sqlite-*"):
            leftover.unlink()
        return [sorted(row.items()) for row in store_rows(place)]

    stored()
    yield "store", damages(place / "store.sqlite", stored, rounds, seed)


def unfinished(work: Work, folder: Path, log: Path) -> Path:
    """Return the checkpoint of a training that was killed after a few epochs."""
    folder.mkdir()
    pid, lines = start(lambda: work.run(folder), log), folder / "run" / "metrics.jsonl"
    while not (lines.exists() and lines.read_text().count("\n") >= 3):
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return folder / "run" / "checkpoint.safetensors"


def state_digest(value: object) -> str:
    """Return a digest of a nested state of tensors and plain values."""
    if isinstance(value, dict):
        return repr({key: state_digest(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return repr([state_digest(inner) for inner in value])
    return hashlib.sha256(value.numpy().tobytes()).hexdigest() if hasattr(value, "numpy") else repr(value)


def large_file(place: Path) -> Outcome:
    """Score a file that is larger than the memory limit."""
    place.mkdir(parents=True)
    columns, count, limit = 20, 3_000_000, 160
    rng = np.random.default_rng(0)
    DeployedModel([(rng.standard_normal((2, columns)), np.zeros(2))], ["cat", "dog"]).save(place / "model")
    arrays = [pa.array(rng.random(count, dtype=np.float32)) for _ in range(columns)]
    table = pa.table(arrays, names=[f"f{index}" for index in range(columns)])
    pq.write_table(table, place / "rows.parquet", row_group_size=count, use_dictionary=False)
    del arrays, table
    size = (place / "rows.parquet").stat().st_size / 2**20

    def limited() -> int:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + limit * 2**20, resource.RLIM_INFINITY))
        return 0 if score(place / "model", place / "rows.parquet", place / "out", Here(score_file)).rows == count else 1

    code = finish(limited, place / "log")
    what = f"a file of {size:.0f} MB in one row group, {limit} MB of memory to spend"
    return 1, f"{what}: {'every row scored' if code == 0 else told(code, one_line(place / 'log'))}"


def tests_of(name: str, *tests: str) -> Outcome:
    """Return the outcome of a fault that tests of the suite cause, with real processes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    return 1, name if done.returncode == 0 else f"WRONG: {done.stdout.splitlines()[-1]}"


TESTED = {
    "torchrun worker killed": (
        "ends with one line and resumes, with another number of processes",
        "tests/train/test_distributed.py::test_a_killed_process_ends_the_run_in_one_line_and_it_resumes",
    ),
    "Ray worker killed": (
        "a sweep and a scoring lose and double nothing",
        "tests/scoring/test_score_on_ray.py::test_a_killed_worker_loses_nothing",
    ),
    "process of a sweep killed": (
        "its job fails alone and the process is replaced",
        "tests/evaluate/test_executor.py::test_a_process_that_dies_fails_its_own_job_and_is_replaced",
    ),
}


def faults(options: argparse.Namespace, inputs: Path, place: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcomes of all requested faults."""
    by_name = {work.name: work for work in works(inputs)}

    def wanted(name: str) -> bool:
        return not options.only or any(name.startswith(only) for only in options.only.split(","))

    for name, work in by_name.items():
        if wanted(f"kill:{name}"):
            yield f"kill -9, {name}", kills(work, options.rounds, options.seed, place / f"kill {name}")
    sizes = {
        "train gssc": "100k",
        "train streamed": "24k",
        "train str_contrast": "60k",
        "build": "1m",
        "score": "500k",
        "sweep": "40k",
    }
    for name, size in sizes.items():
        if os.geteuid() == 0 and wanted(f"full:{name}"):
            yield f"disk of {size} full, {name}", full_disk(by_name[name], size, place / f"full {name}")
        if os.geteuid() == 0 and wanted(f"readonly:{name}"):
            yield f"read-only folder, {name}", read_only(by_name[name], place / f"readonly {name}")
    for name, megabytes in {"train gssc": 8, "train streamed": 8, "train str_contrast": 8}.items():
        if wanted(f"memory:{name}"):
            outcome = little_memory(by_name[name], megabytes, place / f"memory {name}")
            yield f"{megabytes} MB of memory left, {name}", outcome
    if wanted("large"):
        yield "file larger than memory, score", large_file(place / "large")
    if wanted("damage"):
        for name, outcome in damaged_files(inputs, options.rounds, options.seed, place / "damage"):
            yield f"cut short or one bit flipped: {name}", outcome
    for name, (meaning, test) in TESTED.items():
        if wanted(f"worker:{name}"):
            yield name, tests_of(meaning, test)


def main() -> None:
    """Cause every fault, print and write a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="names as kill:train, full:, readonly:, memory:, large, damage, worker:")
    parser.add_argument("--out", help="write the table to this file too")
    options = parser.parse_args()
    lines = ["| fault | rounds | outcome |", "|---|---|---|"]
    print(*lines, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder) / "inputs")
        for name, (rounds, outcome) in faults(options, Path(folder) / "inputs", Path(folder)):
            told_of = outcome.replace(folder, "").replace("|", "\\|")
            lines.append(f"| {name} | {rounds} | {told_of} |")
            print(lines[-1], flush=True)
    if options.out:
        arguments = " ".join(sys.argv[1:])
        about = f"# Faults\n\n    python benchmarks/faults.py {arguments}\n\n"
        Path(options.out).write_text(about + "\n".join(lines) + "\n", encoding="utf-8")
    if any("WRONG" in line for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
