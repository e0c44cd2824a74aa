"""``gssc plot``: draws a run as image files."""

from __future__ import annotations

from typing import Any

EXAMPLES = """\
examples:
  gssc plot runs/cora                                  six images in runs/cora/plots
  gssc plot runs/cora --out figures --style dark
  gssc plot runs/cora --only confusion_matrix,reliability --format pdf
  gssc plot my_classifier --graph table.npz --out figures    a saved classifier and the graph of its table

Plots: learning_curves, edges (share kept and homophily per epoch), confusion_matrix and reliability (test nodes, or
validation nodes where no test node has a label), embedding_map (t-SNE of the last hidden layer) and keep_probability
(of edges within a class and between classes). Plots that a run has no data for are left out, with the reason.
"""


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("run", type=str, help="folder of a run, or of a saved classifier")
    parser.add_argument("--out", type=str, help="folder for the images; default RUN/plots")
    parser.add_argument("--only", type=str, help="names of plots, separated by commas; default all")
    parser.add_argument("--style", type=str, default="light", help="light or dark")
    parser.add_argument("--format", type=str, default="png", help="png, svg or pdf")
    parser.add_argument("--graph", type=str, help="another graph, .npz, with the same feature columns")
    parser.add_argument("--seed", type=int, default=0, help="seed of the map of embeddings")
    parser.add_argument("--data-root", type=str, help="folder with data files; default GSSC_DATA_ROOT")


def run(args: Any) -> None:
    """Draw the plots and list the files."""
    from rich.console import Console
    from rich.text import Text

    from gssc.errors import GsscError
    from gssc.report import plot_run

    if args.seed < 0:
        raise GsscError(f"--seed is {args.seed}; it must not be negative")
    with Console(stderr=True).status("starting") as status:
        written = plot_run(
            args.run,
            args.out,
            plots=[name.strip() for name in args.only.split(",")] if args.only else None,
            style=args.style,
            file_format=args.format,
            graph=args.graph,
            data_root=args.data_root,
            seed=args.seed,
            on_plot=lambda name: status.update(f"drawing {name}"),
        )
    console = Console(markup=False, highlight=False)
    for path in written.files.values():
        console.print(str(path), soft_wrap=True)
    for name, reason in written.skipped.items():
        console.print(Text.assemble(("skipped ", "yellow"), f"{name}: {reason}"), soft_wrap=True)
