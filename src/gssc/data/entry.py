"""Registry entries of datasets: files, origin, and the function that reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.splits import Split


@dataclass(frozen=True)
class File:
    """One published file: its name below the dataset's folder, its URL, its SHA-256.

    Without a digest the file is used unverified, and `gssc data info` reports that. An optional file is used
    if it is in the data root or cache, and is never downloaded.
    """

    name: str
    url: str | None
    sha256: str | None = None
    optional: bool = False


@dataclass
class RawGraph:
    """Output of a loader, before a split is chosen: raw features, edges and labels, and the published splits."""

    features: Any
    edges: np.ndarray
    labels: np.ndarray
    splits: dict[str, Split] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None
    node_ids: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None
    variant: str = ""  # set if this differs from the published dataset; becomes part of the graph's name


Loader = Callable[..., Any]


@dataclass(frozen=True)
class Dataset:
    """One dataset of the registry.

    `load(files, seed, **options)` gets the verified path of each file by name. `alternatives` are other sets of
    files the loader can read, used if one is complete on disk; only `files` are ever downloaded. `sizes` are
    nodes, edges, features and classes (or tasks), if they are fixed. `level` is "node" (one graph, `load` returns a
    RawGraph) or "graph" (many molecules, `load` returns a SmilesTable; nodes and edges are atoms and bonds).
    """

    name: str
    description: str
    load: Loader
    default_split: str
    splits: tuple[str, ...]
    files: tuple[File, ...] = ()
    alternatives: tuple[tuple[File, ...], ...] = ()
    address: str = "generated on this machine"
    licence: str = "-"
    citation: str = "-"
    sizes: tuple[int, int, int, int] | None = None
    options: tuple[str, ...] = ()
    level: str = "node"


FilePaths = dict[str, Path]
SEEDED_SPLITS = ("per-class:<n>", "ratio:<a>/<b>/<c>")
