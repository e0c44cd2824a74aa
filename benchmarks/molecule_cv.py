"""Cross-validation over scaffolds of training and validation molecules; test molecules are never used.

python benchmarks/molecule_cv.py bbbp gssc "gssc pooling=mean" "gssc radius=0 + gssc radius=2" "gssc train.seed=1"

Models joined by " + " are trained separately and the mean of their logits is scored. For a model of several networks
the score of each network is printed as well. ``--properties`` replaces the targets by logP and TPSA; scores are then
root mean squared errors.

Molecules of scaffolds with at most three members, like those in the test fold of a scaffold split, are divided into
four folds by whole scaffolds. Each fold in turn is held out, the next one is for validation, and the rest, with all
molecules of larger scaffolds, is the training set.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import yaml

from gssc.molecules import load_molecules
from gssc.molecules.batches import collate
from gssc.molecules.load import properties
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.registry import molecule_model

FOLDS = 4
LARGEST_SCAFFOLD = 3


def main() -> None:
    """Print one line per model and settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("models", nargs="+", help="a model and settings of it, or several joined by ' + '")
    parser.add_argument("--held-out", type=int, default=3, help="how many of the four folds are held out in turn")
    parser.add_argument("--properties", action="store_true", help="learn logP and TPSA instead of the set's targets")
    given = parser.parse_args()
    given.digits = 2 if given.properties else 1
    torch.set_num_threads(1)
    molecules = load_molecules(given.dataset)
    known, folds = scaffold_folds(molecules)
    if given.properties:
        molecules = properties(molecules, "logp", "tpsa")
    trained: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    for text in given.models:
        started, scores = time.process_time(), []
        for number in range(given.held_out):
            test, val = folds[number], folds[(number + 1) % FOLDS]
            train = np.setdiff1d(known, np.concatenate([val, test]))
            parts = text.split(" + ")
            for part in parts:
                if (part, number) not in trained:
                    trained[part, number] = held_out(part, molecules.with_(train=train, val=val, test=test))
            found = [trained[part, number] for part in parts]
            whole = {"": np.mean([each[""] for each in found], axis=0)}
            members = found[0] if len(parts) == 1 else {}
            truth = molecules.targets[test]
            scores.append({name: score(molecules, out, truth) for name, out in {**whole, **members}.items()})
        for name in scores[0]:
            values = np.array([fold[name] for fold in scores])  # [folds, values]
            shown = " | ".join(" ".join(f"{value:.{given.digits}f}" for value in column) for column in values.T)
            mean = " ".join(f"{value:.{given.digits}f}" for value in values.mean(0))
            print(f"{text}{name}: {mean} (folds {shown}), {time.process_time() - started:.0f} CPU s", flush=True)


def score(molecules: MoleculeSet, outputs: np.ndarray, truth: np.ndarray) -> list[float]:
    """Return the ROC-AUC in percent, or the root mean squared error of each target."""
    if molecules.is_regression:
        return [float(value) for value in np.sqrt(((outputs - truth) ** 2).mean(0))]
    return [100 * molecules.task.score(outputs, truth)]


def scaffold_folds(molecules: MoleculeSet) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the training and validation molecules, and the folds of those with a rare scaffold."""
    known = np.sort(np.concatenate([molecules.train, molecules.val]))
    groups: dict[int, list[int]] = {}
    for molecule in known:
        groups.setdefault(int(molecules.scaffolds[molecule]), []).append(int(molecule))
    ordered = sorted(groups.values(), key=lambda group: group[0])
    order = np.random.default_rng(0).permutation(len(ordered))
    rare = [ordered[place] for place in order if len(ordered[place]) <= LARGEST_SCAFFOLD]
    total, done = sum(map(len, rare)), 0
    folds: list[list[int]] = [[] for _ in range(FOLDS)]
    for group in rare:
        folds[done * FOLDS // total].extend(group)
        done += len(group)
    return known, [np.sort(np.array(fold)) for fold in folds]


def held_out(text: str, molecules: MoleculeSet) -> dict[str, np.ndarray]:
    """Return the outputs for the held-out molecules at the epoch that is kept, and those of single members by name."""
    name, *changes = text.split()
    entry = molecule_model(name)
    settings = entry.settings()
    for change in changes:
        setting, _, value = change.partition("=")
        part, _, field = setting.rpartition(".")
        found: Any = yaml.safe_load(value) if value else ""
        if part == "train":
            settings.train = replace(settings.train, **{field: found})
        else:
            settings = replace(settings, **{field: found})
    training = entry.training_class()(molecules, settings)
    for _ in training.epochs():
        pass
    found = {"": training.predict(molecules.test)}
    if getattr(settings, "members", 1) > 1:
        each = training.member_logits(training.averaged.model.eval(), collate(molecules, molecules.test))
        found |= {f", member {number}": logits.detach().numpy() for number, logits in enumerate(each, 1)}
    if molecules.is_regression:
        found = {name: training.objective.outputs(logits) for name, logits in found.items()}
    return found


if __name__ == "__main__":
    main()
