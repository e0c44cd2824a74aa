from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssc.errors import GsscError
from gssc.files import atomic_write, sha256, write_json


def test_a_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "result.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_signal_right_after_the_file_began_to_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch = Path.touch

    def interrupted(path: Path, *args: object, **options: object) -> None:
        touch(path, *args, **options)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "touch", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "new.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_new_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "atomic") as temporary:
        temporary.touch()
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GsscError, match="cannot write .*nowhere"), atomic_write(tmp_path / "nowhere" / "x"):
        pytest.fail("the body must not run")


def test_a_folder_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with (
        pytest.raises(GsscError, match=r"cannot write .*folder/x: No such file"),
        atomic_write(tmp_path / "folder" / "x") as temporary,
    ):
        temporary.write_text("new")
        shutil.rmtree(temporary.parent)


def test_a_path_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(GsscError, match="cannot write"), atomic_write(tmp_path / "folder") as temporary:
        temporary.touch()
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


WRITE_AND_HANG = """
import sys, time
from gssc.files import atomic_write
with atomic_write(sys.argv[1]) as temporary, temporary.open("w") as file:
    file.write("half of the new content")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("old and whole")
    process = subprocess.Popen([sys.executable, "-c", WRITE_AND_HANG, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert path.read_text() == "old and whole"


WRITE_FOREVER = """
import itertools, sys
from gssc.files import atomic_write
print("writing", flush=True)
for number in itertools.count():
    with atomic_write(sys.argv[1]) as temporary:
        temporary.write_text(str(number % 10) * 200_000)
"""


def test_killed_at_any_moment_the_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("0" * 200_000)
    for delay in (0.0, 0.003, 0.011, 0.03):
        process = subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, path], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.wait()
        process.stdout.close()
        text = path.read_text()
        assert len(text) == 200_000
        assert len(set(text)) == 1


def test_sha256_is_that_of_the_content(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "x").write_bytes(content)
    assert sha256(tmp_path / "x") == hashlib.sha256(content).hexdigest()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aé日\n"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner),
    max_leaves=8,
)


@given(value=json_values)
def test_json_round_trip(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    write_json(path, value)
    assert json.loads(path.read_text(encoding="utf-8")) == value


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", float("nan"))
    assert not list(tmp_path.iterdir())


def test_a_log_that_finds_no_room_names_its_file(tmp_path):
    code = """
import resource, signal, sys
from pathlib import Path
from gssc.run_folder import EpochLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
log = EpochLog(Path(sys.argv[1]))
for epoch in range(100):
    log.append({"epoch": epoch, "phase": "student"})
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert "cannot write" in last
    assert "metrics.jsonl" in last
    assert "make room on the disk" in last
