"""Graphs of texts: modules of a package, Debian packages and synsets, from small files written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import text_graphs


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
        monkeypatch.setattr(text_graphs, name, value)
    return "toy"


def test_modules_words_and_imports_by_hand(package: str) -> None:
    graph = text_graphs.module_graph(package)  # blue.one, blue.two, red.one, red.two: modules below a subpackage
    assert graph.class_names == ("blue", "red")
    assert graph.labels.tolist() == [0, 0, 1, 1]
    assert sorted(map(tuple, graph.edges.T.tolist())) == [(0, 1), (0, 3)]
    counts = graph.features.toarray()  # cold, paint, warm; "colour" is in one of the four only
    assert counts.tolist() == [[1, 1, 0], [2, 1, 0], [0, 0, 1], [0, 1, 1]]


WORDNET = """\
  1 lines that begin with a blank are the licence
00000010 29 v 02 breathe 0 respire 1 002 @ 00000030 v 0000 + 00000099 n 0101 01 + 02 00 | draw air into the lungs
00000020 29 v 01 inhale 0 001 @ 00000010 v 0000 00 | draw in air, or smoke
00000030 30 v 01 change 0 001 ~ 00000010 v 0000 00 | become different; "it rained"
00000040 30 v 01 melt 0 001 @ 00000030 v 0000 00 | become liquid
"""

DEBIAN = """\
Package: red-game
Depends: red-data (>= 1.2) | blue-data, libc6
Description: game with red bricks
Section: games

Package: red-data
Suggests: red-game
Description: bricks for a game
Section: games
Tag: role::app-data,
 made-of::data

Package: blue-tool
Depends: libother, red-data
Description: tool that counts
Section: utils

Package: blue-data
Description: tool data that counts
Section: utils
"""


@pytest.fixture
def all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every word, synset and package, so that small files can be checked by hand."""
    usual = text_graphs.CountVectorizer
    monkeypatch.setattr(text_graphs, "CountVectorizer", lambda **options: usual(**{**options, "min_df": 1}))
    for name in ("FEWEST_MODULES", "FEWEST_PACKAGES"):
        monkeypatch.setattr(text_graphs, name, 2)


@pytest.mark.usefixtures("all_words")
def test_synsets_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "data.verb"
    path.write_text(WORDNET)
    graph = text_graphs.read(f"wordnet:{path}")
    assert graph.class_names == ("29", "30")
    assert graph.labels.tolist() == [0, 0, 1, 1]
    assert sorted(map(tuple, graph.edges.T.tolist())) == [(0, 1), (0, 2), (2, 3)]  # the noun is another file's
    assert graph.features[0].sum() == 3  # draw, air, lungs


@pytest.mark.usefixtures("all_words")
def test_packages_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "available.txt"
    path.write_text(DEBIAN)
    graph = text_graphs.read(f"debian:{path}")
    assert graph.class_names == ("games", "utils")
    assert graph.labels.tolist() == [0, 0, 1, 1]
    edges = sorted(map(tuple, graph.edges.T.tolist()))
    assert edges == [(0, 1), (0, 3), (1, 2)]  # alternatives count


def test_nodes_around_a_random_one_are_connected_and_rare_classes_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_graphs, "FEWEST_MODULES", 4)
    ring = np.stack([np.arange(30), (np.arange(30) + 1) % 30])
    graph = text_graphs.Graph(np.eye(30), ring, np.arange(30) // 10, class_names=("a", "b", "c"))
    found = text_graphs.around(graph, 12, seed=3)
    kept = found.features.argmax(axis=1)  # 12 neighbours on the ring, without those of a class that has fewer than four
    rows = [text_graphs.around(graph, 12, seed=seed).num_nodes for seed in range(8)]
    assert min(rows) >= 9
    assert max(rows) == 12
    classes, counts = np.unique(graph.labels[kept], return_counts=True)
    assert counts.min() >= 4
    assert found.class_names == tuple("abc"[number] for number in classes)
    assert found.num_edges >= found.num_nodes - 2
