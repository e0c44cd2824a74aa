"""Write an export folder of a model for molecules: to a temporary folder, compared with the model, then renamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gssc.deploy.export.card import CARD
from gssc.deploy.export.folder import TOLERANCE, Export, check_free, export_folder, temporary_folder
from gssc.errors import GsscError
from gssc.molecules.deployed import DeployedMolecules
from gssc.molecules.export.card import molecule_card
from gssc.names import nearest

FORMATS = ("numpy", "onnx", "card")
COMPARED = (
    "C",
    "CCO",
    "c1ccccc1",
    "[Na+].CC([O-])=O",
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)O",
    "Clc1ccc(cc1)S(=O)=O",
)


def export_molecules(run: str | Path, format: str, out: str | Path | None = None, overwrite: bool = False) -> Export:
    """Export the model of a finished run on molecules for use by other programs, with a model card.

    Args:
        run: the run folder.
        format: ``numpy`` (with RDKit), ``onnx`` or ``card``.
        out: folder to write; by default ``export-FORMAT`` within the run.
        overwrite: whether to replace an earlier export there.
    """
    if format not in FORMATS:
        raise GsscError(f"models of molecules have no export format {format!r}: {nearest(format, FORMATS)}")
    run = Path(run)
    out = export_folder(run, format) if out is None else Path(out)
    model = DeployedMolecules.load(run)
    check_free(out, overwrite)
    with temporary_folder(out) as temporary:
        use = write(model, format, temporary)
        (temporary / CARD).write_text(molecule_card(run, model, use), encoding="utf-8")
    return Export(out, sorted(out.iterdir()))


def write(model: DeployedMolecules, format: str, folder: Path) -> str:
    """Write one format, compare its predictions with the model's, and return instructions for its use."""
    from gssc.molecules.export import numpy_format, onnx_format

    if format == "card":
        return ""
    if format == "numpy":
        numpy_format.write(model, folder)
        use, found = numpy_format.USE, numpy_format.outputs(folder, COMPARED)
    else:
        onnx_format.write(model, folder)
        use, found = onnx_format.USE, onnx_format.outputs(folder, COMPARED, model)
    expected = model.predict_smiles(COMPARED)
    difference = float(np.abs(found - expected).max())
    tolerance = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    if not difference <= tolerance:
        raise RuntimeError(f"the export differs from the model by {difference:.1e}, more than {tolerance:.0e}")
    compared = f"Predictions for {len(COMPARED)} molecules differ from the trained model's by at most {difference:.1g}"
    return f"{use}\n{compared} (tolerance {tolerance:.1g})."
