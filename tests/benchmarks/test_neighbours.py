from __future__ import annotations

from pathlib import Path

import neighbours
import numpy as np
import pytest


def test_recall_by_hand() -> None:
    true = np.array([[0, 0, 1, 2], [1, 2, 0, 1]])
    found = np.array([[0, 1, 2, 2], [2, 0, 0, 1]])
    assert neighbours.recall(found, true, 3) == 3 / 4


def test_the_table_goes_between_the_marks(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    out = tmp_path / "out.md"
    out.write_text("before\n<!-- table -->\nold\n<!-- end of table -->\nafter\n")
    neighbours.main(["--rows", "300", "--columns", "2", "--sample", "50", "--out", str(out)])
    text = out.read_text()
    assert text.startswith("before\n<!-- table -->\n| rows | columns |")
    assert text.endswith("<!-- end of table -->\nafter\n")
    cells = next(line for line in text.splitlines() if line.startswith("| 300 ")).strip("| ").split(" | ")
    assert len(cells) == len(neighbours.HEADER)
    assert cells[3] == "1.000"  # scikit-learn's search is exact
