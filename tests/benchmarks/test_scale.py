from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest


def line(graph: str, method: str, edges: int, seconds: float) -> dict[str, object]:
    return {
        "graph": graph,
        "method": method,
        "edges": edges,
        "feature_bytes": 10**6,
        "items_per_cpu_second": 1000.0,
        "flops_per_item": 2000.0,
        "epoch_cpu": seconds,
        "prepare_cpu": seconds,
        "peak_rss": 10**8,
        "disk_read": 0,
        "accuracy": 0.9,
        "curve": [[1, 2.0, 0.5, 0.5], [2, 3.0, 0.897, 0.9], [3, 4.0, 0.9, 0.9]],
    }


def test_the_report_has_a_row_per_measurement_and_the_growth(tmp_path: Path) -> None:
    import scale

    lines = [line("csbm-1e5", "gssc", 10**5, 1.0), line("csbm-1e6", "gssc", 10**6, 10.0)]
    lines.append({"graph": "csbm-1e7", "method": "gcn", "error": "MemoryError"})
    (tmp_path / "scale.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    text = scale.report(tmp_path / "scale.jsonl")
    assert "| csbm-1e5 | 100,000 | 1 | gssc | 1,000 | 2 | 1.0 | 100 | 0 | 0.9000 | 3.0 |" in text
    assert "MemoryError" in text
    assert "Growth exponent of epoch_cpu in edges: 1.000." in text


def test_sampled_neighbours_are_neighbours() -> None:
    import scale

    pytest.importorskip("torch")
    edges = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    nodes, found = scale.neighbour_sampler(edges, 5, fanout=3)(np.array([0, 4]), np.random.default_rng(0))
    assert nodes[:2].tolist() == [0, 4]
    given = set(map(tuple, edges.T.tolist()))
    assert {(int(nodes[u]), int(nodes[v])) for u, v in found.T.tolist()} <= given
    assert found.shape[1] == 6  # three of node 0, three of its neighbour, none of a node without edges
