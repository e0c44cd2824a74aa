"""Datasets by name: the registry, and `load_dataset`, which returns one as a checked Graph.

A new family is one file that defines `ENTRIES` and one line in `_FAMILIES`; a new member of a family is one
`Dataset` in that file.
"""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

from gssc.data import coauthor, deezer, heterophilous, molecule_tables, ogb, planetoid, synthetic
from gssc.data.entry import SEEDED_SPLITS, Dataset, RawGraph
from gssc.data.fetch import fetch
from gssc.data.splits import Split, make_split
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.names import nearest

_FAMILIES = (planetoid, coauthor, heterophilous, deezer, ogb, synthetic, molecule_tables)

DATASETS: dict[str, Dataset] = {entry.name: entry for family in _FAMILIES for entry in family.ENTRIES}


def find_dataset(name: str) -> Dataset:
    """Return the dataset registered under `name`. Raises GsscError with the closest match if there is none."""
    if name in DATASETS:
        return DATASETS[name]
    path = Path(str(name))
    if (path / "config.yaml").is_file():
        raise GsscError(
            f"{path} is a run, not a dataset: continue it with gssc train --out {quote(str(path))} --resume"
        )
    if path.suffix == ".npz":
        raise GsscError(f"{path} is a graph of your own, not a dataset: give it with --graph, or load it by Graph.load")
    raise GsscError(f"unknown dataset {name!r}: {nearest(str(name).lower().replace('_', '-'), DATASETS)}")


def load_dataset(
    name: str,
    *,
    split: str | None = None,
    seed: int = 0,
    setting: str = "transductive",
    data_root: str | PathLike[str] | None = None,
    **options: Any,
) -> Graph:
    """Return a dataset by name as a Graph.

    Files are searched in `data_root` (default: the environment variable GSSC_DATA_ROOT), then in the cache
    (~/.cache/gssc or GSSC_CACHE), and downloaded if missing; their SHA-256 is checked every time.

    Args:
        name: a key of `DATASETS`.
        split: "public", "authors", "fixed-<k>" (k-th published split, from 0), "per-class:<n>" or
            "ratio:<a>/<b>/<c>"; each dataset offers some of these and has a default.
        seed: seed of the seeded splits, and of the generators `digits` and `csbm`.
        setting: "transductive", "inductive" or "cold-start".
        options: passed to the dataset's loader, such as csbm's `nodes` or ogbn-arxiv's `features`.
    """
    dataset = find_dataset(name)
    if dataset.level != "node":
        raise GsscError(f"{name} is a set of molecules, not one graph: use gssc.molecules.load_molecules({name!r})")
    for option in options:
        if option not in dataset.options:
            raise GsscError(f"{dataset.name} has no option {option!r}: {nearest(option, dataset.options)}")
    raw = dataset.load(fetch(dataset, data_root), seed=seed, **options)
    (train, val, test), split_name = choose_split(dataset, raw, split, seed)
    return Graph(
        features=raw.features,
        edges=raw.edges,
        labels=raw.labels,
        train=train,
        val=val,
        test=test,
        name=f"{dataset.name} ({raw.variant})" if raw.variant else dataset.name,
        split=split_name,
        setting=setting,
        class_names=raw.class_names,
        node_ids=raw.node_ids,
        feature_names=raw.feature_names,
    )


def choose_split(dataset: Dataset, raw: RawGraph, split: str | None, seed: int) -> tuple[Split, str]:
    """Return a split and its name: the published split called `split` (None: the default), or a seeded one."""
    if split is None:  # a generator has one split of its own, named after its options
        split = dataset.default_split if dataset.files else next(iter(raw.splits))
    if split in raw.splits:
        seeded = not dataset.files  # a generator's own split depends on its seed
        return raw.splits[split], f"{split} seed={seed}" if seeded else split
    if re.match(r"(per-class|ratio):", split):
        return make_split(split, raw.labels, seed)
    offered = dataset.splits if dataset.files else (*raw.splits, *SEEDED_SPLITS)
    raise GsscError(f"{dataset.name} has no split {split!r}: it offers {', '.join(offered)}")
