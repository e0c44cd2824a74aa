from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gssc.audit.columns import Column
from gssc.cli.audit import TERMINAL_COLUMNS, show_table
from gssc.cli.main import main
from gssc.config import parse_config
from gssc.graph import Graph
from gssc.run import Run

SHORT = {
    "train": {"epochs": 2, "warmup_epochs": 2},
    "consolidate": {"epochs": 1},
    "sparsifier": {"pretrain_epochs": 2, "hidden": 8},
    "model": {"name": "str_contrast", "hidden": 8},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A real run, of a graph whose ids and classes look like markup."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], 20)
    features = rng.random((40, 5)).astype(np.float32)
    features[np.arange(40), classes] += 2
    edges = np.stack([np.arange(39), np.arange(1, 40)])
    graph = Graph(
        features,
        edges,
        labels=np.array(["[red]", "<b>"])[classes],
        train=np.arange(0, 40, 4),
        val=[1, 21],
        node_ids=[f"[bold]{number}" for number in range(40)],
    )
    graph.save(folder / "graph.npz")
    Run(folder / "run", parse_config(SHORT, {"data": {"graph": str(folder / "graph.npz")}})).train()
    return folder


def test_a_page_and_a_summary(trained: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    review = tmp_path / "review.csv"
    assert main(["audit", str(trained / "run"), "--out", str(tmp_path / "audit.html"), "--review", str(review)]) == 0
    shown = capsys.readouterr().out
    assert f"{len(review.read_text(encoding='utf-8').splitlines()) - 1} rows to review in" in shown
    assert "most doubtful of 39 edges" in shown
    assert "most doubtful of 10 labels" in shown
    assert "[bold]" in shown, "names are not taken for styles"
    text = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in text
    assert "<b>&" not in text


def test_all_rows_as_csv(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "audit.csv"
    assert main(["audit", str(trained / "run"), "--out", str(out)]) == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["kind"] == "edge" for row in rows) == 39
    assert sum(row["kind"] == "label" for row in rows) == 10
    scores = [float(row["score"]) for row in rows if row["kind"] == "edge"]
    assert scores == sorted(scores, reverse=True)
    assert all(row["keep_probability"] for row in rows if row["kind"] == "edge")


def test_an_existing_file_is_kept_unless_told(trained: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "audit.csv"
    out.write_text("mine")
    assert main(["audit", str(trained / "run"), "--out", str(out)]) == 2
    assert out.read_text() == "mine"
    assert "--overwrite" in capsys.readouterr().err
    assert main(["audit", str(trained / "run"), "--out", str(out), "--overwrite"]) == 0
    assert out.read_text().startswith("kind,rank,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--out", "audit.pdf"], "must end in one of .html, .csv"),
        (["run", "--out", "nowhere/audit.csv"], "there is no folder"),
        (["run", "--out", "audit.csv", "--top", "0"], "--top is 0"),
        (["run", "--out", "audit.csv", "--review", "audit.csv"], "--out and --review are both audit.csv"),
        (["run", "--out", "audit.csv", "--seed", "-1"], "--seed is -1"),
        (["run", "--out", "audit.csv", "--graph", "none.npz"], "none.npz"),
        (["missing", "--out", "audit.csv"], "missing is neither a run folder nor a saved classifier"),
    ],
)
def test_what_the_user_can_fix(trained: Path, tmp_path, monkeypatch, capsys, arguments, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    run = str(trained / "run") if arguments[0] == "run" else arguments[0]
    assert main(["audit", run, *arguments[1:]]) == 2
    complaint = capsys.readouterr().err
    assert message in complaint.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_help_shows_examples(capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["audit", "--help"])
    assert stop.value.code == 0
    assert "gssc audit runs/cora --out audit.html" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["edges", "labels"])
def test_headings_are_whole_at_80_columns_however_long_the_names_are(what: str) -> None:
    long = "Probabilistic_Methods_and_Theory"
    numeric = {"rank": 10, "score": 0.971, "features": 0.031, "keep_probability": 0.212}
    columns = [Column(name, [numeric.get(name, long)]) for name in TERMINAL_COLUMNS[what]]
    console = Console(width=80, file=io.StringIO())
    show_table(console, what, columns, 1000)
    printed = console.file.getvalue()
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    heading = printed.partition("┡")[0]
    words = {
        "edges": "# node other score predicted features trust in training",
        "labels": "# node score label suggested other labels regression unlabelled nodes",
    }
    assert set(words[what].split()) <= set(heading.replace("┃", " ").split())
