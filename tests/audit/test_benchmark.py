from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are scripts that stand side by side, not a package.
spec = importlib.util.spec_from_file_location("audit_benchmark", Path(__file__).parents[2] / "benchmarks" / "audit.py")
assert spec
assert spec.loader
audit = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = audit
spec.loader.exec_module(audit)


def test_merit_by_hand() -> None:
    wrong = np.array([True, False, True, False])
    assert audit.merit(np.array([0.9, 0.1, 0.8, 0.2]), wrong) == {"auroc": 1.0, "precision": 1.0}
    assert audit.merit(np.array([0.9, 0.8, 0.1, 0.2]), wrong) == {"auroc": 0.5, "precision": 0.5}


def test_ties_count_as_a_random_order_and_unknown_ones_as_trusted() -> None:
    wrong = np.array([True, False, True, False])
    assert audit.merit(np.zeros(4), wrong) == {"auroc": 0.5, "precision": 0.5}
    # Two of the three that tie are picked, and two of the three are wrong; the last is never picked.
    assert audit.merit(np.array([0.0, 0, 0, np.nan]), np.array([True, True, False, False]))["precision"] == (
        pytest.approx(2 / 3)
    )


def test_the_store_survives_a_line_cut_off(tmp_path: Path) -> None:
    store, one, two = tmp_path / "s.jsonl", audit.Cell("cora", "add:0.2", 0), audit.Cell("cora", "add:0.2", 1)
    audit.append(store, one, {"audit": {"auroc": 0.5, "precision": 0.25}})
    with store.open("a") as file:
        file.write('{"dataset": "co')
    audit.append(store, two, {"audit": {"auroc": 0.7, "precision": 0.35}})
    assert set(audit.read_store(store)) == {one, two}


def test_tables_give_means_and_stay_between_the_markers(tmp_path: Path) -> None:
    found = {
        audit.Cell("cora", "add:0.2", seed): {"audit": {"auroc": 0.8 + 0.1 * seed, "precision": 0.5}} for seed in (0, 1)
    }
    found[audit.Cell("citeseer", "symmetric:0.2", 0)] = {"gcn loss": {"auroc": 0.6, "precision": 0.4}}
    lines = audit.tables(found)
    assert "| cora | add:0.2 | 2 | 0.850 ± 0.071 |" in lines
    assert "| citeseer | symmetric:0.2 | 1 | 0.600 |" in lines
    out = tmp_path / "audit.md"
    out.write_text(f"before\n{audit.BEGIN}\nold\n{audit.END}\nafter\n")
    audit.write_tables(out, lines)
    text = out.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
