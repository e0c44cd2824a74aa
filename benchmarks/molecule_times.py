"""CPU time to train and to predict, per model: the table of times in results/molecules.md.

python benchmarks/molecule_times.py bbbp

CPU seconds of this process on one thread hardly depend on other load on the machine, unlike wall-clock seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from gssc.molecules import load_molecules
from gssc.molecules.deployed import DeployedMolecules
from gssc.molecules.fingerprints import morgan_counts
from gssc.molecules.models.fingerprint_forest import fitted_forest
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.registry import molecule_model

MODELS = ("gssc", "gssc_atoms", "gssc_environments", "gcn", "gin", "fingerprint_mlp")


def main() -> None:
    """Print one row per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="bbbp")
    torch.set_num_threads(1)
    molecules = load_molecules(parser.parse_args().dataset)
    print("| model | CPU s per epoch | CPU ms per 1,000 molecules | deployed model, ms per 1,000 |")
    print("|---|---:|---:|---:|")
    for model in MODELS:
        print("| " + " | ".join([model, *measured(model, molecules)]) + " |", flush=True)
    print("| " + " | ".join(["fingerprint_forest", *forest(molecules)]) + " |")
    chosen = molecules.smiles[:500]
    fingerprints = cpu(lambda: morgan_counts(chosen))
    print(f"\nReading SMILES to fingerprints: {2e3 * fingerprints:.0f} CPU ms per 1,000 molecules.")


def measured(model: str, molecules: MoleculeSet) -> list[str]:
    """Return CPU seconds of an epoch and CPU milliseconds per 1,000 molecules, all from arrays in memory."""
    entry = molecule_model(model)
    training = entry.training_class()(molecules, entry.settings())
    training.one_pass()  # one-time setup is not counted
    epoch = cpu(training.one_pass)
    everything = np.arange(len(molecules))
    predict = min(cpu(lambda: training.predict(everything)) for _ in range(2))
    cells = [f"{epoch:.2f}", f"{1e6 * predict / len(molecules):.1f}"]
    if not hasattr(training, "deployed_molecules"):
        return [*cells, "-"]
    deployed: DeployedMolecules = training.deployed_molecules()
    return [*cells, f"{1e6 * min(cpu(lambda: deployed.predict(molecules)) for _ in range(2)) / len(molecules):.1f}"]


def forest(molecules: MoleculeSet) -> list[str]:
    """Return the same for a forest of the first target: its fit instead of an epoch, without computing fingerprints."""
    rows = morgan_counts(molecules.smiles).toarray().clip(max=255)
    known = molecules.train[~np.isnan(molecules.targets[molecules.train, 0])]
    started = time.process_time()
    fitted = fitted_forest(rows[known], molecules.targets[known, 0], 200, 0, molecules.is_regression)
    fit = time.process_time() - started
    return [f"{fit:.2f} (one fit)", f"{1e6 * cpu(lambda: fitted.predict(rows)) / len(molecules):.1f}", "-"]


def cpu(action: object) -> float:
    """Return the CPU seconds that a call takes."""
    started = time.process_time()
    action()  # type: ignore[operator]
    return time.process_time() - started


if __name__ == "__main__":
    main()
