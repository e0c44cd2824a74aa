"""A cell of a comparison: one model, one sparsifier, one graph, one noise, one seed; and how to run it."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gssc.config import RunConfig
from gssc.data.noise import add_noise, parse_noise
from gssc.errors import GsscError
from gssc.evaluate.cell_data import CellData, OwnGraph, Registered, split_graph_option
from gssc.evaluate.code_version import code_version
from gssc.graph import LEARNING_SETTINGS, Graph
from gssc.models.registry import MODELS, model_entry
from gssc.names import nearest
from gssc.recipes import config_for
from gssc.settings import Settings
from gssc.sparsify.registry import SPARSIFIERS, relevant_settings, sparsifier_settings
from gssc.train.registry import training_way

if TYPE_CHECKING:
    from gssc.result import Result


@dataclass(frozen=True)
class Cell:
    """One run of a comparison, by names.

    ``dataset`` may include a split, ``actor:fixed``; of several numbered splits seed s uses the s-th, and a random one
    (``per-class:20``) is drawn by the seed. ``max_epochs`` limits the epochs of every schedule, for a quick look; 0 is
    no limit. ``graph`` is the path of your own graph file, and ``dataset`` then its name; the path is not part of the
    run's key, so a file may be moved.
    """

    model: str
    sparsifier: str
    dataset: str
    setting: str = "transductive"
    label_noise: str = "none"
    structure_noise: str = "none"
    feature_noise: str = "none"
    seed: int = 0
    max_epochs: int = 0
    graph: str = ""

    @property
    def title(self) -> str:
        """The name of the run in progress bars and errors."""
        noise = [text for text in (self.label_noise, self.structure_noise, self.feature_noise) if text != "none"]
        rest = [self.setting] * (self.setting != "transductive") + noise
        return f"{self.model} + {self.sparsifier} on {', '.join([self.dataset, *rest])}, seed {self.seed}"

    @property
    def data(self) -> CellData:
        """The source of the graph, with the split of this seed."""
        if self.graph:
            return OwnGraph(self.graph, split_graph_option(self.dataset)[1], self.seed)
        return Registered(self.dataset, self.seed)

    @property
    def trained_as(self) -> Cell:
        """The cell whose training this one shares.

        A model that predicts without edges trains and predicts the same whether unseen nodes have edges or not.
        """
        if self.setting == "cold-start" and not model_entry(self.model).load().passes_messages:
            return replace(self, setting="inductive")
        return self

    def config(self, typed: Settings) -> RunConfig:
        """Return all settings: the model's own for this data, overridden by those typed for the sparsifier."""
        own = relevant_settings(self.sparsifier, typed)
        given = {"sparsifier": {**own, "name": self.sparsifier}, "train": {"seed": self.seed}}
        data = self.data
        return config_for(self.model, data.name, data.split, given).shortened(self.max_epochs)

    def settings(self, typed: Settings) -> Settings:
        """Return all settings of the run except those of the data."""
        settings = self.config(typed).to_dict()
        del settings["data"]
        return settings

    def identity(self, typed: Settings) -> dict[str, Any]:
        """Return everything that determines the result; the key of the run is its digest."""
        data, settings = self.data, self.settings(typed)
        modules = [*_modules_of(self.model, self.sparsifier, settings), *data.modules]
        if {self.label_noise, self.structure_noise, self.feature_noise} != {"none"}:
            modules.append("gssc.data.noise")
        names = asdict(self)
        del names["graph"]
        return {
            **names,
            "split": data.split,
            "data": data.checksum,
            "code": code_version(*modules),
            "settings": settings,
        }

    def clean_graph(self) -> Graph:
        """Return the data without noise; generated data and random splits are drawn by the seed."""
        return self.data.load(self.setting)

    def run(self, typed: Settings) -> tuple[Result, dict[str, Any]]:
        """Train the model; return the result and the realised noise.

        Args:
            typed: settings of the sparsifier that the user typed; all others are the model's own.
        """
        from gssc.evaluate.reported_fit import reported_fit

        noises = {"label": self.label_noise, "structure": self.structure_noise, "features": self.feature_noise}
        graph, noise = add_noise(self.clean_graph(), **noises, seed=self.seed)
        return reported_fit(graph, self.config(typed)), noise


def _modules_of(model: str, sparsifier: str, settings: Settings) -> list[str]:
    """Return the modules of the model, its training, its sparsifier, and of models its settings name (teachers)."""
    values = (value for section in settings.values() for value in section.values() if isinstance(value, str))
    named = {name.strip() for value in values for name in value.split(",")} | {model, sparsifier}
    models = [MODELS[name] for name in sorted(named & MODELS.keys())]
    models += [MODELS[name] for entry in models for name in entry.uses]
    found = [module for entry in models for module in (f"gssc.models.{entry.module}", entry.loop)]
    return found + [f"gssc.sparsify.{SPARSIFIERS[name].module}" for name in sorted(named & SPARSIFIERS.keys())]


def cells(
    models: Sequence[str],
    sparsifiers: Sequence[str],
    datasets: Sequence[str],
    *,
    graphs: Sequence[str] = (),
    settings: Sequence[str] = ("transductive",),
    label_noise: Sequence[str] = ("none",),
    structure_noise: Sequence[str] = ("none",),
    feature_noise: Sequence[str] = ("none",),
    seeds: int = 5,
    max_epochs: int = 0,
) -> tuple[list[Cell], dict[tuple[str, str], str]]:
    """Return the cross product, and the pairs of model and sparsifier that are impossible, each with the reason.

    ``graphs`` are your own graph files, used in addition to the datasets. Every name is checked before anything runs.
    """
    for setting in settings:
        if setting not in LEARNING_SETTINGS:
            raise GsscError(f"unknown setting {setting!r}: {nearest(setting, LEARNING_SETTINGS)}")
    noises = (
        [str(parse_noise(text, "label")) for text in label_noise],
        [str(parse_noise(text, "structure")) for text in structure_noise],
        [str(parse_noise(text, "features")) for text in feature_noise],
    )
    for name in datasets:
        Cell("", "", name).data.split  # noqa: B018 - raises on an unknown name
    graphs_by_name = [(name, "") for name in datasets] + _own_graphs(graphs)
    refused: dict[tuple[str, str], str] = {}
    for model, sparsifier in itertools.product(models, sparsifiers):
        model_entry(model)  # raises on an unknown name
        sparsifier_settings(sparsifier)
        try:
            training_way(model, sparsifier)
        except GsscError as error:
            refused[model, sparsifier] = str(error)
    # Seeds outermost: a sweep that is stopped early then has some seeds of every method, not all seeds of some.
    made = [
        Cell(model, sparsifier, dataset, setting, label, structure, features, seed, max_epochs, graph)
        for seed in range(seeds)
        for (dataset, graph), setting, label, structure, features in itertools.product(
            graphs_by_name, settings, *noises
        )
        for model, sparsifier in itertools.product(models, sparsifiers)
        if (model, sparsifier) not in refused
    ]
    return list(dict.fromkeys(made)), refused


def _own_graphs(graphs: Sequence[str]) -> list[tuple[str, str]]:
    """Return the name of each graph file in tables, and its path. Raises GsscError for a file that cannot be used."""
    found: dict[str, str] = {}
    for text in graphs:
        path, split = split_graph_option(text)
        place = str(Path(path).absolute())
        name = f"{Path(path).name}:{split}" if split else Path(path).name
        if found.setdefault(name, place) != place:
            raise GsscError(f"two graphs are called {name}, {found[name]} and {place}: rename one of them")
        OwnGraph(place, split, 0).load("transductive")
    return list(found.items())


def key_of(identity: dict[str, Any]) -> str:
    """Return the key of a run in the store, a digest of its identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
