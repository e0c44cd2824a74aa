"""A cell of a comparison: one model, one sparsifier, one data set, one noise, one seed; and how to run it."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from gssc.config import RunConfig, Settings
from gssc.data.entry import Dataset
from gssc.data.fetch import fetch
from gssc.data.load import find_dataset, load_dataset
from gssc.data.noise import add_noise, parse_noise
from gssc.errors import GsscError
from gssc.evaluate.code_version import code_version
from gssc.files import sha256
from gssc.graph import SETTINGS, Graph
from gssc.models.registry import model_entry
from gssc.names import nearest
from gssc.recipes import config_for
from gssc.sparsify.registry import SPARSIFIERS
from gssc.train.pairing import training_way

if TYPE_CHECKING:
    from gssc.train.training import Outcome

SPLITS = "gssc.data.splits"
DRAWN = r"(per-class|ratio):"


@dataclass(frozen=True)
class Cell:
    """One run of a comparison, by names.

    ``dataset`` may carry a split, ``actor:fixed``; of several numbered splits seed s takes the s-th, and one that is
    drawn (``per-class:20``) is drawn by the seed. ``max_epochs`` cuts every schedule short, for a quick look; 0 leaves
    it as it is.
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

    @property
    def title(self) -> str:
        """A line for progress and errors."""
        noise = [text for text in (self.label_noise, self.structure_noise, self.feature_noise) if text != "none"]
        rest = [self.setting] * (self.setting != "transductive") + noise
        return f"{self.model} + {self.sparsifier} on {', '.join([self.dataset, *rest])}, seed {self.seed}"

    @property
    def data(self) -> tuple[Dataset, str]:
        """The data set, and the name of the split this seed takes."""
        name, _, split = self.dataset.partition(":")
        dataset = find_dataset(name)
        split = split or re.sub(r"-\d+$", "", dataset.default_split)
        for offered in dataset.splits:
            if numbered := re.fullmatch(r"(.+)-0 to \1-(\d+)", offered):
                family, last = numbered[1], int(numbered[2])
                if split == family:
                    return dataset, f"{family}-{self.seed % (last + 1)}"
                if re.fullmatch(rf"{family}-\d+", split) and int(split.rpartition("-")[2]) <= last:
                    return dataset, split
        known = [offered.partition(" ")[0] for offered in dataset.splits]
        if split not in known and not re.match(DRAWN, split):
            raise GsscError(f"{name} has no split {split!r}: it offers {', '.join(dataset.splits)}")
        return dataset, split

    @property
    def trained_as(self) -> Cell:
        """The cell whose training this one shares.

        A model that needs no edges to predict trains and answers the same whether unseen nodes come with edges or not.
        """
        if self.setting == "cold-start" and not model_entry(self.model).load().passes_messages:
            return replace(self, setting="inductive")
        return self

    def config(self, typed: Settings) -> RunConfig:
        """All settings of the run: the model's own for this data set, under what was typed for the sparsifier."""
        dataset, split = self.data
        given = {"sparsifier": {**typed, "name": self.sparsifier}, "train": {"seed": self.seed}}
        return config_for(self.model, dataset.name, split, given).shortened(self.max_epochs)

    def settings(self, typed: Settings) -> dict[str, Any]:
        """Everything but data and code that determines the result."""
        settings = self.config(typed).to_dict()
        del settings["data"]
        return settings

    def identity(self, typed: Settings) -> dict[str, Any]:
        """What the key is a digest of."""
        dataset, split = self.data
        model, sparse = model_entry(self.model), SPARSIFIERS[self.sparsifier]
        models = [model, *map(model_entry, model.uses)]
        modules = [f"gssc.models.{each.module}" for each in models]
        modules += [f"gssc.sparsify.{sparse.module}", model.loop, dataset.load.__module__, SPLITS]
        if {self.label_noise, self.structure_noise, self.feature_noise} != {"none"}:
            modules.append("gssc.data.noise")
        return {
            **asdict(self),
            "split": split,
            "data": data_checksum(dataset),
            "code": code_version(*modules),
            "settings": self.settings(typed),
        }

    def clean_graph(self) -> Graph:
        """The data, without noise; generated data and drawn splits go by the seed."""
        dataset, split = self.data
        generated = not dataset.files and split == dataset.default_split
        drawn = not dataset.files or re.match(DRAWN, split)
        seed = self.seed if drawn else 0
        return load_dataset(dataset.name, split=None if generated else split, seed=seed, setting=self.setting)

    def run(self, typed: Settings) -> tuple[Outcome, dict[str, Any]]:
        """Train it; returns how it went and what the noise really was."""
        from gssc.result import fit

        noises = {"label": self.label_noise, "structure": self.structure_noise, "features": self.feature_noise}
        graph, noise = add_noise(self.clean_graph(), **noises, seed=self.seed)
        return fit(graph, self.config(typed)).outcome, noise


def cells(
    models: Sequence[str],
    sparsifiers: Sequence[str],
    datasets: Sequence[str],
    *,
    settings: Sequence[str] = ("transductive",),
    label_noise: Sequence[str] = ("none",),
    structure_noise: Sequence[str] = ("none",),
    feature_noise: Sequence[str] = ("none",),
    seeds: int = 5,
    max_epochs: int = 0,
) -> tuple[list[Cell], dict[tuple[str, str], str]]:
    """The cross product, and the pairs of model and sparsifier that are impossible, each with the reason.

    Every name is checked before anything runs.
    """
    for setting in settings:
        if setting not in SETTINGS:
            raise GsscError(f"setting {setting!r} is not known: {nearest(setting, SETTINGS)}")
    noises = (
        [str(parse_noise(text, "label")) for text in label_noise],
        [str(parse_noise(text, "structure")) for text in structure_noise],
        [str(parse_noise(text, "features")) for text in feature_noise],
    )
    for name in datasets:
        Cell("", "", name).data  # noqa: B018 - raises on an unknown name
    refused: dict[tuple[str, str], str] = {}
    for model, sparsifier in itertools.product(models, sparsifiers):
        model_entry(model)
        if sparsifier not in SPARSIFIERS:
            raise GsscError(f"unknown sparsifier {sparsifier!r}; {nearest(sparsifier, SPARSIFIERS)}")
        try:
            training_way(model, sparsifier)
        except GsscError as error:
            refused[model, sparsifier] = str(error)
    # Seeds outermost: a sweep that is stopped early has some seeds of everything and not everything of some models.
    made = [
        Cell(model, sparsifier, dataset, setting, label, structure, features, seed, max_epochs)
        for seed in range(seeds)
        for dataset, setting, label, structure, features in itertools.product(datasets, settings, *noises)
        for model, sparsifier in itertools.product(models, sparsifiers)
        if (model, sparsifier) not in refused
    ]
    return list(dict.fromkeys(made)), refused


def key_of(identity: dict[str, Any]) -> str:
    """The digest that names a run in the store."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def data_checksum(dataset: Dataset) -> str:
    """One digest of a data set's files; a generated one is determined by the code and the seed."""
    if not dataset.files:
        return code_version("gssc.data.synthetic")
    parts = [f"{file.name} {file.sha256}" for file in dataset.files if not file.optional]
    if any(part.endswith(" None") for part in parts):
        parts = [f"{name} {sha256(path)}" for name, path in sorted(fetch(dataset, None).items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
