from __future__ import annotations

import dataclasses
import shutil

import pytest

import gssc.evaluate.code_version as code_version_module
from gssc.config import ContrastConfig
from gssc.data import load_dataset
from gssc.errors import GsscError
from gssc.evaluate.cell import Cell, _modules_of, cells, key_of
from gssc.evaluate.code_version import _meaning, code_version
from gssc.models.registry import MODELS
from gssc.sparsify.registry import SPARSIFIERS


def key(cell: Cell, **typed) -> str:
    return key_of(cell.identity(typed))


def test_the_cross_product_leaves_out_impossible_pairs_and_says_why():
    made, refused = cells(["mlp", "gcn"], ["none", "drop_edge"], ["cora", "digits"], seeds=2)
    assert len(made) == 3 * 2 * 2
    assert list(refused) == [("mlp", "drop_edge")]
    assert "does not use edges" in refused["mlp", "drop_edge"]


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
    assert Cell("gcn", "none", dataset, seed=seed).data.split == split


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
    assert changes.keys() == {field.name for field in dataclasses.fields(Cell)} - {"graph"}
    keys = {key(dataclasses.replace(cell, **{name: value})) for name, value in changes.items()}
    assert len(keys | {key(cell), key(cell, alpha=0.3)}) == len(changes) + 2
    assert key(cell) == key(dataclasses.replace(cell))


def test_a_model_of_its_own_code_and_settings():
    modules = {entry.module for entry in MODELS.values()}  # the linear models share one
    assert len({code_version(f"gssc.models.{module}") for module in modules}) == len(modules)
    teacher = Cell("glnn", "none", "cora").identity({})
    assert teacher["settings"]["teacher"]


def test_comments_docstrings_and_annotations_are_not_code(tmp_path):
    texts = {
        "one": 'def f(x: int) -> int:\n    """Say."""\n    return x + 1\n',
        "two": "def f(x):\n    # why\n    return (x + 1)\n",
        "other": "def f(x):\n    return x + 2\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    meaning = {name: _meaning(tmp_path / f"{name}.py") for name in texts}
    assert meaning["one"] == meaning["two"] != meaning["other"]


def test_only_what_was_typed_is_part_of_the_settings():
    cell, default = Cell("str_contrast", "str_sparse", "cora"), ContrastConfig().sparsifier.score
    assert cell.settings({})["sparsifier"]["score"] == "dot" != default
    assert cell.settings({"score": default})["sparsifier"]["score"] == default
    with pytest.raises(GsscError, match="sparsifier.alpha is 7"):
        cell.settings({"alpha": 7})


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A package with a model that imports in every way there is; returns a function that writes one of its files."""

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        code_version_module._statements.cache_clear()
        code_version_module._meaning.cache_clear()

    monkeypatch.setattr(code_version_module, "ROOT", tmp_path)
    write(
        "model.py", "import gssc.plain\nfrom gssc.room import Lazy\nfrom gssc.registry import x\nfrom . import near\n"
    )
    write("plain.py", "def f():\n    from gssc.late import g\n    return g\n")
    write("late.py", "g = 1\n")
    write("near.py", "n = 1\n")
    write("registry.py", "import gssc.unrelated\n")
    write("unrelated.py", "u = 1\n")
    lazy = "if TYPE_CHECKING:\n    from gssc.room.home import Lazy\n    from gssc.unrelated import u\n"
    write("room/__init__.py", lazy)
    write("room/home.py", "class Lazy:\n    value = 1\n")
    return write


@pytest.mark.parametrize("name", ["plain.py", "late.py", "near.py", "room/home.py", "room/__init__.py"])
def test_a_change_anywhere_behind_an_import_is_a_new_version(house, name):
    before = code_version("gssc.model")
    house(name, "changed = True\n")
    assert code_version("gssc.model") != before


@pytest.mark.parametrize("name", ["unrelated.py", "registry.py"])
def test_what_a_model_does_not_use_is_no_part_of_its_version(house, name):
    before = code_version("gssc.model")
    house(name, "changed = True\n")
    assert code_version("gssc.model") == before


def test_the_code_of_models_that_settings_name_is_part_of_the_version():
    cell = Cell("glnn", "none", "cora")
    settings = cell.settings({})
    assert settings["teacher"]["name"] == "sage"
    assert "gssc.models.sage" in _modules_of("glnn", "none", settings)
    settings["teacher"]["name"] = "gat"
    assert {"gssc.models.gat", "gssc.train.supervised"} <= set(_modules_of("glnn", "none", settings))
    asked = _modules_of("gssc", "none", {"teachers": {"models": "gcn, sgformer"}})
    assert {"gssc.models.gcn", "gssc.models.sgformer", "gssc.learner.learner"} <= set(asked)


def test_normalisation_in_another_room_is_part_of_every_model():
    assert {"gssc.features", "gssc.deploy.forward"} <= code_version_module.imported_from("gssc.models.gcn")


@pytest.fixture
def graph_file(tmp_path):
    def save(name: str = "mine.npz", **changes) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        load_dataset("csbm", nodes=60, degree=4, classes=3, per_class=5).with_(**changes).save(path)
        return str(path)

    return save


def test_graphs_of_your_own_beside_datasets(graph_file):
    bare = graph_file("bare.npz", train=None, val=None, test=None)
    made, _ = cells(["mlp"], ["none"], ["cora"], graphs=[graph_file(), f"{bare}:per-class:3"], seeds=2)
    names = ["cora", "mine.npz", "bare.npz:per-class:3"]
    assert [(cell.seed, cell.dataset) for cell in made] == [(seed, name) for seed in (0, 1) for name in names]
    assert [cell.data.split for cell in made[:3]] == ["public", "own", "per-class:3"]
    own, drawn, other = made[1].clean_graph(), made[2].clean_graph(), made[5].clean_graph()
    assert own.name == "mine.npz"
    assert len(drawn.train) == len(other.train) == 9
    assert drawn.train.tolist() != other.train.tolist(), "a split that is drawn goes by the seed"


def test_the_key_of_your_own_graph_follows_its_content_not_its_place(graph_file, tmp_path):
    def of(path):
        return key(cells(["mlp"], ["none"], [], graphs=[path], seeds=1)[0][0])

    path, moved = graph_file(), tmp_path / "elsewhere"
    moved.mkdir()
    before = of(path)
    assert of(shutil.copy(path, moved)) == before
    graph_file(setting="inductive", split="other")
    assert of(path) != before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda save: ["nowhere.npz"], "nowhere.npz"),
        (lambda save: [save() + ":per-class:3"], "has a split of its own"),
        (lambda save: [save("bare.npz", train=None, val=None, test=None)], "has no training nodes"),
        (lambda save: [save("a/mine.npz"), save("b/mine.npz")], "two graphs are called mine.npz"),
    ],
)
def test_graphs_that_cannot_be_used_are_refused_before_anything_runs(graph_file, make, message):
    with pytest.raises(GsscError, match=message):
        cells(["mlp"], ["none"], [], graphs=make(graph_file))


def test_every_registered_name_can_be_loaded():
    for entry in (*MODELS.values(), *SPARSIFIERS.values()):
        assert entry.load().__name__ == entry.class_name
        assert entry.summary


def test_a_split_that_is_drawn_is_drawn_by_the_seed(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "gssc.evaluate.cell_data.load_dataset", lambda name, **options: asked.append(options["seed"]) or 1 / 0
    )
    for dataset in ("cora:per-class:5", "cora", "csbm"):
        with pytest.raises(ZeroDivisionError):
            Cell("gcn", "none", dataset, seed=4).run({})
    assert asked == [4, 0, 4]
