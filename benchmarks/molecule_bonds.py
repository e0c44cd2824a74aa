"""Which bonds STR-Sparse keeps on BBBP: the mean keep probability by elements and bond type.

python benchmarks/molecule_bonds.py
"""

from __future__ import annotations

import numpy as np
import torch

from gssc.molecules import load_molecules
from gssc.molecules.fields import BOND_TYPE
from gssc.molecules.registry import molecule_model

FEWEST = 300
ELEMENTS = {6: "C", 7: "N", 8: "O", 9: "F", 16: "S", 17: "Cl"}


def main() -> None:
    """Train with the default settings and print one row per kind of bond with more than 300 of them."""
    torch.set_num_threads(1)
    molecules = load_molecules("bbbp")
    entry = molecule_model("gssc_atoms")
    training = entry.training_class()(molecules, entry.settings())
    epochs = list(training.epochs())
    alternating = [record for record in epochs if record.phase == "alternate"] or epochs
    bonds, keep = training.edge_trust()
    first, second = np.sort(molecules.atoms[bonds, 0].astype(int) + 1, axis=0)  # code 0 is hydrogen
    kinds = (first * 1000 + second) * 10 + molecules.bond_fields[:, 0]
    print(
        f"{len(epochs)} epochs; mean keep probability {keep.mean():.2f}; share of sampled bonds within a cluster from "
        f"{alternating[0].pseudo_homophily:.2f} to {alternating[-1].pseudo_homophily:.2f}\n"
    )
    print("| bond | number | mean keep probability | below one half |\n|---|---:|---:|---:|")
    found = [kind for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True) if count > FEWEST]
    for kind in sorted(found, key=lambda kind: keep[kinds == kind].mean()):
        chosen = keep[kinds == kind]
        ends = [ELEMENTS.get(number, str(number)) for number in divmod(int(kind) // 10, 1000)]
        name = f"{ends[0]}-{ends[1]} {BOND_TYPE[int(kind) % 10].lower()}"
        print(f"| {name} | {len(chosen):,} | {chosen.mean():.2f} | {(chosen < 0.5).mean():.0%} |")


if __name__ == "__main__":
    main()
