"""Recipes, one YAML file per published result (dataset, settings, expected value), and the two presets.

``gssc train cora --model str_contrast`` uses ``cora.yaml``. A recipe contains the value measured with it and the value
in the paper, so that a test can check the file and a reader can see what to expect.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from gssc.config import DEFAULT_MODEL, PAIR_MODEL, RunConfig, merged_settings, parse_config
from gssc.errors import GsscError
from gssc.names import nearest
from gssc.settings import Settings, parse_yaml

PRESETS = ("default", "paper", "reference")


def preset_settings(name: str) -> Settings:
    """Return the settings of a preset: ``default``, ``paper`` (the text), ``reference`` (the released program)."""
    if name not in PRESETS:
        raise GsscError(f"unknown preset {name!r}; {nearest(name, PRESETS)}")
    return {} if name == "default" else _shipped_yaml(f"preset-{name}.yaml")["settings"]


@lru_cache
def recipe_names() -> tuple[str, ...]:
    """Return the names of all recipes."""
    names = (Path(item.name) for item in files("gssc.recipes").iterdir())
    return tuple(sorted(n.stem for n in names if n.suffix == ".yaml" and not n.stem.startswith("preset-")))


def recipe_name(dataset: str | None, split: str | None = None) -> str | None:
    """Return the name of the recipe for this kind of split (``actor-fixed``), else for the dataset, else None."""
    family = re.sub(r"-\d+$", "", split or "")
    return next((name for name in (f"{dataset}-{family}", dataset) if name in recipe_names()), None)


def recipe_settings(dataset: str | None, split: str | None = None, model: str = PAIR_MODEL) -> Settings:
    """Return the best known settings of a model for a dataset, shipped with the package.

    For training on pairs they come from the recipe files and are empty for datasets without a recipe. For rival models
    they come from the model's class, if it has any.
    """
    if model != PAIR_MODEL:
        return _rival_settings(dataset, split, model)
    name = recipe_name(dataset, split)
    settings = _shipped_yaml(f"{name}.yaml")["settings"] if name else {}
    return {**settings, "model": {"name": PAIR_MODEL, **settings.get("model", {})}}


def _rival_settings(dataset: str | None, split: str | None, model: str) -> Settings:
    from gssc.models.registry import recipe_of  # needs torch

    recipe = recipe_of(model, dataset or "", split or "")
    settings = recipe.settings() if recipe else {"model": {}}
    return {**settings, "model": {"name": model, **settings["model"]}}


def recipe(dataset: str, split: str | None = None, model: str = DEFAULT_MODEL) -> RunConfig:
    """Return the settings that ``gssc train DATASET --model MODEL`` uses."""
    return config_for(model, dataset, split, {"data": {"dataset": dataset, "split": split}})


def config_for(model: str, dataset: str | None, split: str | None, *typed: Settings) -> RunConfig:
    """Return the settings of a model on a dataset: its recipe, overridden by what the user typed.

    If the user names a sparsifier other than the recipe's, only those sparsifier settings of the recipe are used that
    the other sparsifier has too.
    """
    return parse_config(suited(recipe_settings(dataset, split, model), *typed), *typed)


def suited(settings: Settings, *typed: Settings) -> Settings:
    """Return the settings of a recipe or preset without sparsifier settings that the sparsifier typed later lacks."""
    name = merged_settings(*typed).get("sparsifier", {}).get("name")
    if name is None or "sparsifier" not in settings:
        return settings
    from gssc.sparsify.registry import relevant_settings

    return {**settings, "sparsifier": relevant_settings(name, settings["sparsifier"])}


def recipe_file(dataset: str) -> Settings:
    """Return the whole recipe of a dataset: settings, measured value, value reported in the paper."""
    return _shipped_yaml(f"{dataset}.yaml")


def _shipped_yaml(name: str) -> Settings:
    return parse_yaml(files("gssc.recipes").joinpath(name).read_text(encoding="utf-8"), name)
