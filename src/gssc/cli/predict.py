"""``gssc predict``: feature rows in, a table of predictions out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from gssc.deploy import DeployedModel, Rows

EXAMPLES = """\
examples:
  gssc predict runs/cora rows.npz --out predictions.parquet
  gssc predict runs/mine new_customers.csv --out predictions.csv --overwrite
  gssc predict runs/bbbp molecules.csv --smiles-column smiles --out predictions.csv

Rows come as .npz (key x, or x_data, x_indices, x_indptr, x_shape), .npy, .parquet, .csv, .tsv or .txt (also .gz). A
table may have a column id or node_id, which is carried over; if the model knows its features by name, columns are taken
by name and others ignored. The output has the id (or row number), the predicted class and every class's probability.
"""
# Rows at a time between two updates of the progress bar, and the number of rows from which there is one.
STEP_ROWS = 65_536
PROGRESS_FROM = 4 * STEP_ROWS
SHOWN_CLASSES = 12


def add_arguments(parser: Any) -> None:
    """The options of the command."""
    parser.add_argument("run", type=str, help="run folder, with model.json and model.safetensors")
    parser.add_argument("rows", type=str, help="feature rows: .npz, .npy, .csv, .tsv or .parquet")
    parser.add_argument("--out", type=str, required=True, help="where predictions go: .parquet, .csv or .npz")
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    parser.add_argument("--smiles-column", type=str, help="column of SMILES, for a model of molecules; default smiles")


def run(args: Any) -> None:
    """Load, predict, write, and show a summary."""
    from gssc.cli.molecules import is_molecule_model, predict_molecules
    from gssc.deploy import DeployedModel, read_rows, write_predictions
    from gssc.deploy.tables import WRITERS
    from gssc.files import check_output

    if is_molecule_model(args.run):
        predict_molecules(args)
        return
    check_output(args.out, WRITERS, args.overwrite)
    model = DeployedModel.load(args.run)
    rows = read_rows(args.rows, model.feature_names, model.widths[0])
    start = time.perf_counter()
    probabilities = _predict(model, rows)
    seconds = time.perf_counter() - start
    write_predictions(args.out, model, probabilities, rows.ids, args.overwrite)
    _summary(model, probabilities, f"{len(rows):,} rows in {seconds:.3f} s, written to {args.out}")


def _predict(model: DeployedModel, rows: Rows) -> np.ndarray:
    import numpy as np
    from rich.console import Console
    from rich.progress import track

    if len(rows) < PROGRESS_FROM:
        return model.predict_proba(rows.features)
    steps = range(0, len(rows), STEP_ROWS)
    shown = track(steps, description="predicting", console=Console(stderr=True))
    return np.concatenate([model.predict_proba(rows.features[start : start + STEP_ROWS]) for start in shown])


def _summary(model: DeployedModel, probabilities: np.ndarray, caption: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("class", caption=caption)
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    table.add_column("mean probability", justify="right")
    if model.task == "multiclass":
        counts = [int(count) for count in _counts(probabilities)]
    else:
        counts = (probabilities >= 0.5).sum(axis=0).tolist()
    order = sorted(range(len(counts)), key=lambda index: -counts[index])
    for index in order[:SHOWN_CLASSES]:
        share = counts[index] / len(probabilities)
        table.add_row(
            model.class_names[index], f"{counts[index]:,}", f"{share:.1%}", f"{probabilities[:, index].mean():.3f}"
        )
    if len(order) > SHOWN_CLASSES:
        rest = sum(counts[index] for index in order[SHOWN_CLASSES:])
        table.add_row(f"{len(order) - SHOWN_CLASSES} more", f"{rest:,}", f"{rest / len(probabilities):.1%}", "")
    Console(markup=False).print(table)  # a class may be called [red]


def _counts(probabilities: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.bincount(probabilities.argmax(axis=1), minlength=probabilities.shape[1])
