"""``gssc data build``: a graph on disk from tables, an .npz file, the csbm generator or a dataset."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gssc.errors import GsscError

if TYPE_CHECKING:
    from gssc.cli.parser import CommandParser
    from gssc.data.graph_stream import GraphStream
    from gssc.progress_bar import ProgressBar

EXAMPLES = """\
examples:
  gssc data build nodes.parquet --edges edges.parquet --out big.graph
  gssc data build my_graph.npz --dtype float16 --out big.graph
  gssc data build csbm --nodes 1000000 --edges 10000000 --features 128 --signal 4 --out big.graph

A graph on disk is a folder of .npy files that are opened memory-mapped, so that it may be larger than memory:
gssc train --graph big.graph streams it. It is built in bounded memory. If interrupted, the same command continues.
"""
TABLE_OPTIONS = ("id_column", "label_column", "ignore_columns", "split_column", "source_column", "target_column")
CSBM_OPTIONS = ("nodes", "classes", "signal", "homophily", "features", "per_class", "val", "test")


def add_arguments(parser: CommandParser) -> None:
    """Add the options of the subcommand."""
    parser.add_argument(
        "source", type=str, help="node table (.csv, .tsv, .parquet), graph (.npz), csbm, or a dataset's name"
    )
    parser.add_argument("--out", type=str, required=True, help="folder to write, such as big.graph")
    parser.add_argument("--edges", type=str, help="edge table of a node table; for csbm, the number of edges")
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32", help="type of the features")
    parser.add_argument("--overwrite", action="store_true", help="replace the graph in the folder")
    parser.add_argument("--check", action="store_true", help="read everything back at the end and compare digests")
    add_table_arguments(parser)
    parser.add_argument("--split", type=str, help="per-class:20 or ratio:60/20/20; default the source's own")
    parser.add_argument("--name", type=str, help="name of the graph; default the source's name")
    parser.add_argument("--seed", type=int, default=0, help="seed of csbm and of a split that is drawn")
    for option in ("nodes", "classes", "features"):
        parser.add_argument(f"--{option}", type=int, help=f"csbm: number of {option}")
    parser.add_argument("--val", type=int, help="csbm: number of validation nodes")
    parser.add_argument("--test", type=int, help="csbm: number of test nodes")
    parser.add_argument("--per-class", type=int, help="csbm: training labels per class")
    parser.add_argument("--signal", type=float, help="csbm: length of a class mean, where noise has deviation 1")
    parser.add_argument("--homophily", type=float, help="csbm: probability that an edge joins nodes of one class")
    parser.add_argument("--data-root", type=str, help="folder with data files; default GSSC_DATA_ROOT")


def add_table_arguments(parser: CommandParser) -> None:
    """Add the options that describe node and edge tables, for ``import`` and ``build``."""

    def column(option: str, target: str, help: str, **more: Any) -> None:
        parser.add_argument(option, dest=target, type=str, help=help, **more)

    column("--id", "id_column", "column with the node ids; default id, node_id, node or the first column")
    column("--label", "label_column", "column with the classes, or several with binary targets", nargs="+")
    column("--ignore", "ignore_columns", "columns that are not features", nargs="+", default=[])
    column("--split-column", "split_column", "column with train, val or test; default split, where there is one")
    column("--source", "source_column", "first end in the edge table; default source, src, from or the first column")
    column("--target", "target_column", "second end in the edge table; default target, dst, to or the second column")
    column(
        "--weight", "weight_column", "weights in the edge table; default weight, where there is one; none ignores it"
    )
    parser.add_argument(
        "--decimal", choices=(".", ","), default=".", metavar="MARK", help="decimal mark of text tables: . or ,"
    )
    parser.add_argument("--setting", type=str, default="transductive", help="transductive, inductive or cold-start")


def classes_or_targets(columns: list[str] | None) -> str | list[str] | None:
    """Return the value of --label for :func:`gssc.data.import_tables`: one column of classes, or several of targets."""
    return columns[0] if columns and len(columns) == 1 else columns


def run(options: dict[str, Any]) -> None:
    """Build the graph, show progress, and describe the result."""
    from rich.console import Console

    from gssc.cli.data import graph_facts
    from gssc.data.build import build_graph
    from gssc.data.disk import check_digests, open_graph
    from gssc.progress_bar import ProgressBar

    out, started = Path(options["out"]), time.monotonic()
    source = source_of(options)
    with ProgressBar("reading") as bar:
        stages = Stages(bar, *expected_sizes(options, source))
        build_graph(source, out, dtype=options["dtype"], overwrite=options["overwrite"], on_progress=stages.show)
        if options["check"]:
            bar.begin("checking digests")
            check_digests(out)
    console = Console(markup=False)  # a class may be called [red]
    console.print(graph_facts(open_graph(out)))
    console.print(f"Written to {out} in {time.monotonic() - started:.1f} s", soft_wrap=True, highlight=False)


def source_of(options: dict[str, Any]) -> GraphStream:
    """Return the stream that the options describe."""
    from gssc.data.graph_stream import InMemoryStream
    from gssc.data.npz import NpzStream
    from gssc.data.registry import DATASETS, load_dataset
    from gssc.data.synthetic import CsbmStream
    from gssc.data.table_stream import TableStream
    from gssc.text_tables import PARQUET_ENDINGS, TEXT_ENDINGS, ending

    name, path = options["source"], Path(options["source"])
    given = {key: options[key] for key in CSBM_OPTIONS if options[key] is not None}
    if name == "csbm":
        edges = options["edges"]
        if edges is not None and not (edges.isdecimal() and len(edges) < 19):  # fits into 64 bits
            raise GsscError(f"--edges is {edges[:60]!r}; for csbm it is the number of edges")
        return CsbmStream(num_edges=None if edges is None else int(edges), seed=options["seed"], **given)
    if given:
        raise GsscError(f"--{next(iter(given)).replace('_', '-')} is an option of csbm, not of {name}")
    if ending(path) in (*TEXT_ENDINGS, *PARQUET_ENDINGS):
        if options["edges"] is None:
            raise GsscError(f"{path} is a node table: give the edge table with --edges")
        chosen = {key: options[key] for key in (*TABLE_OPTIONS, "weight_column", "decimal", "split", "seed", "setting")}
        chosen["label_column"] = classes_or_targets(options["label_column"])
        return TableStream(path, Path(options["edges"]), name=options["name"], **chosen)
    if options["edges"] is not None:
        raise GsscError(f"--edges goes with a node table or csbm, not with {name}")
    if path.suffix.lower() == ".npz":
        return NpzStream(path)
    if name not in DATASETS and path.exists():
        raise GsscError(f"{path}: unknown type of file: give .csv, .tsv, .parquet or .npz")
    return InMemoryStream(
        load_dataset(
            name,
            split=options["split"],
            seed=options["seed"],
            setting=options["setting"],
            data_root=options["data_root"],
        )
    )


def expected_sizes(options: dict[str, Any], source: GraphStream) -> tuple[int | None, int | None]:
    """Return the numbers of rows and listed edges, estimated for text tables; None where they are unknown."""
    from gssc.data.graph_stream import InMemoryStream
    from gssc.data.synthetic import CsbmStream
    from gssc.deploy import row_count

    if isinstance(source, InMemoryStream):
        return source.graph.num_nodes, source.graph.num_edges
    if isinstance(source, CsbmStream):
        return source.nodes, source.num_edges
    return row_count(options["source"]), row_count(options["edges"]) if options["edges"] else None


class Stages:
    """Shows the stages of a build in a progress bar.

    Args:
        bar: the bar.
        rows, edges: how many there are; None if unknown.
    """

    def __init__(self, bar: ProgressBar, rows: int | None, edges: int | None):
        from gssc.data.edge_sort import BUCKETS

        self.bar, self.stage = bar, ""
        self.stages = {
            "rows": ("reading", rows, "rows"),
            "edges": ("reading", edges, "edges"),
            "buckets": ("sorting", BUCKETS, "groups of edges"),
            "digests": ("computing digests", None, "files"),
        }

    def show(self, stage: str, done: int) -> None:
        """Show the amount of a stage that is done."""
        if stage != self.stage:
            self.stage = stage
            self.bar.begin(*self.stages[stage])
        self.bar.update(done)
