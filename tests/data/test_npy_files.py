""".npy files written piece by piece: what np.load reads, and errors with their cause."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gssc.data.npy_files import NpyAppender, NpyColumns, write_array
from gssc.errors import GsscError

FULL = Path("/dev/full")  # a file on a full disk


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.int64).reshape(3, 4),
        np.asfortranarray(np.eye(3, dtype=np.float16)),
        np.array(["a", "long"]),
        np.empty((0,), dtype=np.int64),
        np.arange(10)[::2],
    ],
)
def test_arrays_are_read_back(tmp_path: Path, array: np.ndarray) -> None:
    write_array(tmp_path / "a.npy", array)
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


@pytest.mark.parametrize("shape", [(2, 5), (5,)])
def test_columns_are_filled_from_the_left(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    with NpyColumns(tmp_path / "a.npy", np.dtype(np.int32), shape) as file:
        for part in np.split(values, [2, 3], axis=-1):
            file.append(part)
    found = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert found.dtype == np.int32
    assert np.array_equal(found, values)


def test_missing_columns_are_told(tmp_path: Path) -> None:
    with (
        pytest.raises(GsscError, match="cut short"),
        NpyColumns(tmp_path / "a.npy", np.dtype(np.int32), (2, 5)) as file,
    ):
        file.append(np.zeros((2, 4), dtype=np.int32))


def test_rows_that_are_not_there_cannot_be_kept(tmp_path: Path) -> None:
    with NpyAppender(tmp_path / "a.npy", np.dtype(np.float32), (3,)) as file:
        file.append(np.ones((4, 3)))
    with NpyAppender(tmp_path / "a.npy", np.dtype(np.float32), (3,), rows=2) as file:
        file.append(np.zeros((1, 3)))
    assert np.load(tmp_path / "a.npy").sum(axis=1).tolist() == [3, 3, 0]
    for path in (tmp_path / "a.npy", tmp_path / "b.npy"):
        with pytest.raises(GsscError, match="cut short"):
            NpyAppender(path, np.dtype(np.float32), (3,), rows=4)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_is_the_cause_of_the_error() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        write_array(FULL, np.zeros(100_000))
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.parametrize("kilobytes", [1000, 1500, 1800, 2400])
def test_a_build_on_a_full_disk_ends_with_one_line_and_resumes(tmp_path: Path, kilobytes: int) -> None:
    """The disk is full after 1,800 KB, while sorted edges are joined; written through a map, that was a bus error."""
    options = ["--nodes", "10000", "--edges", "100000", "--features", "16", "--out", str(tmp_path / "g.graph")]
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount")
    try:
        build = [sys.executable, "-m", "gssc", "data", "build", "csbm", *options]
        full = subprocess.run(build, capture_output=True, text=True)
        assert full.returncode == 2, full.stderr
        assert "No space left on device; free some disk space" in full.stderr.splitlines()[-1]
        subprocess.run(["mount", "-o", "remount,size=20m", str(tmp_path)], check=True)
        assert subprocess.run(build, capture_output=True).returncode == 0
        assert np.load(tmp_path / "g.graph" / "edges.npy").shape[0] == 2
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
