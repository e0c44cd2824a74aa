"""What a dataset is to the registry: its files, its origin, and the function that reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.splits import Split


@dataclass(frozen=True)
class File:
    """One published file: its name below the dataset's folder, its address, its SHA-256.

    Without a digest the file is used unverified, and `gssc data info` says so. An optional file is used
    where it lies in the data root or cache and is never downloaded.
    """

    name: str
    url: str | None
    sha256: str | None = None
    optional: bool = False


@dataclass
class RawGraph:
    """What a loader reads, before a split is chosen: raw features, edges and labels, and the splits on file."""

    features: Any
    edges: np.ndarray
    labels: np.ndarray
    splits: dict[str, Split] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None
    node_ids: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None
    variant: str = ""  # set when this is not quite the published dataset; becomes part of the graph's name


Loader = Callable[..., Any]


@dataclass(frozen=True)
class Dataset:
    """One line of the registry.

    `load(files, seed, **options)` gets the verified path of each file by name. `alternatives` are other sets of
    files the loader can read, used where one lies at hand whole; only `files` are ever downloaded. `sizes` are
    nodes, edges, features and classes (or tasks), where they are fixed. `level` is "node" (one graph, `load` returns a
    RawGraph) or "graph" (many molecules, `load` returns a SmilesTable; nodes and edges are atoms and bonds).
    """

    name: str
    description: str
    load: Loader
    default_split: str
    splits: tuple[str, ...]
    files: tuple[File, ...] = ()
    alternatives: tuple[tuple[File, ...], ...] = ()
    address: str = "made on this machine"
    licence: str = "-"
    citation: str = "-"
    sizes: tuple[int, int, int, int] | None = None
    options: tuple[str, ...] = ()
    level: str = "node"


FilePaths = dict[str, Path]
SEEDED_SPLITS = ("per-class:<n>", "ratio:<a>/<b>/<c>")
