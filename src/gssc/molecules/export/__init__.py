"""A trained model for molecules as files for other programs: NumPy and RDKit alone, or ONNX; with a model card."""

from gssc.molecules.export.folder import FORMATS, export_molecules

__all__ = ["FORMATS", "export_molecules"]
