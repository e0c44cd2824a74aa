from __future__ import annotations

import dataclasses

import pytest

from gssc.errors import GsscError
from gssc.evaluate.cell import Cell, cells, key_of
from gssc.evaluate.code_version import _meaning, code_version
from gssc.models.registry import MODELS
from gssc.sparsify.registry import SPARSIFIERS


def key(cell: Cell, **settings) -> str:
    return key_of(cell.identity(settings))


def test_the_cross_product_leaves_out_impossible_pairs_and_says_why():
    made, refused = cells(["mlp", "gcn"], ["none", "drop_edge"], ["cora", "digits"], seeds=2)
    assert len(made) == 3 * 2 * 2
    assert list(refused) == [("mlp", "drop_edge")]
    assert "never looks at edges" in refused["mlp", "drop_edge"]


def test_seeds_come_first_so_that_a_stopped_sweep_has_something_of_everything():
    made, _ = cells(["gcn", "sage"], ["none"], ["cora"], seeds=2)
    assert [(cell.seed, cell.model) for cell in made] == [(0, "gcn"), (0, "sage"), (1, "gcn"), (1, "sage")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": ["gcnn"]}, "did you mean 'gcn'"),
        ({"sparsifiers": ["drop_edges"]}, "did you mean 'drop_edge'"),
        ({"datasets": ["coral"]}, "did you mean 'cora'"),
        ({"datasets": ["cora:fixed"]}, "no split 'fixed'"),
        ({"datasets": ["actor:fixed-10"]}, "no split 'fixed-10'"),
        ({"settings": ["inductiv"]}, "did you mean 'inductive'"),
        ({"label_noise": ["dice:0.2"]}, "not on label"),
        ({"structure_noise": ["1.2"]}, "from 0 to 1"),
    ],
)
def test_every_name_is_checked_before_anything_runs(arguments, message):
    usual = {"models": ["gcn"], "sparsifiers": ["none"], "datasets": ["cora"]}
    with pytest.raises(GsscError, match=message):
        cells(**{**usual, **arguments})


@pytest.mark.parametrize(
    ("dataset", "seed", "split"),
    [
        ("cora", 3, "public"),
        ("actor", 3, "authors"),
        ("actor:fixed", 3, "fixed-3"),
        ("actor:fixed", 12, "fixed-2"),
        ("actor:fixed-7", 3, "fixed-7"),
        ("squirrel", 4, "fixed-4"),
        ("deezer-europe", 6, "fixed-1"),
        ("cora:per-class:5", 1, "per-class:5"),
    ],
)
def test_seed_s_takes_split_s(dataset, seed, split):
    assert Cell("gcn", "none", dataset, seed=seed).data[1] == split


def test_the_key_depends_on_everything_that_determines_the_result():
    cell = Cell("gcn", "str_sparse", "cora")
    changes = {
        "model": "sage",
        "sparsifier": "drop_edge",
        "dataset": "citeseer",
        "setting": "inductive",
        "label_noise": "symmetric:0.2",
        "structure_noise": "random:0.2",
        "feature_noise": "mask:0.1",
        "seed": 1,
        "max_epochs": 7,
    }
    assert changes.keys() == {field.name for field in dataclasses.fields(Cell)}
    keys = {key(dataclasses.replace(cell, **{name: value})) for name, value in changes.items()}
    assert len(keys | {key(cell), key(cell, alpha=0.3)}) == len(changes) + 2
    assert key(cell) == key(dataclasses.replace(cell))


def test_a_model_of_its_own_code_and_settings():
    codes = {code_version(f"gssc.models.{entry.module}") for entry in MODELS.values()}
    assert len(codes) == len(MODELS)
    teacher = Cell("glnn", "none", "cora").identity({})
    assert teacher["settings"]["teacher"]


def test_comments_docstrings_and_annotations_are_not_code(tmp_path, monkeypatch):
    import gssc.evaluate.code_version as module

    texts = {
        "one": 'def f(x: int) -> int:\n    """Say."""\n    return x + 1\n',
        "two": "def f(x):\n    # why\n    return (x + 1)\n",
        "other": "def f(x):\n    return x + 2\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    meaning = {name: _meaning(f"gssc.{name}") for name in texts}
    assert meaning["one"] == meaning["two"] != meaning["other"]


def test_every_registered_name_can_be_loaded():
    for entry in (*MODELS.values(), *SPARSIFIERS.values()):
        assert entry.load().__name__ == entry.class_name
        assert entry.summary


def test_a_split_that_is_drawn_is_drawn_by_the_seed(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "gssc.evaluate.cell.load_dataset", lambda name, **options: asked.append(options["seed"]) or 1 / 0
    )
    for dataset in ("cora:per-class:5", "cora", "csbm"):
        with pytest.raises(ZeroDivisionError):
            Cell("gcn", "none", dataset, seed=4).run({})
    assert asked == [4, 0, 4]
