"""STR-Contrast as one of the models of a comparison: the recipe of the data set, under any sparsifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

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
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Outcome:
    """Train GSSC with a sparsifier of any name."""
    settings = sparsifier or SparsifierConfig(name="none")
    run = fit(graph, config_for(graph.name, graph.split, settings, seed), on_epoch)
    best = run.best.record
    assert best is not None
    return Outcome(
        scores=run.predict_all().numpy(),
        val_accuracy=best.val_accuracy,
        test_accuracy=best.test_accuracy,
        seconds=run.seconds,
        epochs=run.epoch,
        edges_kept=int((run.edge_trust() > 0.5).sum()),
        edges_total=int(np.unique(run.seen_edges(), axis=1).shape[1]),
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
