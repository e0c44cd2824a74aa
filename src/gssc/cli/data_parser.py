"""``gssc data``: the options of its subcommands; what they do is in :mod:`gssc.cli.data`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gssc.cli import data_build
from gssc.cli.parser import CommandParser, sentence
from gssc.files import check_output

EXAMPLES = """\
examples:
  gssc data list
  gssc data info cora
  gssc data info my_graph.npz
  gssc data import --nodes nodes.csv --edges edges.csv --out my_graph.npz
  gssc data build nodes.parquet --edges edges.parquet --out big.graph
"""
IMPORT_EXAMPLES = """\
examples:
  gssc data import --nodes nodes.csv --edges edges.csv --out my_graph.npz
  gssc data import --nodes n.parquet --edges e.parquet --label kind --ignore name --split per-class:20 --out g.npz
  gssc data import --nodes table.csv --out table.npz
  gssc data import --nodes labels.csv --edges edges.csv --features-from structure --out g.npz

The node table has one row per node: an id, numbers as features and, where known, a label; an empty label is unknown.
The edge table has two columns of node ids and optionally a weight, one row per edge, in any direction. Both may be CSV,
TSV or Parquet. Without an edge table, every row is connected to its nearest neighbours.
"""
SUMMARIES = {
    "list": "list the datasets with their sizes, and whether their files are present",
    "info": "show where a dataset comes from, its licence, files and size; or what is in a graph file",
    "import": "make a graph from your own node and edge tables",
    "build": "make a graph on disk, which may be larger than memory",
}


def add_arguments(parser: CommandParser) -> None:
    """Add the subcommands and their options."""
    subcommands = parser.add_subcommands(required=True, metavar="|".join(SUMMARIES))
    for name, summary in SUMMARIES.items():
        epilog = {"import": IMPORT_EXAMPLES, "build": data_build.EXAMPLES}.get(name)
        child = CommandParser(description=sentence(summary), epilog=epilog)
        _OPTIONS[name](child)
        subcommands.add_subcommand(name, child, help=summary)


def run(args: Any) -> None:
    """Call the function of the chosen subcommand."""
    from gssc.cli import data

    options = dict(args[args.subcommand])
    if args.subcommand == "list":
        data.list_datasets(**options)
    elif args.subcommand == "info":
        data.dataset_info(**options)
    elif args.subcommand == "build":
        data_build.run(options)
    else:
        check_output(options["out"], (".npz",), options.pop("overwrite"))
        if options["n_neighbors"] is None:
            del options["n_neighbors"]
        options["name"] = options["name"] or Path(options["out"]).stem
        options["label_column"] = data_build.classes_or_targets(options["label_column"])
        data.import_graph(**options)


def _data_root(parser: CommandParser) -> None:
    parser.add_argument("--data-root", type=str, help="folder with data files; default GSSC_DATA_ROOT")


def _info(parser: CommandParser) -> None:
    parser.add_argument("name", type=str, help="a dataset's name (see gssc data list) or a graph (.npz, folder)")
    parser.add_argument("--check", action="store_true", help="for a graph on disk: compare the digests of its files")
    _data_root(parser)


def _import(parser: CommandParser) -> None:
    parser.add_argument("--nodes", type=str, required=True, help="node table: .csv, .tsv or .parquet")
    parser.add_argument(
        "--edges",
        type=str,
        help="edge table: .csv, .tsv or .parquet; without it, rows are connected to their nearest neighbours",
    )
    parser.add_argument("--out", type=str, required=True, help="graph file to write: .npz")
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    data_build.add_table_arguments(parser)
    parser.add_argument(
        "--features",
        dest="feature_columns",
        type=str,
        nargs="+",
        help="feature columns; default every other column",
    )
    parser.add_argument(
        "--features-from",
        dest="features_from",
        choices=("columns", "structure"),
        default="columns",
        help="where features come from: columns of the node table, or degree and position in the graph",
    )
    parser.add_argument("--n-neighbors", type=int, help="neighbours of a row without --edges; default 8")
    parser.add_argument(
        "--split", type=str, help="without a split column: per-class:20 or ratio:60/20/20 (the default)"
    )
    parser.add_argument("--name", type=str, help="name of the graph; default the name of the output")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split")


_OPTIONS = {"list": _data_root, "info": _info, "import": _import, "build": data_build.add_arguments}
