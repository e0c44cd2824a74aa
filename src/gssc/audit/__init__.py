"""Audit: ranks the edges and training labels of a graph by doubt, with a model that was trained on it."""

from gssc.audit.audit import audit_run
from gssc.audit.findings import DuplicateGroup, Findings, Ranking
from gssc.audit.page import write_page
from gssc.audit.table import write_review, write_table

__all__ = ["DuplicateGroup", "Findings", "Ranking", "audit_run", "write_page", "write_review", "write_table"]
