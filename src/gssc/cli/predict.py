"""``gssc predict``: feature rows in, a table of predictions out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from gssc.deploy import DeployedModel, TableRows

EXAMPLES = """\
examples:
  gssc predict runs/cora rows.npz --out predictions.parquet
  gssc predict runs/mine new_customers.csv --out predictions.csv --overwrite
  gssc predict runs/bbbp molecules.csv --smiles-column smiles --out predictions.csv
  cat new_customers.csv | gssc predict runs/mine - -o - | head

Rows come as .npz (key x, or x_data, x_indices, x_indptr, x_shape), .npy, .parquet, .csv, .tsv or .txt (also .gz), as
a graph on disk (a folder of gssc data build), or as CSV on standard input (-). If the model has feature names,
columns are taken by name and others ignored. Ids are carried over from a column id, node_id or node, the one that --id
names, or the first column if it is not a feature. The output has the id (or row number), the predicted class and every
class's probability. Tables are read, and CSV is written, a block at a time, so they may be larger than memory; with
-o - the predictions for rows from a pipe are written as the rows arrive, and the summary goes to standard error.

With a model of molecules, the rows are a text table with a column of SMILES, and the predictions are CSV: the row
number, the SMILES and one column per target.
"""
SHOWN_CLASSES = 12


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("run", type=str, help="run folder, with model.json and model.safetensors")
    parser.add_argument(
        "rows", type=str, help="rows: .npz, .npy, .csv, .tsv, .parquet or a graph's folder; - is standard input"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=str,
        required=True,
        help="where predictions go: .parquet, .csv or .npz; - is standard output, as CSV",
    )
    parser.add_argument(
        "--id", type=str, help="column with the ids; default id, node_id, node or a first column that is not a feature"
    )
    parser.add_argument(
        "--decimal", choices=(".", ","), default=".", metavar="MARK", help="decimal mark of text tables: . or ,"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    parser.add_argument("--smiles-column", type=str, help="column of SMILES, for a model of molecules; default smiles")
    parser.add_argument("--invalid", choices=("skip", "refuse"), help="rows without a valid molecule; default skip")


def run(args: Any) -> None:
    """Load, predict, write, and show a summary."""
    from gssc.cli.molecules import is_molecule_model, predict_molecules
    from gssc.deploy import DeployedModel, predictions_to, row_count
    from gssc.deploy.tables import FORMATS, STREAM
    from gssc.files import check_output
    from gssc.progress_bar import ProgressBar

    if is_molecule_model(args.run):
        predict_molecules(args)
        return
    to_stream = args.out == STREAM
    if not to_stream:
        check_output(args.out, FORMATS, args.overwrite)
    model = DeployedModel.load(args.run)
    summary = PredictionCounts(model)
    bar = ProgressBar("predicting", row_count(args.rows), "rows")
    with predictions_to(args.out, model, args.overwrite) as output, bar:
        for block in blocks_of(args, model):
            start = time.perf_counter()
            probabilities = model.predict_proba(block.features)
            summary.add(probabilities, time.perf_counter() - start)
            output.write(probabilities, block.ids)
            bar.update(summary.rows)
    summary.show(str(args.out), to_stderr=to_stream)


def blocks_of(args: Any, model: DeployedModel) -> Iterator[TableRows]:
    """Yield the rows of a table or of a graph on disk, one block at a time."""
    from gssc.deploy import row_blocks

    if Path(args.rows).is_dir():
        from gssc.data.disk import row_blocks_of

        return row_blocks_of(args.rows, model.feature_names, model.widths[0])
    return row_blocks(args.rows, model.feature_names, model.widths[0], id_name=args.id, decimal=args.decimal)


class PredictionCounts:
    """Counts predicted classes for the summary at the end."""

    def __init__(self, model: DeployedModel):
        import numpy as np

        self.model, self.rows, self.seconds = model, 0, 0.0
        self.counts = np.zeros(model.widths[-1], dtype=np.int64)
        self.sums = np.zeros(model.widths[-1])

    def add(self, probabilities: np.ndarray, seconds: float) -> None:
        """Count some rows."""
        import numpy as np

        if self.model.task == "multiclass":
            self.counts += np.bincount(probabilities.argmax(axis=1), minlength=len(self.counts))
        else:
            self.counts += (probabilities >= 0.5).sum(axis=0)
        self.sums += probabilities.sum(axis=0, dtype=np.float64)
        self.rows += len(probabilities)
        self.seconds += seconds

    def show(self, out: str, to_stderr: bool) -> None:
        """Show the classes by how often they were predicted."""
        from rich.console import Console
        from rich.table import Table

        from gssc.names import counted, printable

        place = "standard output" if to_stderr else out
        table = Table("class")
        for title in ("rows", "share", "mean probability"):
            table.add_column(title, justify="right")
        order = sorted(range(len(self.counts)), key=lambda index: -self.counts[index])
        for index in order[:SHOWN_CLASSES]:
            count, mean = self.counts[index], self.sums[index] / self.rows
            name = printable(self.model.class_names[index])
            table.add_row(name, f"{count:,}", f"{count / self.rows:.1%}", f"{mean:.3f}")
        if len(order) > SHOWN_CLASSES:
            rest = self.counts[order[SHOWN_CLASSES:]].sum()
            table.add_row(f"{len(order) - SHOWN_CLASSES} more", f"{rest:,}", f"{rest / self.rows:.1%}", "")
        console = Console(markup=False, stderr=to_stderr)  # a class may be called [red]
        console.print(table)
        console.print(f"{counted(self.rows, 'row')} in {self.seconds:.3f} s, written to {place}", soft_wrap=True)
