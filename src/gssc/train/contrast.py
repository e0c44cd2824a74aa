"""STR-Contrast as one of the models of a comparison: the recipe of the data set, under any sparsifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gssc.config import Config, Settings, parse_config
from gssc.graph import Graph
from gssc.recipes import recipe_settings
from gssc.train.bilevel import fit
from gssc.train.outcome import Outcome
from gssc.train.selection import Epoch


def fit_model(
    name: str,
    graph: Graph,
    typed: Settings | None = None,
    seed: int = 0,
    recipe: Config | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    max_epochs: int = 0,
) -> Outcome:
    """Train GSSC by the data set's recipe or by ``recipe``.

    ``typed`` are settings of the sparsifier that take the place of the recipe's; no sparsifier if left out.
    """
    config = recipe or config_for(graph.name, graph.split, {"name": "none"} if typed is None else typed, seed)
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


def config_for(dataset: str, split: str, typed: Settings, seed: int) -> Config:
    """The recipe of the data set, with the sparsifier settings that were typed in place of its own."""
    return parse_config(recipe_settings(dataset, split), {"sparsifier": typed, "train": {"seed": seed}})


def settings_of(name: str, dataset: str, split: str, typed: Settings, seed: int) -> dict[str, Any]:
    """Everything but data and code that determines the result, as plain values."""
    settings = config_for(dataset, split, typed, seed).to_dict()
    del settings["data"]
    return settings
