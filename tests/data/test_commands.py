"""What `gssc data` prints and writes."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest

from gssc.cli.data import dataset_info, import_graph, list_datasets
from gssc.cli.main import main
from gssc.data import DATASETS, import_tables, load_dataset
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


def test_info_of_a_graph_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.npz"
    Graph(np.eye(3), [[0, 1], [1, 2]], labels=["u", None, "v"], edge_weight=[0.5, 2], name="my [graph]").save(path)
    assert main(["data", "info", str(path)]) == 0
    printed = capsys.readouterr().out
    for part in ("my [graph]", "2: u, v", "0.5 to 2"):
        assert part in printed
    with pytest.raises(GsscError, match=r"absent\.npz does not exist"):
        dataset_info(str(tmp_path / "absent.npz"))
    (tmp_path / "cora.txt").write_text("no graph")
    with pytest.raises(GsscError, match=r"cora\.txt"):
        dataset_info(str(tmp_path / "cora.txt"))


def test_import_without_edges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.csv").write_text("x;label\n1,5;u\n2,5;v\n9;-1\n8;u\n")
    command = ["data", "import", "--nodes", str(tmp_path / "n.csv"), "--out", str(tmp_path / "g.npz")]
    assert main([*command, "--decimal", ",", "--n-neighbors", "1"]) == 0
    assert "nearest neighbours" in capsys.readouterr().out
    graph = Graph.load(tmp_path / "g.npz")
    assert graph.edges.tolist() == [[0, 2], [1, 3]]
    assert (graph.class_names, graph.labels.tolist()) == (("u", "v"), [0, 1, -1, 0])


def test_import_names_a_next_command_that_a_shell_understands(tmp_path: Path, capsys) -> None:
    (tmp_path / "n.csv").write_text("x,label\n1,u\n2,v\n9,u\n8,u\n")
    out = tmp_path / "my graph.npz"
    assert main(["data", "import", "--nodes", str(tmp_path / "n.csv"), "--out", str(out)]) == 0
    command = capsys.readouterr().out.partition("next: ")[2]
    assert shlex.split(command) == ["gssc", "train", "--graph", str(out), "--out", "runs/my graph"]


def test_import_without_labels_names_no_training(tmp_path: Path, capsys) -> None:
    (tmp_path / "n.csv").write_text("x,y1\n1,2\n2,3\n9,1\n")
    assert main(["data", "import", "--nodes", str(tmp_path / "n.csv"), "--out", str(tmp_path / "g.npz")]) == 0
    printed = capsys.readouterr().out
    assert "without labels: gssc train needs some; name their column with --label" in printed
    assert "next:" not in printed


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("run", "run is a run, not a dataset: .*--out .*run --resume"),
        ("g.npz", "g.npz is a graph .*: give it with --graph"),
    ],
)
def test_a_path_is_not_a_dataset(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("")
    with pytest.raises(GsscError, match=message):
        load_dataset(str(tmp_path / name))


@pytest.mark.parametrize(
    ("out", "message"),
    [("g.csv", "its name must end in one of .npz"), ("none/g.npz", "there is no folder .*none; create it")],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_tables_are_read(
    tmp_path: Path, capsys, out: str, message: str
) -> None:
    assert main(["data", "import", "--nodes", "not-read.csv", "--out", str(tmp_path / out)]) == 2
    assert re.search(message, " ".join(capsys.readouterr().err.split()))


def test_import_of_weighted_edges_without_features(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,label\na,u\nb,v\nc,u\n")
    (tmp_path / "e.csv").write_text("source,target,km\na,b,2\nb,c,3\n")
    command = ["data", "import", "--nodes", str(tmp_path / "n.csv"), "--edges", str(tmp_path / "e.csv")]
    assert main([*command, "--weight", "km", "--features-from", "structure", "--out", str(tmp_path / "g.npz")]) == 0
    graph = Graph.load(tmp_path / "g.npz")
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2, 3]
    assert graph.feature_names is not None
    assert graph.feature_names[0] == "log degree"


def test_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.csv").write_text("id,x,label\na,1,u\nb,2,v\nc,3,u\n")
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,a\nb,b\nc,b\n")
    out = tmp_path / "graph.npz"
    import_graph(tmp_path / "n.csv", tmp_path / "e.csv", out, split="per-class:1")
    printed = capsys.readouterr().out
    assert "2 (1 self-loop removed, 1 one-way edge symmetrised)" in printed
    graph = Graph.load(out)
    assert (graph.num_nodes, graph.class_names, graph.feature_names) == (3, ("u", "v"), ("x",))
    with pytest.raises(GsscError):
        import_graph(tmp_path / "n.csv", tmp_path / "absent.csv", tmp_path / "other.npz")
    assert not (tmp_path / "other.npz").exists()


@pytest.mark.parametrize("command", ["data info", "train --graph", "data build", "data import --nodes"])
@pytest.mark.parametrize("name", ["pipe.npz", "pipe.csv", "pipe.parquet"])
def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path, capsys, command: str, name: str) -> None:
    os.mkfifo(tmp_path / name)
    out = [] if command == "data info" else ["--out", str(tmp_path / "out.npz")]
    assert main([*command.split(), str(tmp_path / name), *out]) == 2
    error = capsys.readouterr().err
    assert len([line for line in error.splitlines() if line.startswith("error: ")]) == 1
    assert "Traceback" not in error


@pytest.mark.parametrize("name", ["nodes.csv", "nodes.csv.gz", "nodes.parquet"])
def test_import_shows_the_share_of_each_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(6000, 12)).round(6)  # more than a piece of text, and than BLOCKS_UP_TO
    table = pandas.DataFrame(rows, columns=[f"x{number}" for number in range(12)])
    getattr(table, "to_parquet" if name.endswith("parquet") else "to_csv")(tmp_path / name, index=False)
    monkeypatch.setattr("gssc.data.neighbours._ROWS_AT_A_TIME", 2048)
    shown: list[tuple[str, float | None]] = []
    import_tables(tmp_path / name, on_stage=lambda stage, share: shown.append((stage, share)))
    assert list(dict(shown)) == ["reading nodes", "checking columns", "finding neighbours", "checking the graph"]
    for stage in ("reading nodes", "checking columns", "finding neighbours"):
        shares = [share for found, share in shown if found == stage and share is not None]
        assert shares == sorted(shares)
        assert len(set(shares)) > 2
        assert 0 < shares[0] < shares[-1] == 1


def test_import_of_an_edge_table_shows_its_stages(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,x,label\na,1,u\nb,2,v\n")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    shown: list[str] = []
    import_tables(tmp_path / "n.csv", tmp_path / "e.csv", on_stage=lambda stage, share: shown.append(stage))
    expected = ["reading nodes", "checking columns", "reading edges", "looking up the ends of edges"]
    assert list(dict.fromkeys(shown)) == [*expected, "checking the graph"]
