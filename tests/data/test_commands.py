"""What `gssc data` prints and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gssc.cli.data import dataset_info, import_graph, list_datasets
from gssc.data import DATASETS
from gssc.errors import GsscError
from gssc.graph import Graph


@pytest.fixture(autouse=True)
def no_data_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GSSC_DATA_ROOT", raising=False)


def test_every_dataset_is_described() -> None:
    for name, entry in DATASETS.items():
        assert name == entry.name
        assert entry.description
        assert entry.citation != "-"
        assert entry.splits
        if entry.files:
            assert entry.licence != "-"
            assert all((file.url or entry.address).startswith("https://") for file in entry.files)
            assert all(file.sha256 is None or len(file.sha256) == 64 for file in entry.files)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    list_datasets()
    printed = capsys.readouterr().out
    for name in DATASETS:
        assert name in printed
    assert "2,708" in printed
    assert "to download" in printed


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    dataset_info("cora")
    printed = capsys.readouterr().out
    assert "kimiyoung/planetoid" in printed
    assert "fetched on first use" in printed
    dataset_info("csbm")
    assert "homophily" in capsys.readouterr().out
    with pytest.raises(GsscError, match="did you mean 'cora'"):
        dataset_info("kora")


def test_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.csv").write_text("id,x,label\na,1,u\nb,2,v\nc,3,u\n")
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,a\nb,b\nc,b\n")
    out = tmp_path / "graph.npz"
    import_graph(tmp_path / "n.csv", tmp_path / "e.csv", out, split="per-class:1")
    printed = capsys.readouterr().out
    assert "2 (1 self-loops removed, 1 one-way edges symmetrised)" in printed
    graph = Graph.load(out)
    assert (graph.num_nodes, graph.class_names, graph.feature_names) == (3, ("u", "v"), ("x",))
    with pytest.raises(GsscError):
        import_graph(tmp_path / "n.csv", tmp_path / "absent.csv", tmp_path / "other.npz")
    assert not (tmp_path / "other.npz").exists()
