"""A trained model as files for other programs: ONNX, NumPy alone, or torch; a model card goes with each."""

from gssc.deploy.export.folder import FORMATS, Export, export_run

__all__ = ["FORMATS", "Export", "export_run"]
