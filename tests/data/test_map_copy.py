"""Copies of scattered parts of a map: equal to the map, and none at all where the file was cut short."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gssc.data import map_copy
from gssc.data.array_file import ArrayFile
from gssc.data.map_copy import MapCopy, usable_memory

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs files in memory")
ROW, ROWS = 512, 1000  # eight rows per page


@pytest.fixture
def mapped(tmp_path: Path) -> np.memmap:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((ROWS, ROW // 4), dtype=np.float32))
    found = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert isinstance(found, np.memmap)
    return found


@pytest.fixture
def handle(mapped: np.memmap) -> Iterator[int]:
    assert mapped.filename
    handle = os.open(mapped.filename, os.O_RDONLY)
    yield handle
    os.close(handle)


def parts_of(rows: list[int]) -> list[tuple[int, int]]:
    return [(ROW * row, ROW) for row in rows]


def test_parts_are_those_of_the_map(mapped: np.memmap, handle: int) -> None:
    copy = MapCopy(mapped, handle)
    for rows in ([0, 5, 999], [7], list(range(0, 900, 4)), [3, 3, 2]):
        assert copy.parts(parts_of(rows)) == mapped[rows].tobytes()


def test_large_parts_and_places_outside_of_the_array_are_left_to_other_means(
    mapped: np.memmap, handle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = MapCopy(mapped, handle)
    assert copy.parts(parts_of([1, ROWS])) is None
    monkeypatch.setattr(map_copy, "LARGEST", 2 * ROW)
    assert copy.parts(parts_of([1, 2])) is not None
    assert copy.parts(parts_of([1, 2, 3])) is None


def test_a_part_that_could_not_be_copied_is_not_taken_from_the_copy_before(
    mapped: np.memmap, handle: int, tmp_path: Path
) -> None:
    """The descriptor is that of an intact file, so that only the copy itself shows the fault."""
    (tmp_path / "intact").write_bytes(bytes(2 * mapped.nbytes))
    with (tmp_path / "intact").open("rb") as intact:
        copy = MapCopy(mapped, intact.fileno())
        assert copy.parts(parts_of([1, 999])) is not None
        os.truncate(tmp_path / "rows.npy", 4096)
        assert copy.parts(parts_of([1, 999])) is None
        assert copy.parts(parts_of([999])) is None


def test_the_rest_of_a_page_that_was_cut_is_not_taken_for_zeros(mapped: np.memmap, handle: int, tmp_path: Path) -> None:
    copy = MapCopy(mapped, handle)
    os.truncate(tmp_path / "rows.npy", (tmp_path / "rows.npy").stat().st_size - 1)
    assert copy.parts(parts_of([999])) is None


def test_rows_are_read_one_by_one_where_files_cannot_be_written_to(mapped: np.memmap, tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "import numpy as np\n"
        "from gssc.data.array_file import ArrayFile\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "mapped = np.load(sys.argv[1], mmap_mode='r')\n"
        "rows = np.array([3, 900, 17])\n"
        "assert np.array_equal(ArrayFile(mapped)[rows], mapped[rows])\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "rows.npy")], check=True, timeout=60)


def test_a_file_may_have_more_parts_than_one_call_takes(mapped: np.memmap) -> None:
    rows = np.random.default_rng(1).permutation(ROWS)
    assert np.array_equal(ArrayFile(mapped)[rows], mapped[rows])


def test_mapped_rows_are_the_same(mapped: np.memmap) -> None:
    file = ArrayFile(mapped)
    for start in range(0, ROWS, 300):
        file.keep_mapped(start, start + 300)
    assert np.array_equal(file[np.array([0, 500, 999])], mapped[[0, 500, 999]])


def test_a_forked_process_does_not_overwrite_the_copies_of_its_parent(mapped: np.memmap, tmp_path: Path) -> None:
    """In a process of its own: Python warns of a fork in one that has threads, as this one may have."""
    program = (
        "import os, sys\n"
        "import numpy as np\n"
        "from gssc.data.array_file import ArrayFile\n"
        "mapped = np.load(sys.argv[1], mmap_mode='r')\n"
        "file, random, wrong = ArrayFile(mapped), np.random.default_rng(0), 0\n"
        "file[np.array([3, 5])]\n"
        "assert file.copy is not None\n"
        "child = os.fork()\n"
        "for _ in range(1000):\n"
        "    rows = np.sort(random.choice(len(mapped), 200 if child else 300, replace=False))\n"
        "    wrong += not np.array_equal(file[rows], mapped[rows])\n"
        "if not child:\n"
        "    os._exit(min(wrong, 1))\n"
        "assert (wrong, os.waitpid(child, 0)[1]) == (0, 0)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "rows.npy")], check=True, timeout=60)


def test_files_above_half_of_the_memory_are_not_mapped(
    mapped: np.memmap, handle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_copy, "usable_memory", lambda: 2 * mapped.nbytes)
    assert MapCopy.of(mapped, handle) is not None
    monkeypatch.setattr(map_copy, "usable_memory", lambda: 2 * mapped.nbytes - 1)
    assert MapCopy.of(mapped, handle) is None


def test_usable_memory_is_that_of_the_lowest_limit() -> None:
    program = (
        "import resource\n"
        "from gssc.data.map_copy import usable_memory\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (3 * 10**8,) * 2)\n"
        "print(usable_memory())\n"
    )
    assert 10**8 < usable_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout) == 3 * 10**8
