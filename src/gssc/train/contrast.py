"""STR-Contrast as one of the models of a comparison: the recipe of the data set, under any sparsifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from gssc.config import Config, SparsifierConfig, parse_config
from gssc.graph import Graph
from gssc.recipes import recipe_settings
from gssc.train.bilevel import fit
from gssc.train.outcome import Outcome
from gssc.train.selection import Epoch


def fit_model(
    name: str,
    graph: Graph,
    sparsifier: SparsifierConfig | None = None,
    seed: int = 0,
    recipe: Config | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    max_epochs: int = 0,
) -> Outcome:
    """Train GSSC with a sparsifier of any name, by the data set's recipe or by ``recipe``."""
    settings = sparsifier or SparsifierConfig(name="none")
    config = recipe or config_for(graph.name, graph.split, settings, seed)
    if max_epochs:
        config.train.warmup_epochs = min(config.train.warmup_epochs, max_epochs)
        config.train.epochs = min(config.train.epochs, max_epochs)
        config.consolidate.epochs = min(config.consolidate.epochs, max_epochs)
    run = fit(graph, config, on_epoch)
    best = run.best.record
    assert best is not None
    return Outcome(
        scores=run.predict_all().numpy(),
        val_accuracy=best.val_accuracy,
        test_accuracy=best.test_accuracy,
        seconds=run.seconds,
        epochs=run.epoch,
        edges_kept=int((run.edge_trust() > 0.5).sum()),
        edges_total=graph.training_view()[0].num_edges,
    )


def config_for(dataset: str, split: str, sparsifier: SparsifierConfig, seed: int) -> Config:
    """The recipe of the data set; of its sparsifier settings only those the comparison did not set stay."""
    config = parse_config(recipe_settings(dataset, split))
    usual = SparsifierConfig()
    typed = {key: value for key, value in asdict(sparsifier).items() if value != getattr(usual, key)}
    config.sparsifier = replace(config.sparsifier, **{**typed, "name": sparsifier.name})
    config.train.seed = seed
    return config


def settings_of(name: str, dataset: str, split: str, sparsifier: SparsifierConfig, seed: int) -> dict[str, Any]:
    """Everything but data and code that determines the result, as plain values."""
    settings = config_for(dataset, split, sparsifier, seed).to_dict()
    del settings["data"]
    return settings
