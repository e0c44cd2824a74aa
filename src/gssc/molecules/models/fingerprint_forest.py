"""The chemist's baseline: a random forest on Morgan count fingerprints, one per target."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gssc.errors import GsscError
from gssc.extras import require
from gssc.molecules.fingerprints import morgan_counts
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.objective import GraphObjective, average_precision
from gssc.molecules.training import MoleculeEpoch, MoleculeOutcome

MARGIN = 1e-4


@dataclass
class Settings:
    """Fingerprints and forest.

    Args:
        radius, columns: of the fingerprints.
        trees: per target.
        seed: of the forest.
    """

    radius: int = 2
    columns: int = 2048
    trees: int = 300
    seed: int = 0


class ForestTraining:
    """Fits one forest per target; each is one epoch, so that a stop between two loses one target at most."""

    def __init__(self, molecules: MoleculeSet, settings: Settings):
        if not len(molecules.train):
            raise GsscError(f"{molecules.name} has no training molecules: choose another split")
        self.molecules, self.settings = molecules, settings
        self.objective = GraphObjective(molecules)
        self.scores = np.full(molecules.targets.shape, np.nan, dtype=np.float32)
        self.epoch, self.seconds, self.predict_seconds = 0, 0.0, 0.0
        self.best: MoleculeEpoch | None = None

    def epochs(self) -> Iterator[MoleculeEpoch]:
        """Fit the forests that are still missing."""
        started = time.perf_counter()
        rows = morgan_counts(self.molecules.smiles, self.settings.radius, self.settings.columns)
        reading = time.perf_counter() - started
        while self.epoch < self.molecules.num_targets:
            started = time.perf_counter()
            self.scores[:, self.epoch] = self._fit_target(rows, self.epoch)
            self.seconds += time.perf_counter() - started + reading
            self.predict_seconds += reading
            reading = 0.0
            parts = [self._score(index) for index in (self.molecules.val, self.molecules.test)]
            self.best = MoleculeEpoch(self.epoch, "forest", 0.0, *parts, seconds=self.seconds, best=True)
            self.epoch += 1
            yield self.best

    def _fit_target(self, rows: Any, target: int) -> np.ndarray:
        ensemble = require("sklearn.ensemble", extra="molecules")
        truth = self.molecules.targets[self.molecules.train, target]
        train = self.molecules.train[~np.isnan(truth)]
        truth = self.molecules.targets[train, target]
        shared = {"n_estimators": self.settings.trees, "random_state": self.settings.seed}
        if self.objective.regression:
            model = ensemble.RandomForestRegressor(max_features=1 / 3, **shared).fit(rows[train], truth)
            values = model.predict(rows)
            return (values - self.objective.mean[target]) / self.objective.scale[target]
        if len(np.unique(truth)) < 2:
            return np.zeros(len(self.molecules))
        model = ensemble.RandomForestClassifier(max_features="sqrt", **shared).fit(rows[train], truth)
        started = time.perf_counter()
        share = np.clip(model.predict_proba(rows)[:, 1], MARGIN, 1 - MARGIN)
        self.predict_seconds += time.perf_counter() - started
        return np.log(share / (1 - share))

    def _score(self, index: np.ndarray) -> float:
        done = slice(0, self.epoch + 1)
        if not len(index) or (self.objective.regression and self.epoch + 1 < self.molecules.num_targets):
            return math.nan
        return self.objective.score(self.scores[index, done], self.molecules.targets[index, done])

    def outcome(self) -> MoleculeOutcome:
        """Return how it went, after the end of :meth:`epochs`."""
        if self.best is None:
            raise GsscError("nothing was trained: call epochs first")
        precision = (math.nan, math.nan)
        if not self.objective.regression:
            targets, parts = self.molecules.targets, (self.molecules.val, self.molecules.test)
            precision = tuple(average_precision(self.scores[index], targets[index]) for index in parts)  # type: ignore[assignment]
        return MoleculeOutcome(self.best, self.scores, self.seconds, self.epoch, *precision, self.predict_seconds)

    def state_dict(self) -> dict[str, Any]:
        """Return the scores of the targets done so far."""
        import torch

        return {
            "scores": {"logits": torch.from_numpy(self.scores.copy())},
            "notes": {
                "epoch": self.epoch,
                "seconds": self.seconds,
                "predict_seconds": self.predict_seconds,
                "best": asdict(self.best) if self.best else None,
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`state_dict`."""
        notes = state["notes"]
        self.scores = state["scores"]["logits"].numpy().copy()
        self.epoch, self.seconds, self.predict_seconds = notes["epoch"], notes["seconds"], notes["predict_seconds"]
        self.best = MoleculeEpoch(**notes["best"]) if notes["best"] else None
