"""The standard baseline of cheminformatics: a random forest on Morgan count fingerprints, one per target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gssc.extras import require, sklearn_seed
from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.fingerprints import morgan_counts
from gssc.molecules.training import MoleculeStep, MoleculeTraining, Schedule
from gssc.settings import setting

CALLS = 20  # about how often a callback is called while a forest is fitted
MARGIN = 1e-3  # distance of predicted shares from 0 and 1, so that their logits are finite


@dataclass
class Settings:
    """Settings of fingerprints and forest.

    Args:
        radius: radius of the Morgan fingerprints, in bonds.
        columns: number of hashed columns of the fingerprints.
        trees: number of trees per target.
        train: The schedule, of which only seed and threads are used; an epoch is the forest of one target.
    """

    radius: int = setting(2, low=0, high=10)
    columns: int = setting(2048, low=1, high=2**20)
    trees: int = setting(200, low=1)
    train: Schedule = field(default_factory=lambda: Schedule(average=0.0))


class ForestTraining(MoleculeTraining):
    """Fits one forest per target; its state is the logits of every molecule."""

    model: ForestScores

    def build(self) -> None:
        self.model = ForestScores(*self.molecules.targets.shape)

    @cached_property
    def rows(self) -> np.ndarray:
        """The fingerprints, [M, columns]; trees split dense columns several times faster than sparse ones."""
        return morgan_counts(self.molecules.smiles, self.config.radius, self.config.columns).toarray().clip(max=255)

    @property
    def total_epochs(self) -> int:
        """One epoch per target."""
        return self.molecules.num_targets

    def steps(self) -> Iterator[Any]:
        """Yield one step per forest."""
        self.best.validation = False  # the last step has all targets
        while self.epoch < self.molecules.num_targets:
            self.model.logits[:, self.epoch] = torch.from_numpy(self._fit(self.epoch).astype(np.float32))
            yield MoleculeStep("forest")

    def _fit(self, target: int) -> np.ndarray:
        known = self.train_index[~np.isnan(self.molecules.targets[self.train_index, target])]
        truth = self.molecules.targets[known, target]
        if len(np.unique(truth)) < 2:
            return np.zeros(len(self.molecules))
        regression = self.objective.regression
        forest = fitted_forest(self.rows[known], truth, self.config.trees, self.schedule.seed, regression)
        if regression:
            return (forest.predict(self.rows) - self.objective.mean[target]) / self.objective.scale[target]
        share = np.clip(forest.predict_proba(self.rows)[:, 1], MARGIN, 1 - MARGIN)
        return np.log(share / (1 - share))

    def logits(self, model: nn.Module, batch: MoleculeBatch) -> Tensor:
        assert isinstance(model, ForestScores)
        return model.logits[torch.from_numpy(batch.index)]


def fitted_forest(
    rows: np.ndarray,
    truth: np.ndarray,
    trees: int,
    seed: int,
    regression: bool,
    out_of_bag: bool = False,
    on_trees: Callable[[int], None] | None = None,
) -> Any:
    """Return a fitted forest.

    Args:
        rows: fingerprints, [n, columns].
        truth: one class or value per row.
        trees: number of trees.
        seed: seed of the forest.
        regression: whether to predict values instead of classes.
        out_of_bag: whether to also compute predictions of its own rows by the trees fitted without them.
        on_trees: called with the number of trees fitted so far, about twenty times; does not change the forest.
    """
    ensemble = require("sklearn.ensemble", extra="molecules")
    rows = np.asfortranarray(rows)  # a split reads one column: fitting takes a third of the time of the usual order
    kind = ensemble.RandomForestRegressor if regression else ensemble.RandomForestClassifier
    forest = kind(
        max_features=1 / 3 if regression else "sqrt", random_state=sklearn_seed(seed), warm_start=on_trees is not None
    )
    step = trees if on_trees is None else max(1, trees // CALLS)
    for count in [*range(step, trees, step), trees]:
        forest.set_params(n_estimators=count, oob_score=out_of_bag and count == trees).fit(rows, truth)
        if on_trees:
            on_trees(count)
    return forest


class ForestScores(nn.Module):
    """The logits of every molecule, zero for targets without a fitted forest."""

    logits: Tensor

    def __init__(self, molecules: int, targets: int):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))  # optimisers need a parameter
        self.register_buffer("logits", torch.zeros(molecules, targets))
