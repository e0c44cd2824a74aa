"""The trained MLP alone: load, predict, score tables. Imports no graph code, no training code, and no torch."""

from gssc.deploy.model import DeployedModel
from gssc.deploy.rows import Rows, read_rows
from gssc.deploy.tables import write_predictions

__all__ = ["DeployedModel", "Rows", "read_rows", "write_predictions"]
