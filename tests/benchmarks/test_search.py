import subprocess
import sys
from pathlib import Path

import numpy as np
import search

from gssc.data import csbm
from gssc.evaluate.tuning import without_test_labels

GRAPH = csbm(nodes=60, classes=3, features=6, degree=4, per_class=5)


def test_no_test_label_is_left():
    blind = without_test_labels(GRAPH)
    assert (blind.labels[GRAPH.test] == -1).all()
    kept = np.concatenate([GRAPH.train, GRAPH.val])
    assert np.array_equal(blind.labels[kept], GRAPH.labels[kept])
    assert blind.num_classes == GRAPH.num_classes


def test_drawn_splits_use_the_labels_the_given_split_may_use_and_no_other():
    blind = without_test_labels(GRAPH)
    first, second = (search.resplit(blind, seed) for seed in (1, 2))
    for drawn in (first, second):
        assert np.array_equal(np.bincount(drawn.labels[drawn.train]), np.bincount(GRAPH.labels[GRAPH.train]))
        pool = np.sort(np.concatenate([drawn.train, drawn.val]))
        assert np.array_equal(pool, np.sort(np.concatenate([GRAPH.train, GRAPH.val])))
        assert np.array_equal(drawn.test, GRAPH.test)
    assert not np.array_equal(first.train, second.train)


def test_a_search_goes_on_where_it_stopped(tmp_path: Path):
    tiny = "model.hidden=4 sparsifier.hidden=4 train.warmup_epochs=1 train.epochs=0 consolidate.epochs=0"
    command = [sys.executable, search.__file__, "digits", "--base", tiny, "--try", "model.dropout=0.1"]
    command += ["--seeds", "1", "--resplit", "--kept", "kept.jsonl"]
    first, second = (subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True) for _ in "ab")
    assert "| digits, drawn splits |" in first.stdout
    assert "| model.dropout=0.1 |" in first.stdout
    assert second.stdout == first.stdout
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 2
