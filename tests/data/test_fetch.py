"""Files are found, downloaded, verified, and never trusted."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.data.entry import Dataset, File, FilePaths, RawGraph
from gssc.data.fetch import fetch
from gssc.data.pickles import read_object_array, read_pickle
from gssc.errors import GsscError

CONTENT = b"published bytes"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def load_nothing(files: FilePaths, seed: int = 0) -> RawGraph:
    raise AssertionError("not called")


def dataset(url: str | None, digest: str | None = DIGEST, **more: Any) -> Dataset:
    return Dataset("made", "-", load_nothing, "public", ("public",), (File("f.bin", url, digest),), **more)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GSSC_DATA_ROOT", raising=False)
    return tmp_path / "cache"


def place(root: Path, content: bytes = CONTENT, name: str = "f.bin") -> Path:
    path = root / "made" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_root_then_cache_then_download(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = tmp_path / "published.bin"
    published.write_bytes(CONTENT)
    entry = dataset(published.as_uri())
    root = tmp_path / "root"
    root.mkdir()
    downloaded = fetch(entry, root)["f.bin"]
    assert downloaded == own_cache / "made" / "f.bin"
    assert downloaded.read_bytes() == CONTENT
    published.unlink()
    assert fetch(entry)["f.bin"] == downloaded  # from the cache, nothing is asked for again
    placed = place(root)
    assert fetch(entry, root)["f.bin"] == placed
    monkeypatch.setenv("GSSC_DATA_ROOT", str(root))
    assert fetch(entry)["f.bin"] == placed


def test_tampered_file_is_refused(tmp_path: Path) -> None:
    path = place(tmp_path, b"tampered bytes!")
    with pytest.raises(GsscError, match="is not the published file: its SHA-256") as caught:
        fetch(dataset("https://example.org/f.bin"), tmp_path)
    assert str(path) in str(caught.value)
    assert "https://example.org/f.bin" in str(caught.value)


def test_tampered_download_leaves_nothing(tmp_path: Path, own_cache: Path) -> None:
    published = tmp_path / "published.bin"
    published.write_bytes(b"something else")
    with pytest.raises(GsscError, match=r"download of .* failed: .*SHA-256"):
        fetch(dataset(published.as_uri()))
    assert list((own_cache / "made").iterdir()) == []


def test_failed_download_says_what_to_do(tmp_path: Path, own_cache: Path) -> None:
    url = (tmp_path / "absent.bin").as_uri()
    with pytest.raises(GsscError, match="could not download") as caught:
        fetch(dataset(url, address="https://example.org"), tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    for part in ("f.bin", "https://example.org", str(tmp_path / "made"), str(own_cache / "made")):
        assert part in message
    with pytest.raises(GsscError, match="no public URL"):
        fetch(dataset(None))


def test_no_such_root(tmp_path: Path) -> None:
    with pytest.raises(GsscError, match="is not a folder"):
        fetch(dataset(None), tmp_path / "absent")


def test_whole_alternative_is_used_before_downloading(tmp_path: Path) -> None:
    entry = dataset(None, alternatives=((File("other.bin", None), File("more.bin", None, optional=True)),))
    path = place(tmp_path, b"any", "other.bin")
    assert fetch(entry, tmp_path) == {"other.bin": path}
    place(tmp_path)
    assert list(fetch(entry, tmp_path)) == ["f.bin"]


class Malicious:
    """Pickled, this asks the reader to run a command."""

    def __reduce__(self) -> Any:
        return os.system, ("touch owned",)


def test_malicious_pickle_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path = tmp_path / "evil.pkl"
        path.write_bytes(pickle.dumps(Malicious(), protocol=protocol))
        with pytest.raises(GsscError, match=r"not plain data and was not read \(it requests (posix|nt)\.system\)"):
            read_pickle(path)
    stored = io.BytesIO()
    np.save(stored, np.array([Malicious()], dtype=object), allow_pickle=True)
    stored.seek(0)
    with pytest.raises(GsscError, match="was not read"):
        read_object_array(stored, "evil.npy")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "text", ["cbuiltins\neval\n(S'1'\ntR.", "cnumpy\nload\n(S'x'\ntR.", "c_codecs\nencode\n(S'x'\nS'rot13'\ntR."]
)
def test_other_doors_are_shut(tmp_path: Path, text: str) -> None:
    path = tmp_path / "evil.pkl"
    path.write_text(text)
    with pytest.raises(GsscError, match="was not read"):
        read_pickle(path)


def test_plain_pickles_are_read(tmp_path: Path) -> None:
    path = tmp_path / "plain.pkl"
    neighbours = defaultdict(list, {0: [1], 1: [0]})
    path.write_bytes(pickle.dumps(neighbours, protocol=2))
    assert read_pickle(path) == {0: [1], 1: [0]}
    path.write_bytes(pickle.dumps(np.eye(3), protocol=2))
    np.testing.assert_array_equal(read_pickle(path), np.eye(3))
    path.write_bytes(pickle.dumps(sp.csr_matrix(np.eye(2)), protocol=2))
    np.testing.assert_array_equal(read_pickle(path).toarray(), np.eye(2))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(GsscError, match="cut short|was not read"):
        read_pickle(path)
