"""Problems drawn from real graphs, and the record of their results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import real_graphs

from gssc.graph import Graph


def test_a_split_has_labels_of_every_class_and_nodes_seen_without_a_label() -> None:
    graph = Graph(np.ones((120, 2)), [[0], [1]], np.repeat([0, 1], 60))
    found = real_graphs.split(graph, 10, 30, 0.0, "cold-start", seed=1)
    assert np.bincount(found.labels[found.train]).tolist() == [10, 10]
    assert (len(found.val), len(found.test), found.setting) == (30, 70, "cold-start")
    assert len(np.unique(np.concatenate([found.train, found.val, found.test]))) == 120
    assert len(real_graphs.split(graph, 10, 30, 0.5, "cold-start", seed=1).test) == 35


def test_models_that_are_in_the_file_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 40)
    graph = Graph(rng.normal(size=(80, 4)) + labels[:, None], rng.integers(0, 80, (2, 100)), labels, name="made")
    monkeypatch.setattr(real_graphs.text_graphs, "read", lambda name: graph)
    out = tmp_path / "real.jsonl"
    usual = ["real_graphs.py", "--graphs", "made", "--validation", "10", "--per-class", "5", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [*usual, "--models", "linear_rows"])
    real_graphs.main()
    rows = real_graphs.read_rows(out)
    assert [row["setting"] for row in rows] == ["transductive", "cold-start"]
    assert all(row["linear_rows"] > 50 for row in rows)
    out.write_text("".join(json.dumps({**row, "linear_rows": -1}) + "\n" for row in rows))
    monkeypatch.setattr(sys, "argv", [*usual, "--models", "linear_rows,linear_both"])
    real_graphs.main()
    again = real_graphs.read_rows(out)
    assert [row["linear_rows"] for row in again] == [-1, -1]
    assert "linear_both" in again[0]
    assert "linear_both" not in again[1]  # needs the graph, which is not there at cold-start
