"""``gssc audit``: ranks the edges and labels of a graph by doubt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gssc.errors import GsscError
from gssc.files import check_output
from gssc.names import counted

if TYPE_CHECKING:
    from gssc.audit import Findings
    from gssc.audit.columns import Column

EXAMPLES = """\
examples:
  gssc audit runs/cora --out audit.html                     a page to read, worst first
  gssc audit runs/cora --out audit.csv                      every edge and training label, with all evidence
  gssc audit runs/cora --out audit.html --review review.csv a list to review, with a column for decisions
  gssc audit runs/mine --graph newer.npz --out audit.html   another graph, audited with the same model
  gssc audit runs/bbbp --out labels.csv                     training labels of molecules
  gssc audit my_classifier --graph table.npz --out audit.html   a saved GSSCClassifier and the graph of its table

Edges are ranked by how much they look like random pairs (features, neighbourhoods, the model's embedding, common
neighbours) and by their keep probability in training. Training labels are ranked by how strongly class means and a
regression on the other labels, and class means of the remaining nodes as the model classifies them, favour another
class. Also listed are nodes with (nearly) equal features, without an edge, and without a feature. Labels of test nodes
are never read; labels of validation nodes count as evidence.
"""
SUFFIXES = (".html", ".csv")
SHOWN = 10
TERMINAL_COLUMNS = {
    "edges": ("rank", "node", "other", "score", "predicted", "other_predicted", "features", "keep_probability"),
    "labels": ("rank", "node", "score", "label", "suggested", "held_out", "regression", "model_classes"),
}


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("run", type=str, help="folder of a finished run, or of a saved classifier")
    parser.add_argument("--out", type=str, required=True, help="where the findings go: .html or .csv")
    parser.add_argument("--graph", type=str, help="the graph to audit, .npz or folder, if not the run's own")
    parser.add_argument("--review", type=str, help="also write a .csv of what to review, with the reason in words")
    parser.add_argument("--top", type=int, default=200, help="rows of each kind in the page and in the review list")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random pairs edges are compared with")
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    parser.add_argument("--data-root", type=str, help="folder with data files; default GSSC_DATA_ROOT")


def run(args: Any) -> None:
    """Audit, write, and show the worst."""
    from gssc.cli.molecules import audit_molecules, is_molecule_run

    if is_molecule_run(args.run):
        audit_molecules(args)
        return
    out = check_output(args.out, SUFFIXES, args.overwrite)
    review = None if args.review is None else check_output(args.review, (".csv",), args.overwrite)
    if review is not None and review.absolute() == out.absolute():
        raise GsscError(f"--out and --review are both {out}: give them different names")
    if args.top < 1:
        raise GsscError(f"--top is {args.top}; it must be at least 1")
    if args.seed < 0:
        raise GsscError(f"--seed is {args.seed}; it must not be negative")
    from gssc.audit import audit_run, write_page, write_review, write_table
    from gssc.progress_bar import ProgressBar

    started = time.perf_counter()
    with ProgressBar("starting") as bar:

        def stage(name: str, share: float | None) -> None:
            bar.phase = name
            if share is not None:
                bar.total = 1.0
                bar.update(share)

        findings = audit_run(args.run, args.graph, seed=args.seed, data_root=args.data_root, on_stage=stage)
        if out.suffix.lower() == ".csv":
            bar.begin("writing", len(findings.edges) + len(findings.labels), "rows")
            write_table(out, findings, on_rows=bar.update)
        else:
            write_page(out, findings, args.top)
        rows = 0 if review is None else write_review(review, findings, args.top)
    reviewed = "" if review is None else f"; {counted(rows, 'row')} to review in {review}"
    show(findings, f"{time.perf_counter() - started:.1f} s, written to {out}{reviewed}")


def show(findings: Findings, caption: str) -> None:
    """Show the ten most doubtful edges and labels, the counts of the rest, and notes."""
    from rich.console import Console
    from rich.text import Text

    from gssc.audit.columns import edge_columns, label_columns

    console = Console()
    if len(findings.edges):
        show_table(console, "edges", edge_columns(findings, 0, SHOWN), len(findings.edges))
    if len(findings.labels):
        show_table(console, "labels", label_columns(findings, 0, SHOWN), len(findings.labels))
    conflicts = sum(group.conflicting for group in findings.duplicates)
    console.print(
        f"{counted(len(findings.duplicates), 'group')} of nodes with (nearly) equal features, {conflicts:,} of them "
        f"with conflicting labels; {counted(len(findings.isolated), 'isolated node')}; "
        f"{counted(len(findings.featureless), 'node')} without a feature",
        highlight=False,
    )
    for note in findings.notes:
        console.print(Text.assemble(("note ", "yellow"), note))
    console.print(Text(caption))


def show_table(console: Any, what: str, columns: list[Column], total: int) -> None:
    """Show the first rows, with the columns that fit a terminal."""
    from rich.table import Table
    from rich.text import Text

    from gssc.audit.reasons import EDGE_EVIDENCE, LABEL_EVIDENCE

    names = EDGE_EVIDENCE if what == "edges" else {name: title for name, (title, _) in LABEL_EVIDENCE.items()}
    shown = [column for column in columns if column.name in TERMINAL_COLUMNS[what]]
    table = Table(title=f"most doubtful of {total:,} {what}", title_justify="left")
    titles = [
        "#" if column.name == "rank" else names.get(column.name, column.name.replace("_", " ")) for column in shown
    ]
    # Text, not str: a node or class may be called "[red]", which rich would read as a style.
    cells = [
        [Text(f"{value:.3f}" if isinstance(value, float) else str(value)) for value in column.values]
        for column in shown
    ]
    longest = [max(cell.cell_len for cell in column) for column in cells]
    widths = fitting_widths(titles, longest, console.width - 3 * len(shown) - 1)  # without lines and padding
    for column, title, width in zip(shown, titles, widths, strict=True):
        table.add_column(title, justify="right" if column.numeric else "left", width=width, overflow="fold")
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    console.print(table)


def fitting_widths(titles: list[str], longest: list[int], room: int) -> list[int | None]:
    """Return the widths of columns such that no word of a title is cut: long values are folded instead.

    All are None, which leaves them to rich, if even the words of the titles do not fit.

    Args:
        titles: headings of the columns.
        longest: length of the longest value of each.
        room: characters for all columns together.

    >>> fitting_widths(["node", "unlabelled nodes"], [30, 40], 30)
    [15, 15]
    >>> fitting_widths(["node", "unlabelled nodes"], [30, 40], 16)
    [6, 10]
    """
    least = [max(map(len, title.split())) for title in titles]
    widths = [max(len(title), value) for title, value in zip(titles, longest, strict=True)]
    while sum(widths) > room:
        spare = [width if width > word else 0 for width, word in zip(widths, least, strict=True)]
        if not any(spare):
            return [None] * len(titles)
        widths[spare.index(max(spare))] -= 1
    return list(widths)
