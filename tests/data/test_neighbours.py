from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gssc import GSSCClassifier
from gssc.cli.main import main
from gssc.data import neighbours
from gssc.data.neighbours import NEIGHBOURS, by_blocks, by_index, by_scikit_learn, nearest_neighbour_edges


def _edges(pairs: np.ndarray) -> list[tuple[int, int]]:
    return sorted({(min(pair), max(pair)) for pair in pairs.T.tolist()})


def _recall(found: np.ndarray, true: np.ndarray) -> float:
    return len(set(map(tuple, found.T.tolist())) & set(map(tuple, true.T.tolist()))) / true.shape[1]


def test_ties_go_to_the_first_rows() -> None:
    # Row 0 is as far from 1 as from 2 and 3.
    star = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert nearest_neighbour_edges(star, 1).tolist() == [[0, 0, 0], [1, 2, 3]]
    same = np.zeros((4, 1))
    assert nearest_neighbour_edges(same, 1).tolist() == [[0, 0, 0], [1, 2, 3]]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(0, 1000), st.data())
def test_every_row_has_its_k_nearest(count: int, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, count - 1))
    rows = np.random.default_rng(seed).integers(0, 3, (count, 2)).astype(float)
    expected = set()
    for row in range(count):
        others = [other for other in range(count) if other != row]
        nearest = sorted(others, key=lambda other: (((rows[row] - rows[other]) ** 2).sum(), other))[:k]
        expected |= {(min(row, other), max(row, other)) for other in nearest}
    assert nearest_neighbour_edges(rows, k).T.tolist() == [list(edge) for edge in sorted(expected)]
    assert _edges(by_scikit_learn(rows, k)) == sorted(expected)


def test_sparse_rows_and_small_blocks_change_nothing(monkeypatch) -> None:
    rows = np.random.default_rng(0).poisson(0.3, (50, 20)).astype(np.float32)
    expected = nearest_neighbour_edges(rows, 4)
    np.testing.assert_array_equal(nearest_neighbour_edges(sparse.csr_matrix(rows), 4), expected)
    monkeypatch.setattr(neighbours, "_DISTANCES_AT_A_TIME", 150)
    np.testing.assert_array_equal(nearest_neighbour_edges(sparse.csr_array(rows), 4), expected)


@pytest.mark.parametrize("columns", [3, 12])
def test_scikit_learn_finds_what_blocks_find(columns: int) -> None:
    rows = np.random.default_rng(1).standard_normal((700, columns))
    rows[300:350] = rows[:50]  # twins
    rows[350:420] = rows[7]  # more copies than neighbours: ties that only a full search can settle
    assert _recall(by_scikit_learn(rows, 5), by_blocks(rows, 5)) == 1
    assert by_scikit_learn(rows, 5).shape == (2, 3500)


def test_which_search_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(2).standard_normal((60, 7))
    used: list[str] = []
    for name in ("by_blocks", "by_scikit_learn", "by_index"):
        monkeypatch.setattr(neighbours, name, lambda *_, name=name, **__: used.append(name) or np.array([[0], [1]]))
    present = {"sklearn", "faiss"}
    monkeypatch.setattr(neighbours, "_installed", present.__contains__)
    monkeypatch.setattr(neighbours, "BLOCKS_UP_TO", 20)
    monkeypatch.setattr(neighbours, "APPROXIMATE_FROM", 50)
    for table in (rows[:20], rows[:49], rows[:50], rows[:, :6], sparse.csr_matrix(rows)):
        nearest_neighbour_edges(table, 3)
    assert used == ["by_blocks", "by_scikit_learn", "by_index", "by_scikit_learn", "by_blocks"]
    present.remove("faiss")
    with pytest.warns(UserWarning, match=r"neighbours of 60 rows exactly .* pip install 'gssc\[ann\]'"):
        nearest_neighbour_edges(rows, 3)
    present.remove("sklearn")
    nearest_neighbour_edges(rows[:49], 3)
    assert used[5:] == ["by_scikit_learn", "by_blocks"]


def test_the_index_finds_nearly_all_and_the_same_again() -> None:
    pytest.importorskip("faiss")
    rows = np.random.default_rng(3).standard_normal((4000, 10))
    found = by_index(rows, 8)
    assert _recall(found, by_blocks(rows, 8)) > 0.95
    assert (found[0] != found[1]).all()
    assert np.bincount(found[0]).max() <= 8
    np.testing.assert_array_equal(found, by_index(rows, 8))
    np.testing.assert_array_equal(by_index(np.zeros((3, 2)), 1)[0], [0, 1, 2])


def test_the_classifier_has_as_many_neighbours() -> None:
    assert GSSCClassifier().n_neighbors == NEIGHBOURS


@pytest.mark.filterwarnings("default:finding the neighbours")
@pytest.mark.parametrize("faiss", [True, False])
def test_importing_many_rows_tells_how_neighbours_were_found(tmp_path, monkeypatch, capsys, faiss: bool) -> None:
    if faiss:
        pytest.importorskip("faiss")
    monkeypatch.setattr(neighbours, "BLOCKS_UP_TO", 10)
    monkeypatch.setattr(neighbours, "APPROXIMATE_FROM", 40)
    monkeypatch.setattr(neighbours, "_installed", lambda name: faiss or name != "faiss")
    rows = np.random.default_rng(0).normal(size=(60, 7))
    lines = [f"{n},{','.join(map(str, row))},{'xy'[n % 2]}" for n, row in enumerate(rows)]
    (tmp_path / "t.csv").write_text("id,a,b,c,d,e,f,g,label\n" + "\n".join(lines))
    command = ["data", "import", "--nodes", str(tmp_path / "t.csv"), "--out", str(tmp_path / "t.npz")]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert ("neighbours, found by an approximate search, with" in shown.out) == faiss
    if faiss:
        assert shown.err == ""
    else:
        assert shown.err.startswith("note finding the neighbours of 60 rows exactly takes time")
        assert ".py" not in shown.err  # no place in the code


def test_rows_that_are_searched_in_parts_have_the_same_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(3).normal(size=(700, 9))
    whole = by_scikit_learn(rows, 5)
    monkeypatch.setattr("gssc.data.neighbours._ROWS_AT_A_TIME", 256)
    np.testing.assert_array_equal(by_scikit_learn(rows, 5), whole)
