"""Markdown tables made from the package: every setting, what the presets change, the datasets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docstring_parser import parse

from gssc.config import DEFAULT_MODEL, PAIR_MODEL, ContrastConfig, parse_config, sections
from gssc.data import DATASETS
from gssc.learner.settings import Config
from gssc.recipes import PRESETS, preset_settings, recipe_names
from gssc.settings import Bounds, bounds_of
from gssc.sparsify.registry import SPARSIFIERS, every_setting

SECTIONS = {
    DEFAULT_MODEL: sections(Config, DEFAULT_MODEL),
    PAIR_MODEL: {**sections(ContrastConfig, PAIR_MODEL), "sparsifier": every_setting()},
}


def settings(place: str) -> str:
    """Every option of one section, given as MODEL:SECTION: name, default, allowed values, meaning."""
    model, _, section = place.partition(":")
    kind: Any = SECTIONS[model][section]
    types = get_type_hints(kind)
    meaning = {entry.arg_name: " ".join((entry.description or "").split()) for entry in parse(kind.__doc__).params}
    rows = [
        (
            f"`{section}.{option.name}`",
            code(option.default),
            allowed(kind, section, option.name, types),
            meaning[option.name],
        )
        for option in fields(kind)
    ]
    return table(("option", "default", "values", "meaning"), rows)


def allowed(section_class: Any, section: str, option: str, types: dict[str, Any]) -> str:
    """The values an option takes."""
    kind = types[option]
    if (section, option) == ("sparsifier", "name"):
        return ", ".join(code(name) for name in SPARSIFIERS)
    if get_origin(kind) is Literal:
        return ", ".join(code(choice) for choice in get_args(kind))
    if kind is bool:
        return "`true`, `false`"
    bounds = bounds_of(section_class, option)
    if bounds != Bounds():
        low, high = bounds.low, bounds.high
        number = "whole number" if kind is int else "number"
        return f"{number}, {low:g} or more" if high == math.inf else f"{number} from {low:g} to {high:g}"
    return "text" if str in (kind, *get_args(kind)) else "number"


def presets() -> str:
    """The options in which the presets differ."""
    named = {"model": {"name": PAIR_MODEL}}
    configs = {name: parse_config(named, preset_settings(name)).to_dict() for name in PRESETS}
    rows = []
    for section, kind in sections(ContrastConfig, PAIR_MODEL).items():
        for option in fields(kind):  # type: ignore[arg-type]
            values = [configs[name][section][option.name] for name in PRESETS]
            if any(value != values[0] for value in values):
                rows.append((f"`{section}.{option.name}`", *map(code, values)))
    return table(("option", *(f"`{name}`" for name in PRESETS)), rows)


def datasets() -> str:
    """The registry: sizes, splits, licence."""
    rows = []
    for entry in DATASETS.values():
        sizes = [f"{size:,}" for size in entry.sizes] if entry.sizes else ["any"] * 4
        offered = ", ".join(f"`{split}`" for split in entry.splits)
        rows.append((f"`{entry.name}`", *sizes, f"`{entry.default_split}`", offered, entry.licence))
    return table(("name", "nodes", "edges", "features", "classes", "default split", "splits", "licence"), rows)


def recipes() -> str:
    """The datasets that come with settings of their own."""
    return "Datasets with a recipe: " + ", ".join(f"`{name}`" for name in recipe_names()) + "."


def code(value: Any) -> str:
    """A value the way YAML writes it."""
    if value is None:
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


KINDS = {"settings": settings, "presets": presets, "datasets": datasets, "recipes": recipes}
