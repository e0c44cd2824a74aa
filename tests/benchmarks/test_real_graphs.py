"""Graphs of modules and imports, on a package of six modules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import real_graphs


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two subpackages of three modules: one import within each, relative and absolute, and one between them."""
    modules = {
        "__init__": "",
        "red/__init__": '"""warm warm colour"""\nfrom . import one\n',
        "red/one": '"""warm colour"""\n',
        "red/two": '"""warm paint"""\nfrom ..blue.one import something\n',
        "blue/__init__": "# cold colour\n",
        "blue/one": '"""cold paint"""\nsomething = 1\n',
        "blue/two": '"""cold cold paint, blue"""\nimport toy.blue.one\n',
        "blue/template": "not Python at all",
        "blue/tests/test_one": '"""cold paint"""\n',
    }
    for name, source in modules.items():
        path = tmp_path / "toy" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for name, value in {"FEWEST_MODULES": 2, "FEWEST_WORDS": 1, "FREQUENT": 0}.items():
        monkeypatch.setattr(real_graphs, name, value)
    return "toy"


def test_modules_words_and_imports_by_hand(package: str) -> None:
    graph = real_graphs.module_graph(package)  # blue.one, blue.two, red.one, red.two: modules below a subpackage
    assert graph.class_names == ("blue", "red")
    assert graph.labels.tolist() == [0, 0, 1, 1]
    assert sorted(map(tuple, graph.edges.T.tolist())) == [(0, 1), (0, 3)]
    counts = graph.features.toarray()  # cold, paint, warm; "colour" is in one of the four only
    assert counts.tolist() == [[1, 1, 0], [2, 1, 0], [0, 0, 1], [0, 1, 1]]


def test_a_split_has_ten_labels_per_class_and_all_other_nodes_are_test_nodes() -> None:
    labels = np.repeat([0, 1], 60)
    graph = real_graphs.Graph(np.ones((120, 2)), [[0], [1]], labels)
    found = real_graphs.split(graph, 30, "cold-start", seed=1)
    assert np.bincount(found.labels[found.train]).tolist() == [10, 10]
    assert (len(found.val), len(found.test), found.setting) == (30, 70, "cold-start")
    assert len(np.unique(np.concatenate([found.train, found.val, found.test]))) == 120
