"""``gssc export``: a trained model as files for another program, with a model card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gssc.deploy.export import Export

EXAMPLES = """\
examples:
  gssc export runs/cora --format onnx                     writes runs/cora/export-onnx
  gssc export runs/cora --format numpy --out serving      weights and one Python file that needs NumPy alone
  gssc export runs/cora --format torch --overwrite        an nn.Module and its weights
  gssc export runs/cora --format card                     the model card alone
  gssc export runs/bbbp --format numpy                    a model of molecules: SMILES in, with NumPy and RDKit

onnx needs the extra export, torch the extra train; the other formats need nothing more. Every folder has a
MODEL_CARD.md with data, split, quality, calibration, intended use and limits, and how its files are used. Before a
folder is put in its place, its outputs are compared with those of the trained model; the difference and the tolerance
are shown and written into the card.
"""


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--format", type=str, required=True, help="onnx, numpy, torch or card")
    parser.add_argument("--out", type=str, help="folder to write; default RUN/export-FORMAT")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier export in that folder")


def run(args: Any) -> None:
    """Export, and show what was written."""
    from gssc.cli.molecules import is_molecule_model
    from gssc.deploy.export import export_run

    if is_molecule_model(args.run):
        from gssc.molecules.export import export_molecules

        show(export_molecules(args.run, args.format, args.out, args.overwrite))
        return
    show(export_run(args.run, args.format, args.out, args.overwrite))


def show(export: Export) -> None:
    """Show the files and their sizes, and the difference between the export and the model."""
    from rich.console import Console
    from rich.table import Table

    table = Table("file")
    table.add_column("kB", justify="right")
    for path in export.files:
        table.add_row(path.name, f"{path.stat().st_size / 1000:,.1f}")
    console = Console(markup=False)  # a folder may be called [red]
    console.print(f"written to {export.folder}", soft_wrap=True, highlight=False)
    console.print(table)
    lines = [*filter(None, [export.checked]), f"How to use it: {export.folder / 'MODEL_CARD.md'}"]
    console.print("\n".join(lines), soft_wrap=True, highlight=False)
