"""Regression: logP and TPSA of BBBP's molecules, computed by RDKit, from a scaffold split.

python benchmarks/molecule_regression.py gssc gssc_mean gssc_environments gcn gin

Prints the root mean squared error on test molecules per property, and that of the training mean.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from gssc.molecules import load_molecules
from gssc.molecules.load import properties
from gssc.molecules.registry import molecule_model


def main() -> None:
    """Print one row per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    given = parser.parse_args()
    torch.set_num_threads(1)
    molecules = properties(load_molecules("bbbp"), "logp", "tpsa")
    test, truth = molecules.test, molecules.targets[molecules.test]
    print("| model | logP | TPSA | CPU s |\n|---|---:|---:|---:|")
    print(row("training mean", molecules.targets[molecules.train].mean(0) - truth, 0.0))
    for model in given.models:
        started = time.process_time()
        entry = molecule_model(model)
        training = entry.training_class()(molecules, entry.settings())
        for _ in training.epochs():
            pass
        found = training.objective.outputs(training.predict(test))
        print(row(model, found - truth, time.process_time() - started), flush=True)


def row(model: str, errors: np.ndarray, seconds: float) -> str:
    """Return a line of the table."""
    logp, tpsa = np.sqrt((errors**2).mean(0))
    return f"| {model} | {logp:.2f} | {tpsa:.1f} | {seconds:.0f} |"


if __name__ == "__main__":
    main()
