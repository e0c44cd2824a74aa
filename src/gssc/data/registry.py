"""Registry of the datasets that `load_dataset` can load.

A new family is one file that defines `ENTRIES` and one line in `_FAMILIES`; a new member of a family is one
`Dataset` in that file.
"""

from __future__ import annotations

from gssc.data import coauthor, deezer, heterophilous, molecule_tables, ogb, planetoid, synthetic
from gssc.data.entry import Dataset, File, RawGraph

__all__ = ["DATASETS", "Dataset", "File", "RawGraph"]

_FAMILIES = (planetoid, coauthor, heterophilous, deezer, ogb, synthetic, molecule_tables)

DATASETS: dict[str, Dataset] = {entry.name: entry for family in _FAMILIES for entry in family.ENTRIES}
