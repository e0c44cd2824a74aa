"""GSSC with a teacher: the MLP on atoms also learns from the predictions of a forest on fingerprints.

The teacher is fitted to the labels of training molecules only, and its predictions for them are out-of-bag. The student
also learns from its predictions for validation molecules (without their labels) and for molecules of other sets, none
of which is in the test fold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gssc.molecules.fingerprints import morgan_counts
from gssc.molecules.models.fingerprint_forest import fitted_forest
from gssc.molecules.models.gssc import GSSCTraining
from gssc.molecules.models.gssc import Settings as GSSCSettings
from gssc.molecules.molecule_set import MoleculeSet, concatenate
from gssc.molecules.objective import GraphObjective
from gssc.molecules.pretrain.pool import pretraining_pool
from gssc.settings import setting
from gssc.train.training import Outcome


@dataclass
class Settings(GSSCSettings):
    """Settings of GSSC and of its teacher.

    Args:
        teacher_weight: share of the teacher's prediction in the targets of labelled molecules; 0 to 1.
        trees: trees of the forest per target; enough that each molecule is left out by some of them.
        fingerprint_columns: columns of its Morgan counts (radius 2).
        pool: sets whose molecules the teacher labels, separated by commas; empty for none.
        pool_size: maximum number of such molecules.
    """

    teacher_weight: float = setting(0.5, low=0, high=1)
    trees: int = setting(200, low=1)
    fingerprint_columns: int = setting(2048, low=1, high=2**20)
    pool: str = "bbbp,tox21,muv,hiv"
    pool_size: int = setting(2000, low=0)


class TaughtGSSCTraining(GSSCTraining):
    """Trains GSSC on labels mixed with the predictions of a forest."""

    def __init__(self, molecules: MoleculeSet, config: Settings):
        self.own = molecules
        extra = pretraining_pool(molecules, config.pool, config.pool_size) if config.pool else None
        extended = molecules if extra is None else with_unlabelled(molecules, extra)
        predicted = teacher_predictions(extended, molecules, config)
        super().__init__(extended, config)
        self.train_index = np.setdiff1d(np.arange(len(extended)), molecules.test)
        labelled = torch.zeros(len(extended), 1, dtype=torch.bool)
        labelled[torch.from_numpy(molecules.train)] = True  # labels of validation molecules are not used in training
        weight = config.teacher_weight
        mixed = (1 - weight) * self.wanted + weight * predicted
        self.wanted = torch.where(labelled & ~self.wanted.isnan(), mixed, predicted)

    def outcome(self) -> Outcome:
        """Return the result on the set's own molecules and bonds."""
        found, count = super().outcome(), len(self.own)
        _, trust = self.edge_trust()
        return replace(found, scores=found.scores[:count], edges_kept=int((trust > 0.5).sum()), edges_total=len(trust))

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bonds of the set's own molecules [2, E] and the keep probability of each."""
        bonds, trust = super().edge_trust()
        count = self.own.bonds.shape[1]
        return bonds[:, :count], trust[:count]


def with_unlabelled(molecules: MoleculeSet, extra: MoleculeSet) -> MoleculeSet:
    """Return the set with other molecules appended, without targets and in no part of the split."""
    unknown = np.full((len(extra), molecules.num_targets), np.nan, dtype=np.float32)
    return concatenate([molecules, extra], molecules.name).with_(
        targets=np.concatenate([molecules.targets, unknown]),
        target_names=molecules.target_names,
        train=molecules.train,
        val=molecules.val,
        test=molecules.test,
        split=molecules.split,
    )


def teacher_predictions(extended: MoleculeSet, molecules: MoleculeSet, config: Settings) -> Tensor:
    """Return the forest's probabilities, or standardised values, of every molecule and target, [M, T].

    Test molecules get NaN: nothing is learned from them. If a target has one class, that class is predicted.
    """
    objective = GraphObjective(molecules)
    asked = np.setdiff1d(np.arange(len(extended)), molecules.test)
    rows = morgan_counts(extended.smiles[asked], columns=config.fingerprint_columns).toarray().clip(max=255)
    place = np.full(len(extended), -1)
    place[asked] = np.arange(len(asked))
    predicted = np.full(extended.targets.shape, np.nan, dtype=np.float32)
    for target in range(molecules.num_targets):
        known = molecules.train[~np.isnan(molecules.targets[molecules.train, target])]
        truth = molecules.targets[known, target]
        if len(np.unique(truth)) < 2:
            predicted[asked, target] = truth[0] if len(truth) else np.nan
            continue
        forest = fitted_forest(rows[place[known]], truth, config.trees, config.train.seed, objective.regression, True)
        if objective.regression:
            given, own = forest.predict(rows), forest.oob_prediction_
            given, own = ((each - objective.mean[target]) / objective.scale[target] for each in (given, own))
        else:
            given, own = forest.predict_proba(rows)[:, 1], forest.oob_decision_function_[:, 1]
        predicted[asked, target] = given
        predicted[known, target] = own
    return torch.from_numpy(predicted)
