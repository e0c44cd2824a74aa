from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from gssc.deploy import row_count


def test_arrays_are_counted_without_reading_them(tmp_path: Path) -> None:
    x = np.ones((7, 3), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_matrix(x))
    assert [row_count(tmp_path / name) for name in ("x.npy", "x.npz", "sparse.npz")] == [7, 7, 7]


def test_parquet_and_graphs_on_disk(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / "x.parquet")
    (tmp_path / "g.graph").mkdir()
    (tmp_path / "g.graph" / "graph.json").write_text('{"nodes": 12}')
    assert (row_count(tmp_path / "x.parquet"), row_count(tmp_path / "g.graph")) == (2, 12)


@pytest.mark.parametrize("end", ["", "\n"])
def test_short_text_is_counted_exactly(tmp_path: Path, end: str) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4" + end)
    assert row_count(tmp_path / "x.csv") == 2


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_long_text_is_estimated(tmp_path: Path, name: str) -> None:
    numbers = np.random.default_rng(0).random((60_000, 4))
    text = "a,b,c,d\n" + "\n".join(",".join(f"{value:.6f}" for value in row) for row in numbers) + "\n"
    (tmp_path / "x.csv").write_text(text)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert row_count(tmp_path / name) == pytest.approx(60_000, rel=0.02)


def test_what_cannot_be_counted_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"PK no archive")
    (tmp_path / "x.docx").write_bytes(b"")
    assert [row_count(path) for path in ("-", tmp_path / "none.csv", tmp_path / "broken.npz", tmp_path / "x.docx")] == [
        None
    ] * 4
