"""The trained GSSC model for molecules, on its own: SMILES in, probabilities or values out, with NumPy and RDKit.

Prediction looks at atom rows; bonds are read only where the rows hold circular environments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gssc.deploy.forward import LEAKY_SLOPE
from gssc.errors import GsscError
from gssc.files import atomic_write, sha256, write_json
from gssc.molecules.atom_rows import AtomRows, RowFormat
from gssc.molecules.featurize import featurize
from gssc.molecules.molecule_set import MoleculeSet

FORMAT = "gssc-molecules-1"
Layers = list[tuple[np.ndarray, np.ndarray]]


@dataclass
class DeployedMolecules:
    """An MLP on atom rows, the mean over a molecule's atoms, and a readout.

    Args:
        atom_layers: (weight [out, in], bias) of the MLP on atoms, batch norms folded in; leaky ReLU between them.
        readout: the same of the readout on the pooled embedding; ReLU between them.
        target_names: what is predicted.
        row_format: columns of an atom row.
        use_size: whether the readout gets the logarithm of the number of atoms as its last input.
        mean, scale: of measured targets; None for binary ones.
    """

    atom_layers: Layers
    readout: Layers
    target_names: tuple[str, ...]
    row_format: RowFormat
    use_size: bool
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    def predict(self, molecules: MoleculeSet) -> np.ndarray:
        """Return probabilities, or measured values, of molecules, [M, T]."""
        rows = AtomRows(molecules, self.row_format)
        weight, bias = self.atom_layers[0]
        hidden = np.asarray(rows.matrix @ weight.T) + bias  # each different atom once
        for weight, bias in self.atom_layers[1:]:
            hidden = np.where(hidden > 0, hidden, LEAKY_SLOPE * hidden) @ weight.T + bias
        pooled = np.add.reduceat(hidden[rows.of_atom], molecules.atom_starts[:-1], axis=0)
        sizes = np.diff(molecules.atom_starts).astype(np.float32)[:, None]
        out = pooled / sizes
        if self.use_size:
            out = np.concatenate([out, np.log(sizes)], axis=1)
        for place, (weight, bias) in enumerate(self.readout):
            out = (np.maximum(out, 0) if place else out) @ weight.T + bias
        if self.mean is not None and self.scale is not None:
            return out * self.scale + self.mean
        return 1 / (1 + np.exp(-np.clip(out, -60, 60)))

    def predict_smiles(self, smiles: Sequence[str], invalid: str = "refuse") -> np.ndarray:
        """Return predictions for SMILES, [len(smiles), T]; with ``invalid="skip"``, NaN where RDKit cannot read one."""
        out = np.full((len(smiles), len(self.target_names)), np.nan, dtype=np.float32)
        try:
            found = featurize(smiles, invalid=invalid)
        except GsscError:
            if invalid == "skip":  # not one of them is a molecule
                return out
            raise
        out[found.rows - 1] = self.predict(found)
        return out

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors and model.json."""
        folder, arrays = Path(folder), {}
        for part, layers in (("atoms", self.atom_layers), ("readout", self.readout)):
            for place, (weight, bias) in enumerate(layers):
                arrays[f"{part}.{place}.weight"] = np.ascontiguousarray(weight, dtype=np.float32)
                arrays[f"{part}.{place}.bias"] = np.ascontiguousarray(bias, dtype=np.float32)
        if self.mean is not None and self.scale is not None:
            arrays |= {"mean": np.asarray(self.mean, np.float32), "scale": np.asarray(self.scale, np.float32)}
        with atomic_write(folder / "model.safetensors") as temporary:
            save_file(arrays, temporary)
        about: dict[str, Any] = {
            "format": FORMAT,
            "target_names": list(self.target_names),
            "row_format": asdict(self.row_format),
            "use_size": self.use_size,
            "layers": {"atoms": len(self.atom_layers), "readout": len(self.readout)},
            "sha256": sha256(folder / "model.safetensors"),
        }
        write_json(folder / "model.json", about)

    @classmethod
    def load(cls, folder: str | Path) -> DeployedMolecules:
        """Read back what :meth:`save` wrote."""
        folder = Path(folder)
        try:
            about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            if about.get("format") != FORMAT:
                raise GsscError(f"{folder} holds no model for molecules: give it feature rows, not SMILES")
            if sha256(folder / "model.safetensors") != about["sha256"]:
                raise GsscError(f"{folder / 'model.safetensors'} is damaged: its digest is not the one in model.json")
            arrays = load_file(folder / "model.safetensors")
            atoms, readout = (
                [(arrays[f"{part}.{place}.weight"], arrays[f"{part}.{place}.bias"]) for place in range(count)]
                for part, count in about["layers"].items()
            )
            row_format, names = RowFormat(**about["row_format"]), tuple(about["target_names"])
            return cls(atoms, readout, names, row_format, about["use_size"], arrays.get("mean"), arrays.get("scale"))
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise GsscError(f"{folder} holds no model that can be read ({error}): train it again") from None
