"""The trained MLP alone: load, predict, score tables. Imports no graph code, no training code, and no torch."""

from gssc.deploy.model import DeployedModel
from gssc.deploy.row_count import row_count
from gssc.deploy.rows import read_rows, row_blocks
from gssc.deploy.table_rows import TableRows
from gssc.deploy.tables import predictions_to, write_predictions

__all__ = ["DeployedModel", "TableRows", "predictions_to", "read_rows", "row_blocks", "row_count", "write_predictions"]
