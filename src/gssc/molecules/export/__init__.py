"""Export of a trained model for molecules: a folder for NumPy and RDKit, or ONNX, with a model card."""

from gssc.molecules.export.folder import FORMATS, export_molecules

__all__ = ["FORMATS", "export_molecules"]
