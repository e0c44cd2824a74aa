"""The deployed GSSC model for molecules: predicts probabilities or values from SMILES, with NumPy and RDKit only.

Prediction uses atom rows; bonds are used only if the rows contain circular environments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from gssc.deploy.forward import LEAKY_SLOPE
from gssc.errors import GsscError
from gssc.files import atomic_write, sha256, write_json
from gssc.molecules.atom_rows import AtomRows, RowFormat
from gssc.molecules.featurize import featurize
from gssc.molecules.molecule_set import MoleculeSet

FORMAT = "gssc-molecules-2"
PARTS = ("atoms", "readout")
Layers = list[tuple[np.ndarray, np.ndarray]]


@dataclass
class DeployedMolecules:
    """One or more networks whose logits are averaged: an MLP on atom rows, a mean over a molecule's atoms, a readout.

    Args:
        members: the layers of each network's MLP on atoms and of its readout, as (weight [out, in], bias) with batch
            norms folded in; leaky ReLU between the former, ReLU between the latter.
        target_names: names of the targets.
        row_format: columns of an atom row.
        use_size: whether the readout gets the logarithm of the number of atoms as its last input.
        use_sum: whether the readout gets the sum over atoms after the mean.
        mean, scale: mean and standard deviation of measured targets; None for binary ones.
    """

    members: list[tuple[Layers, Layers]]
    target_names: tuple[str, ...]
    row_format: RowFormat
    use_size: bool
    use_sum: bool = False
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    def predict(self, molecules: MoleculeSet) -> np.ndarray:
        """Return probabilities, or measured values, of molecules, [M, T]."""
        rows = AtomRows(molecules, self.row_format)
        out = np.mean([self._logits(rows, molecules.atom_starts, *member) for member in self.members], axis=0)
        if self.mean is not None and self.scale is not None:
            return np.asarray(out * self.scale + self.mean)
        return np.asarray(1 / (1 + np.exp(-np.clip(out, -60, 60))))

    def _logits(self, rows: AtomRows, atom_starts: np.ndarray, atom_layers: Layers, readout: Layers) -> np.ndarray:
        """Return the logits of one network for molecules, [M, T]."""
        weight, bias = atom_layers[0]
        hidden = np.asarray(rows.matrix @ weight.T) + bias  # each different atom row once
        for weight, bias in atom_layers[1:]:
            hidden = np.where(hidden > 0, hidden, LEAKY_SLOPE * hidden) @ weight.T + bias
        total = np.add.reduceat(hidden[rows.of_atom], atom_starts[:-1], axis=0)
        sizes = np.diff(atom_starts).astype(np.float32)[:, None]
        parts = [total / sizes, *([total] if self.use_sum else []), *([np.log(sizes)] if self.use_size else [])]
        out = np.concatenate(parts, axis=1)
        for place, (weight, bias) in enumerate(readout):
            out = (np.maximum(out, 0) if place else out) @ weight.T + bias
        return out

    def predict_smiles(self, smiles: Sequence[str], invalid: str = "refuse") -> np.ndarray:
        """Return predictions for SMILES, [len(smiles), T]; with ``invalid="skip"``, NaN where RDKit cannot read one."""
        out = np.full((len(smiles), len(self.target_names)), np.nan, dtype=np.float32)
        try:
            found = featurize(smiles, invalid=invalid, scaffolds=False)
        except GsscError:
            if invalid == "skip":  # none of them is a molecule
                return out
            raise
        out[found.rows - 1] = self.predict(found)
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the weights by name, such as ``0.atoms.1.weight`` (member, part, layer); ``mean`` and ``scale``."""
        found = {}
        for number, member in enumerate(self.members):
            for part, layers in zip(PARTS, member, strict=True):
                for place, (weight, bias) in enumerate(layers):
                    found[f"{number}.{part}.{place}.weight"] = np.ascontiguousarray(weight, dtype=np.float32)
                    found[f"{number}.{part}.{place}.bias"] = np.ascontiguousarray(bias, dtype=np.float32)
        if self.mean is not None and self.scale is not None:
            found |= {"mean": np.asarray(self.mean, np.float32), "scale": np.asarray(self.scale, np.float32)}
        return found

    def description(self) -> dict[str, Any]:
        """Return everything except the weights, for JSON."""
        return {
            "format": FORMAT,
            "target_names": list(self.target_names),
            "row_format": asdict(self.row_format),
            "use_size": self.use_size,
            "use_sum": self.use_sum,
            "members": len(self.members),
            "layers": [len(layers) for layers in self.members[0]],
        }

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors and model.json."""
        folder = Path(folder)
        with atomic_write(folder / "model.safetensors") as temporary:
            temporary.write_bytes(save(self.arrays()))  # save_file makes files that other users cannot read
        write_json(folder / "model.json", {**self.description(), "sha256": sha256(folder / "model.safetensors")})

    @classmethod
    def load(cls, folder: str | Path) -> DeployedMolecules:
        """Return the model written by :meth:`save`."""
        folder = Path(folder)
        if folder.is_dir() and not (folder / "model.json").exists():
            raise GsscError(f"{folder} has no model.json: the run is not finished, or its model is not GSSC")
        try:
            about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            if about.get("format") != FORMAT:
                raise GsscError(f"{folder} does not hold a model for molecules: give it feature rows, not SMILES")
            if sha256(folder / "model.safetensors") != about["sha256"]:
                raise GsscError(f"{folder / 'model.safetensors'} is damaged: its digest is not the one in model.json")
            arrays = load_file(folder / "model.safetensors")

            def layers(start: str, count: int) -> Layers:
                names = [f"{start}.{place}" for place in range(count)]
                return [(arrays[f"{name}.weight"], arrays[f"{name}.bias"]) for name in names]

            depth, readout_depth = about["layers"]
            return cls(
                [
                    (layers(f"{number}.atoms", depth), layers(f"{number}.readout", readout_depth))
                    for number in range(about["members"])
                ],
                tuple(about["target_names"]),
                RowFormat(**about["row_format"]),
                about["use_size"],
                about["use_sum"],
                arrays.get("mean"),
                arrays.get("scale"),
            )
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise GsscError(f"{folder} does not hold a readable model ({error}): train it again") from None
