"""An MLP on Morgan count fingerprints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.fingerprints import morgan_counts
from gssc.molecules.training import MoleculeTraining, Schedule
from gssc.settings import setting


@dataclass
class Settings:
    """Settings of fingerprints, network and schedule.

    Args:
        radius: radius of the Morgan fingerprints, in bonds.
        columns: number of hashed columns of the fingerprints.
        hidden: width of the two hidden layers.
        dropout: share of hidden units dropped in training.
        train: The schedule.
    """

    radius: int = setting(2, low=0, high=10)
    columns: int = setting(2048, low=1, high=2**20)
    hidden: int = setting(256, low=1, high=2**20)
    dropout: float = setting(0.5, low=0, high=0.99)
    train: Schedule = field(default_factory=lambda: Schedule(epochs=30, weight_decay=1e-4, select="validation"))


class FingerprintMLPTraining(MoleculeTraining):
    """Trains the MLP on the logarithm of counts."""

    def build(self) -> None:
        settings = self.config
        self.rows = morgan_counts(self.molecules.smiles, settings.radius, settings.columns)
        self.rows.data = np.log1p(self.rows.data)
        width = settings.hidden
        self.model = nn.Sequential(
            *(nn.Linear(settings.columns, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(settings.dropout)),
            *(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(settings.dropout)),
            nn.Linear(width, self.molecules.num_targets),
        )

    def logits(self, model: nn.Module, batch: MoleculeBatch) -> Tensor:
        return cast(Tensor, model(torch.from_numpy(self.rows[batch.index].toarray())))
