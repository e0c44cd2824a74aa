from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from gssc.cli import data
from gssc.cli.main import main


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict:
    """What the data functions would be called with."""
    calls: dict = {}

    def record(function: str, **options: object) -> None:
        calls[function] = options

    for function in ("list_datasets", "dataset_info", "import_graph"):
        monkeypatch.setattr(data, function, partial(record, function))
    return calls


def test_list_and_info(called: dict) -> None:
    assert main(["data", "list"]) == 0
    assert main(["data", "info", "cora", "--data-root", "here"]) == 0
    assert called == {
        "list_datasets": {"data_root": None},
        "dataset_info": {"name": "cora", "data_root": "here", "check": False},
    }


TABLES = ["--nodes", "n.csv", "--edges", "e.csv", "--out", "g.npz"]


def test_import_passes_every_option(called: dict) -> None:
    more = ["--weight", "w", "--n-neighbors", "4", "--decimal", ",", "--features-from", "structure"]
    options = ["--id", "key", "--label", "kind", "--features", "a", "b", "--ignore", "c", "--split", "per-class:20"]
    assert main(["data", "import", *TABLES, *options, "--seed", "3", "--source", "u", "--target", "v", *more]) == 0
    assert called["import_graph"] == {
        "nodes": "n.csv",
        "edges": "e.csv",
        "out": "g.npz",
        "id_column": "key",
        "label_column": "kind",
        "feature_columns": ["a", "b"],
        "ignore_columns": ["c"],
        "split_column": None,
        "source_column": "u",
        "target_column": "v",
        "weight_column": "w",
        "features_from": "structure",
        "n_neighbors": 4,
        "decimal": ",",
        "split": "per-class:20",
        "setting": "transductive",
        "name": "g",
        "seed": 3,
    }


def test_one_label_column_is_classes_and_several_are_tasks(called: dict) -> None:
    for labels, expected in (([], None), (["--label", "y"], "y"), (["--label", "y", "z"], ["y", "z"])):
        assert main(["data", "import", *TABLES, *labels]) == 0
        assert called["import_graph"]["label_column"] == expected


def test_import_keeps_an_existing_graph(called: dict, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.npz").write_text("mine")
    assert main(["data", "import", *TABLES]) == 2
    assert capsys.readouterr().err == "error: g.npz exists already: choose another name or add --overwrite\n"
    assert not called
    assert main(["data", "import", *TABLES, "--overwrite"]) == 0
    assert "overwrite" not in called["import_graph"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "did you mean 'list'?"),
        ([], "error: name a subcommand: list, info, import, build; see gssc data --help"),
        (["info"], "error: missing NAME; see gssc data"),
        (["import", "--nods", "n.csv"], "did you mean '--nodes'?"),
        (["import", "--nodes", "n.csv"], "error: missing --out; see gssc data"),
        (
            ["import", *TABLES, "--n-neighbors", "x"],
            "error: --n-neighbors: must be a whole number, not 'x'; see gssc data",
        ),
        (["import", *TABLES, "--decimal", ";"], "error: --decimal: invalid choice: ';'"),
    ],
)
def test_misspelt(called: dict, capsys, arguments: list[str], message: str) -> None:
    assert main(["data", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error.replace("\n", " ")
    assert not called


def test_import_for_real(gssc, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,a,b,label\n1,0.5,1,x\n2,1,0,y\n3,0,1,x\n4,1,1,y\n")
    (tmp_path / "e.csv").write_text("source,target\n1,2\n2,3\n3,4\n")
    run = gssc("data", "import", *TABLES)
    assert (run.returncode, run.stderr) == (0, "")
    assert (tmp_path / "g.npz").exists()


def test_list_for_real(gssc) -> None:
    run = gssc("data", "list")
    assert run.returncode == 0
    assert all(name in run.stdout for name in ("cora", "ogbn-arxiv", "digits"))


@pytest.mark.parametrize("option", ["--edges", "--nodes", "--seed"])
def test_a_number_of_5000_digits_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["data", "build", "csbm", option, "9" * 5000, "--out", str(tmp_path / "g.graph")]) == 2
    error = capsys.readouterr().err
    assert len(error) < 300
    assert "is the number of edges" in error if option == "--edges" else "the number is too long" in error
