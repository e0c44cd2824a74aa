from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import yaml

from gssc.config import PAIR_MODEL, ContrastConfig, parse_config, sections
from gssc.errors import GsscError
from gssc.models.nagphormer import NAGphormer
from gssc.models.registry import MODELS, model_settings
from gssc.recipes import PRESETS, config_for, preset_settings, recipe, recipe_file, recipe_names
from gssc.settings import Bounds, bounds_of, choices_of, read_settings

ROOT = Path(__file__).parents[1]
SECTIONS = sections(ContrastConfig, PAIR_MODEL)
PAIRS = {"model": {"name": PAIR_MODEL}}


def test_later_layers_win_and_the_rest_keeps_its_default() -> None:
    config = parse_config({"model": {"hidden": 64, "layers": 3}}, {"model": {"hidden": 32}})
    assert (config.model.hidden, config.model.layers) == (32, 3)
    assert config.train == parse_config().train


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": {}}, "unknown settings section 'modle'; did you mean 'model'?"),
        ({"model": {"hiden": 3}}, "unknown setting model.hiden; did you mean 'hidden'?"),
        ({"model": {"hidden": "wide"}}, "model.hidden"),
        ({"model": 3}, "must hold named values"),
        ({"sparsifier": {"noise": "pink"}}, "noise"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict, message: str) -> None:
    with pytest.raises(GsscError) as caught:
        parse_config(settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def literal_settings() -> list[str]:
    places = [f"{name}.{key}" for name, section in SECTIONS.items() for key in section.__dataclass_fields__]
    return [
        place
        for place in places
        if place != "model.name" and choices_of(SECTIONS[place.split(".")[0]], place.split(".")[1])
    ]


@pytest.mark.parametrize("place", literal_settings())
def test_a_misspelt_choice_in_python_is_refused_by_name(place: str) -> None:
    config, (section, name) = ContrastConfig(), place.split(".")
    setattr(getattr(config, section), name, "typo")
    with pytest.raises(GsscError, match=rf"^{place} is 'typo'; (choose from|did you mean) "):
        config.check()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("model.hiden", 3, "unknown setting model.hiden; did you mean 'hidden'?"),
        ("modle", 3, "unknown settings section 'modle'; did you mean 'model'?"),
        ("model", {"hidden": 8}, "settings section 'model' must be a STRContrastSettings, not {'hidden': 8}"),
        ("model.hidden", 8.0, "model.hidden is 8.0; it must be a whole number"),
        ("model.hidden", True, "model.hidden is True; it must be a whole number"),
        ("train.lr", "0.1", "train.lr is '0.1'; it must be a number"),
        ("train.lr", None, "train.lr is None; it must be a number"),
        ("data.require_all_classes", 1, "data.require_all_classes is 1; it must be True or False"),
        ("data.graph", Path("x.npz"), "it must be text or None"),
        ("sparsifier.maps", 2.0, "sparsifier.maps is 2.0; choose from 1, 2"),
        ("sparsifier.maps", None, "sparsifier.maps is None; choose from 1, 2"),
        ("objective.negatives", "uniforn", "objective.negatives is 'uniforn'; did you mean 'uniform'?"),
    ],
)
def test_wrong_settings_in_python_are_refused_by_name(place: str, value: object, message: str) -> None:
    config = ContrastConfig()
    *section, name = place.split(".")
    setattr(getattr(config, section[0]) if section else config, name, value)
    with pytest.raises(GsscError) as caught:
        config.check()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_in_python_may_be_numbers_of_numpy_and_whole_numbers_for_floats() -> None:
    config = ContrastConfig()
    config.model.hidden, config.train.lr, config.model.dropout = np.int64(8), np.float32(0.01), 0  # type: ignore[assignment]
    config.data.setting = "inductive"
    config.check()


def test_yaml_round_trip(tmp_path) -> None:
    config = parse_config(PAIRS, {"train": {"lr": 0.003, "seed": 9}, "data": {"dataset": "cora"}})
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config.to_dict()))
    assert parse_config(read_settings(path)) == config


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", ""])
def test_yaml_that_holds_no_settings_is_refused(tmp_path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(GsscError, match=r"config\.yaml"):
        read_settings(path)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_whole_configs(name: str) -> None:
    parse_config(preset_settings(name))


def test_unknown_preset_suggests_the_nearest() -> None:
    with pytest.raises(GsscError, match="did you mean 'paper'"):
        preset_settings("papper")


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_load_name_their_data_and_say_what_to_expect(name: str) -> None:
    content = recipe_file(name)
    assert name in (content["dataset"], f"{content['dataset']}-{content['split']}")
    assert recipe(content["dataset"], content["split"]).data.dataset == content["dataset"]
    if name == "digits":
        return
    expected = content["expected"]
    assert set(expected) == {"accuracy", "std", "seeds", "tolerance", "paper"}
    assert 0 < expected["tolerance"] <= 1.5
    reports = "".join((ROOT / "results" / f"{page}.md").read_text() for page in ("core", "baselines"))
    assert f"{expected['accuracy']:.2f} ± {expected['std']:.2f}" in reports
    assert len(expected["seeds"]) >= 3


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "references such as \\*a are not allowed"),
        ("train: {seed: " + "9" * 5000 + "}", "a number is too long"),
        ("train: {seed: 0x" + "f" * 60 + "}", "a number is too long"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("train: {seed: 2001-99-99}", "not valid YAML"),
        ("# " + "x" * 200_000, "200,002 bytes, more than the 100,000 allowed"),
    ],
    ids=["aliases", "digits", "hex digits", "nesting", "no date", "size"],
)
def test_hostile_yaml_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(GsscError, match=message) as caught:
        read_settings(path)
    assert "\n" not in str(caught.value)


def test_settings_in_a_pipe_are_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.yaml")
    with pytest.raises(GsscError, match="it is a pipe or a device"):
        read_settings(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([{"sparsifier": {"name": "gaug", "alpha": 0.2}}], "unknown setting sparsifier.alpha"),
        ([{"sparsifier": {"name": "gaga"}}], "unknown sparsifier 'gaga'; did you mean 'gaug'?"),
        ([{"model": {"name": "gcn", "hidden": "wide"}}], "model.hidden is 'wide'; it must be a whole number"),
        ([{"model": {"name": "gcn"}, "consolidate": {"epochs": 3}}], "unknown settings section 'consolidate'"),
        ([PAIRS, {"model": {"dropout": 1.5}}], "model.dropout is 1.5; it must be between 0 and 0.99"),
        ([PAIRS, {"train": {"lr": "nan"}}], "train.lr is nan; it must be at least 0"),
    ],
)
def test_settings_are_those_of_the_named_model_and_sparsifier(layers: list[dict], message: str) -> None:
    with pytest.raises(GsscError) as caught:
        parse_config(*layers)
    assert message in str(caught.value)


@pytest.mark.parametrize("model", ["gssc", "gcn"])
def test_a_device_is_refused_where_it_would_do_nothing(model: str) -> None:
    with pytest.raises(GsscError, match=f"{model} is trained on a CPU only: leave --device out"):
        parse_config({"model": {"name": model}, "train": {"device": "cuda"}})
    assert parse_config({"model": {"name": model}, "train": {"device": "cpu"}}).model.name == model


def test_text_of_yaml_becomes_numbers() -> None:
    config = parse_config(PAIRS, {"train": {"lr": "5e-4", "epochs": "7"}, "data": {"require_all_classes": "true"}})
    assert (config.train.lr, config.train.epochs, config.data.require_all_classes) == (5e-4, 7, True)


def test_a_recipe_goes_with_another_sparsifier_as_far_as_it_has_the_same_settings() -> None:
    config = config_for("str_contrast", "digits", None, {"sparsifier": {"name": "gaug"}})
    assert (config.sparsifier.name, config.sparsifier.pretrain_epochs) == ("gaug", 50)
    assert config_for("str_contrast", "cora", None, {"sparsifier": {"name": "drop_edge"}}).sparsifier.keep == 0.8


def test_the_sparsifier_that_keeps_every_edge_has_no_other_settings() -> None:
    config = parse_config({"sparsifier": {"name": "none"}})
    assert config.to_dict()["sparsifier"] == {"name": "none"}


@pytest.mark.parametrize("model", MODELS)
def test_every_number_of_a_model_has_a_lower_bound_that_is_checked(model: str) -> None:
    for option in fields(model_settings(model)):
        if isinstance(option.default, float | int) and not isinstance(option.default, bool):
            bounds = bounds_of(model_settings(model), option.name)
            assert bounds != Bounds(), f"give {option.name} a type with bounds, such as gssc.settings.Count"
            assert option.default in bounds
            with pytest.raises(GsscError, match=rf"model\.{option.name} is -1.*; it must be {bounds}"):
                parse_config({"model": {"name": model, option.name: -1}})


def test_attention_heads_share_the_width() -> None:
    with pytest.raises(GsscError, match=r"model\.hidden is 10; it must be a multiple of model\.heads, 4"):
        NAGphormer(3, 2, hidden=10, heads=4)


def test_rivals_have_the_settings_of_their_papers() -> None:
    config = config_for("mlp", "actor", "fixed-3")
    assert (config.train.weight_decay, config.train.normalize, config.sparsifier.name) == (5e-4, "none", "none")
    assert config_for("glnn", "citeseer", "public").model.dropout == 0.1


def test_a_file_of_settings_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(GsscError, match=r"none\.yaml: there is no such file$"):
        read_settings(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(GsscError, match=r"latin\.yaml: it is not UTF-8 text$"):
        read_settings(tmp_path / "latin.yaml")


@pytest.mark.parametrize(("set_to", "epochs", "expected"), [(0, 5, 5), (3, 5, 3), (8, 5, 5), (3, 0, 3)])
def test_shortened_never_lengthens_the_training_of_a_teacher(set_to: int, epochs: int, expected: int) -> None:
    config = parse_config({"model": {"name": "glnn"}, "teacher": {"max_epochs": set_to}})
    assert config.shortened(epochs).teacher.max_epochs == expected  # type: ignore[attr-defined]
