"""Parts of memory-mapped arrays: equal to the map, and a clear error if the file was cut short."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gssc.data import array_file
from gssc.data.array_file import ArrayFile
from gssc.errors import GsscError


def mapped_numbers(folder: Path, dtype: str = "float32", shape: tuple[int, ...] = (150, 7)) -> np.ndarray:
    np.save(folder / "numbers.npy", np.arange(np.prod(shape)).reshape(shape).astype(dtype))
    return np.load(folder / "numbers.npy", mmap_mode="r")


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parts_read_from_the_file_are_those_of_the_map(tmp_path: Path, dtype: str, hold: bool) -> None:
    mapped = mapped_numbers(tmp_path, dtype)
    file = ArrayFile(mapped, hold=hold)
    assert (file.handle < 0) == hold
    for nodes in ([], [3], [0, 1, 2, 49], [9, 8, 8, 10, 11], list(range(150))):
        chosen = np.array(nodes, dtype=np.int64)
        assert np.array_equal(file[chosen], mapped[chosen])
        assert file[chosen].dtype == mapped.dtype
    assert np.array_equal(file.block(100, 200), mapped[100:])
    assert np.array_equal(file.columns(2, 9), mapped[:, 2:])
    assert np.array_equal(file.whole(np.float64), mapped)


def test_arrays_of_one_dimension_and_other_arrays_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_file, "VALUES_AT_A_TIME", 4)
    names = mapped_numbers(tmp_path, "<U3", (30,))
    assert ArrayFile(names).block(2, 4).tolist() == ["2", "3"]
    assert np.array_equal(ArrayFile(names).whole(), names)
    part = names[10:]  # its place in the file is not known
    assert ArrayFile(part).handle < 0
    assert ArrayFile(part)[np.array([1, 2])].tolist() == ["11", "12"]
    assert ArrayFile(np.eye(3)).columns(1, 3).shape == (3, 2)


@pytest.mark.parametrize("number", [-1, -2, -150, 150, 2**40])
def test_a_row_that_is_not_there_is_not_read_from_elsewhere(tmp_path: Path, number: int) -> None:
    """The row before the first would be read from the header of the file."""
    with pytest.raises(GsscError, match=f"has no row {number}: they run from 0 to 149"):
        ArrayFile(mapped_numbers(tmp_path))[np.array([3, number, 5])]


def test_large_files_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_file, "SMALL_FILE", 100)
    assert ArrayFile(mapped_numbers(tmp_path), hold=True).handle >= 0


@pytest.mark.parametrize(
    "read",
    [
        lambda file: file[np.array([149])],
        lambda file: file.block(100, 150),
        lambda file: file.columns(0, 7),
        lambda file: file.whole(),
        lambda file: ArrayFile(file.array, hold=True),
    ],
)
def test_a_file_that_is_cut_short_while_it_is_read_is_an_error(
    tmp_path: Path, read: Callable[[ArrayFile], object]
) -> None:
    file = ArrayFile(mapped_numbers(tmp_path))
    os.truncate(tmp_path / "numbers.npy", (tmp_path / "numbers.npy").stat().st_size - 1)
    with pytest.raises(GsscError, match=r"numbers\.npy was cut short while it was read"):
        read(file)
