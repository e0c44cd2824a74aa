"""Cross-validation over scaffolds of training and validation molecules; test molecules are never used.

python benchmarks/molecule_cv.py bbbp gssc "gssc pooling=mean" "gssc radius=0 + gssc radius=2" "gssc train.seed=1"

Models joined by " + " are trained separately and the mean of their logits is scored.

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
    given = parser.parse_args()
    torch.set_num_threads(1)
    molecules = load_molecules(given.dataset)
    known, folds = scaffold_folds(molecules)
    trained: dict[tuple[str, int], np.ndarray] = {}
    for text in given.models:
        started, scores = time.process_time(), []
        for number in range(given.held_out):
            test, val = folds[number], folds[(number + 1) % FOLDS]
            train = np.setdiff1d(known, np.concatenate([val, test]))
            for part in text.split(" + "):
                if (part, number) not in trained:
                    trained[part, number] = held_out_logits(part, molecules.with_(train=train, val=val, test=test))
            mean = np.mean([trained[part, number] for part in text.split(" + ")], axis=0)
            scores.append(100 * molecules.task.score(mean, molecules.targets[test]))
        shown = " ".join(f"{score:.1f}" for score in scores)
        seconds = time.process_time() - started
        print(f"{text}: {np.mean(scores):.1f} (folds {shown}), {seconds:.0f} CPU s", flush=True)


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


def held_out_logits(text: str, molecules: MoleculeSet) -> np.ndarray:
    """Return the logits of the held-out molecules at the epoch that is kept."""
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
    return np.asarray(training.predict(molecules.test))


if __name__ == "__main__":
    main()
