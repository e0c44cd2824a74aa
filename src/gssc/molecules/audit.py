"""Find doubtful labels of training molecules: those that disagree with the trees of a forest fitted without them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from gssc.deploy.tables import safe_cell
from gssc.errors import GsscError
from gssc.files import atomic_write, check_output
from gssc.molecules.fingerprints import morgan_counts
from gssc.molecules.models.fingerprint_forest import fitted_forest
from gssc.molecules.molecule_set import MoleculeSet


@dataclass(frozen=True)
class DoubtfulLabel:
    """A label of a training molecule, and the prediction of the trees fitted without it."""

    row: int
    smiles: str
    target: str
    label: float
    suggested: float  # probability of a positive, or a value
    doubt: float  # |label - suggested|, in standard deviations of the target for measured ones


def doubtful_labels(
    molecules: MoleculeSet,
    trees: int = 200,
    seed: int = 0,
    on_target: Callable[[float], None] = lambda done: None,
) -> list[DoubtfulLabel]:
    """Return every known label of the training molecules, the most doubtful first.

    A forest on Morgan counts is fitted per target; each label is compared with the out-of-bag prediction, that of the
    trees fitted without it, about a third of them. Probabilities are rescaled as if both classes were equally common,
    so that a label is not doubtful just because its class is rare.

    Args:
        molecules: the data.
        trees: trees of each forest.
        seed: seed of the forests.
        on_target: called with the number of targets that are done, including the share of the current one; first
            with 0, once fingerprints are computed.
    """
    found: list[DoubtfulLabel] = []
    rows = morgan_counts(molecules.smiles[molecules.train]).toarray().clip(max=255)
    on_target(0)
    for target, name in enumerate(molecules.target_names):
        values = molecules.targets[molecules.train, target]
        known = ~np.isnan(values)
        truth = values[known]
        if len(np.unique(truth)) < 2:
            continue

        def grown(count: int, before: int = target) -> None:
            on_target(before + count / trees)

        forest = fitted_forest(rows[known], truth, trees, seed, molecules.is_regression, True, grown)
        if molecules.is_regression:
            suggested, scale = forest.oob_prediction_, float(truth.std())
        else:
            suggested, scale = balanced(forest.oob_decision_function_[:, 1], float(truth.mean())), 1.0
        for molecule, label, other in zip(molecules.train[known], truth, suggested, strict=True):
            row = int(molecules.rows[molecule]) if len(molecules.rows) else int(molecule) + 1
            doubt = abs(float(label) - float(other)) / scale
            found.append(DoubtfulLabel(row, str(molecules.smiles[molecule]), name, float(label), float(other), doubt))
    if not found:
        raise GsscError(f"{molecules.name} has no target with two different labels: there is nothing to compare")
    return sorted(found, key=lambda label: -label.doubt)


def balanced(probability: np.ndarray, share: float) -> np.ndarray:
    """Return probabilities rescaled as if both classes were equally common, given the share of positives.

    >>> balanced(np.array([0.1, 0.5]), 0.1).tolist()
    [0.5, 0.9]
    """
    positive, negative = probability / share, (1 - probability) / (1 - share)
    return np.asarray(positive / (positive + negative))


def write_doubts(path: str | Path, labels: list[DoubtfulLabel], overwrite: bool = False) -> None:
    """Write the labels as CSV, most doubtful first."""
    path = check_output(path, (".csv",), overwrite)
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "smiles", "target", "label", "suggested", "doubt"])
        writer.writerows(map(safe_cell, astuple(label)) for label in labels)
