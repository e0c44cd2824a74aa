from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from gssc.audit import DuplicateGroup, Findings, Ranking, write_review, write_table
from gssc.audit import table as table_module
from gssc.graph import Graph


@pytest.fixture
def findings() -> Findings:
    graph = Graph(np.eye(4, dtype=np.float32), [[0, 1], [1, 2]], labels=["x", "y, z", "x", "x"], train=[0, 1])
    edges = Ranking.of(graph.edges.T, np.array([0.25, 0.5]), {"keep_probability": np.array([np.nan, 0.125])})
    opinions = {"label": np.array([0, 1]), "suggested": np.array([1, 0]), "model": np.array([0.5, 0.75])}
    return Findings(
        graph=graph,
        class_names=("x", "y, z"),
        edges=edges,
        labels=Ranking.of(np.array([[0], [1]]), np.array([0.25, 0.75]), opinions),
        predicted=np.array([0, 1, 0, 0]),
        duplicates=[DuplicateGroup(np.array([0, 2]), True, False, False)],
        isolated=np.array([3]),
        featureless=np.array([], dtype=np.int64),
    )


@pytest.mark.parametrize("rows_at_a_time", [65_536, 1])
def test_every_finding_is_a_row(findings: Findings, tmp_path: Path, rows_at_a_time: int, monkeypatch) -> None:
    monkeypatch.setattr(table_module, "ROWS_AT_A_TIME", rows_at_a_time)
    written: list[int] = []
    write_table(tmp_path / "audit.csv", findings, on_rows=written.append)
    assert written == ([1, 2, 3, 4] if rows_at_a_time == 1 else [2, 4])
    with (tmp_path / "audit.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == ["edge", "edge", "label", "label", "duplicate", "duplicate", "isolated"]
    edge, unknown, label = rows[0], rows[1], rows[2]
    assert (edge["rank"], edge["node"], edge["other"], edge["score"]) == ("1", "1", "2", "0.5")
    assert (edge["predicted"], edge["other_predicted"], edge["keep_probability"]) == ("y, z", "x", "0.125")
    assert (unknown["rank"], unknown["keep_probability"], unknown["label"]) == ("2", "", "")
    assert (label["rank"], label["node"], label["label"], label["suggested"]) == ("1", "1", "y, z", "x")
    assert (rows[5]["node"], rows[5]["duplicate_of"]) == ("2", "0")


def test_the_review_list_has_what_is_doubted_and_why(findings: Findings, tmp_path: Path) -> None:
    findings.duplicates.append(DuplicateGroup(np.array([1, 3]), True, conflicting=True, crosses_split=False))
    findings.edges.score[0] = 0.75
    assert write_review(tmp_path / "review.csv", findings) == 3
    with (tmp_path / "review.csv").open(encoding="utf-8", newline="") as file:
        edge, label, duplicate = csv.DictReader(file)
    assert (edge["kind"], edge["node"], edge["other"], edge["score"], edge["decision"]) == (
        "edge",
        "1",
        "2",
        "0.75",
        "",
    )
    assert edge["reason"] == "The two ends are predicted as y, z and x."
    assert (label["node"], label["label"], label["suggested"]) == ("1", "y, z", "x")
    assert (duplicate["kind"], duplicate["node"], duplicate["other"]) == ("duplicate", "1", "3")
