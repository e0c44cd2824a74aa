"""Audit: ranks the edges and training labels of a graph by doubt, with a model that was trained on it."""

from gssc.extras import require

require("torch", extra="train")

from gssc.audit.audit import audit_run  # noqa: E402
from gssc.audit.findings import DuplicateGroup, Findings, Ranking  # noqa: E402
from gssc.audit.page import write_page  # noqa: E402
from gssc.audit.table import write_review, write_table  # noqa: E402

__all__ = ["DuplicateGroup", "Findings", "Ranking", "audit_run", "write_page", "write_review", "write_table"]
