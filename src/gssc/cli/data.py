"""`gssc data`: list the datasets, describe one, import your own tables."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from gssc.data.array_file import ArrayFile
from gssc.data.disk import check_digests, is_disk_graph
from gssc.data.entry import Dataset
from gssc.data.fetch import at_hand, cache_root, data_root_of
from gssc.data.neighbours import is_approximate
from gssc.data.registry import DATASETS, find_dataset, load_dataset
from gssc.data.splits import labelled_nodes
from gssc.data.tables import import_tables
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.names import printable
from gssc.progress_bar import ProgressBar

_PIPE_WIDTH = 180
_WIDTH_WITH_DESCRIPTIONS = 120


def list_datasets(*, data_root: str | PathLike[str] | None = None) -> None:
    """Print one line per dataset: its size, its default split, and whether its files are present."""
    root = data_root_of(data_root)
    console = Console()
    if not console.is_terminal:  # a pipe has no width: cut nothing there
        console = Console(width=_PIPE_WIDTH)
    described = console.width >= _WIDTH_WITH_DESCRIPTIONS
    table = Table(title="Datasets", title_justify="left")
    table.add_column("name", no_wrap=True)
    for column in ("nodes", "edges", "features", "classes"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("split", "files"):
        table.add_column(column)
    if described:
        table.add_column("what it is", ratio=1)
    for entry in DATASETS.values():
        sizes = [f"{size:,}" for size in entry.sizes] if entry.sizes else ["any"] * 4
        split = entry.default_split.replace("<per_class>", "n")
        table.add_row(entry.name, *sizes, split, _state(entry, root), *([entry.description] if described else []))
    console.print(table)


def _state(entry: Dataset, root: Path | None) -> str:
    if not entry.files:
        return "generated"
    paths, files = at_hand(entry, root)
    missing = [file for file in files if file.name not in paths]
    if any(not file.optional for file in missing):
        return "to download"
    return "partly here" if missing else "here"


def dataset_info(name: str, *, data_root: str | PathLike[str] | None = None, check: bool = False) -> None:
    """Print the origin of a dataset, its files and digests and, if they are present, a description of the graph.

    For a graph file, such as ``mine.npz``, or a graph on disk, print the description alone; `check` first compares the
    digests of a graph on disk.
    """
    if check and not is_disk_graph(name):
        raise GsscError(f"{name} is not a graph on disk: --check is for folders of gssc data build")
    if check:
        check_digests(name)
    if name not in DATASETS and _is_graph_file(name):
        Console(markup=False).print(graph_facts(Graph.load(name)))  # a class may be called [red]
        return
    entry = find_dataset(name)
    root = data_root_of(data_root)
    facts = _facts(entry.name)
    facts.add_row("what it is", entry.description)
    facts.add_row("splits", ", ".join(entry.splits) + f" (default {entry.default_split})")
    if entry.options:
        facts.add_row("options", ", ".join(entry.options))
    facts.add_row("from", entry.address)
    facts.add_row("licence", entry.licence)
    facts.add_row("cite", entry.citation)
    paths, files = at_hand(entry, root)
    for file in files:
        where = str(paths.get(file.name, "optional, not here" if file.optional else "to download"))
        digest = f"SHA-256 {file.sha256[:16]}..." if file.sha256 else "unverified: no digest is published"
        facts.add_row("file", f"{file.name} ({digest}) {where}")
    console = Console(markup=False)  # a class may be called [red]
    console.print(facts)
    if _state(entry, root) == "to download":
        folder = cache_root() / entry.name
        console.print(f"Its files are fetched on first use and kept in {folder}.", soft_wrap=True)
        return
    try:
        if entry.level == "graph":
            console.print(molecule_facts(name, data_root))
            return
        graph = load_dataset(name, data_root=data_root)
    except GsscError as error:
        console.print(str(error), soft_wrap=True, markup=False)
        return
    console.print(graph_facts(graph))


def _is_graph_file(name: str) -> bool:
    return Path(name).suffix.lower() == ".npz" or Path(name).is_file() or is_disk_graph(name)


def molecule_facts(name: str, data_root: str | PathLike[str] | None) -> Table:
    """Return a rich table that describes a set of molecules."""
    from gssc.molecules import load_molecules

    molecules = load_molecules(name, data_root=data_root)
    facts = _facts("molecules")
    facts.add_row("molecules", f"{len(molecules):,} ({len(molecules.skipped)} rows cannot be read)")
    facts.add_row("atoms, bonds", f"{len(molecules.atoms):,}, {molecules.bonds.shape[1]:,}")
    parts = (molecules.train, molecules.val, molecules.test)
    facts.add_row("split", f"{molecules.split} {'/'.join(f'{len(part):,}' for part in parts)}")
    for target, values in zip(molecules.target_names, molecules.targets.T, strict=True):
        known = values[values == values]  # NaN marks an unknown one
        facts.add_row(target, f"{len(known):,} known, {int(known.sum()):,} positive")
    return facts


def import_graph(
    nodes: str | PathLike[str], edges: str | PathLike[str] | None, out: str | PathLike[str], **options: Any
) -> Graph:
    """Read a node and an edge table, write the graph to `out` (.npz) and print a description of it.

    `options` are those of `import_tables`.
    """
    with ProgressBar("importing") as bar:
        graph = import_tables(nodes, edges, **options, on_stage=bar.show_stage)
        bar.begin("writing")
        graph.save(out)
    console = Console(markup=False)  # a class may be called [red]
    console.print(graph_facts(graph))
    if edges is None:
        how = ", found by an approximate search" if is_approximate(graph.features) else ""
        note = (
            f"No edge table: rows are connected to their nearest neighbours{how}, with unlike columns put on one scale."
        )
        console.print(note, soft_wrap=True)
    if len(labelled_nodes(graph.labels)):
        path, run = quote(str(out)), quote(f"runs/{Path(out).stem}")
        line = f"Written to {out}; next: gssc train --graph {path} --out {run}"
    else:
        line = f"Written to {out}, without labels: gssc train needs some; name their column with --label"
    console.print(line, soft_wrap=True, highlight=False)
    return graph


def graph_facts(graph: Graph) -> Table:
    """Return a rich table that describes a graph."""
    facts = _facts(graph.name)
    facts.add_row("nodes", f"{graph.num_nodes:,}")
    facts.add_row("edges", f"{graph.num_edges:,} ({graph.cleaning.summary()})")
    if graph.edge_weight is not None:
        weights = ArrayFile(graph.edge_weight).whole()
        facts.add_row("weights", f"{weights.min():g} to {weights.max():g}")
    facts.add_row("features", f"{graph.num_features:,}{_kind(graph)}")
    names = "" if graph.class_names is None else printable(f": {', '.join(graph.class_names[:12])}")
    facts.add_row(graph.task.outputs, f"{graph.num_classes}{names}")
    homophily = graph.homophily()
    facts.add_row("homophily", "unknown: no edge has two labels" if math.isnan(homophily) else f"{homophily:.3f}")
    sizes = f"{len(graph.train):,} training, {len(graph.val):,} validation, {len(graph.test):,} test"
    facts.add_row("split", f"{graph.split}: {sizes}")
    facts.add_row("setting", graph.setting)
    for note in graph.notes:
        facts.add_row("note", note)
    return facts


def _kind(graph: Graph) -> str:
    if graph.on_disk:
        return f", {graph.features.dtype}, on disk ({decimal(graph.features.nbytes)})"
    return "" if hasattr(graph.features, "flags") else ", sparse"


def _facts(title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    return table
