"""Molecules in the commands train, predict, audit, bench and serve, whose modules call these functions."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from gssc.errors import GsscError
from gssc.files import read_json
from gssc.molecules.registry import MODELS, molecule_model
from gssc.names import counted
from gssc.progress_bar import ProgressBar
from gssc.settings import parse_section, read_settings

if TYPE_CHECKING:
    from gssc.molecules.molecule_set import MoleculeSet


STOPPING = "stopping after this epoch; press Ctrl+C again to stop at once"


def names_molecules(arguments: Sequence[str]) -> bool:
    """Return whether the arguments of `gssc train` name molecules, a table of SMILES, or such a run to resume."""
    if any(argument.partition("=")[0] == "--molecules" for argument in arguments):
        return True
    before = ["", *arguments]
    words = (word for word, option in zip(arguments, before, strict=False) if not option.startswith("--"))
    if any(about_molecules(word) for word in words if not word.startswith("-")):
        return True
    folders = [word for word, option in zip(arguments, before, strict=False) if option == "--out"]
    return "--resume" in arguments and bool(folders) and bool(_molecule_config(Path(folders[0])))


def is_about_molecules(args: Any) -> bool:
    """Return whether parsed arguments of `gssc train` are about molecules, see :func:`names_molecules`."""
    if args.get("molecules") or about_molecules(args.get("dataset")):
        return True
    return bool(args.get("resume") and args.get("out") and _molecule_config(Path(args["out"])))


def add_train_arguments(parser: Any, model: str) -> None:
    """Add the options of `gssc train` for molecules; --settings.NAME are those of the model."""
    parser.add_argument("dataset", type=str, nargs="?", help="bbbp, tox21, muv or hiv")
    parser.add_argument("--molecules", type=str, help="your own table of SMILES and targets, .csv or .tsv")
    parser.add_argument("--smiles-column", type=str, help="name of its column of SMILES; default smiles")
    parser.add_argument("--targets", type=str, help="columns to learn, separated by commas; default all others")
    parser.add_argument("--split", type=str, help="scaffold (default), random, random:60/20/20")
    parser.add_argument("--invalid", choices=("skip", "refuse"), help="rows without a valid molecule; default skip")
    parser.add_argument("--jobs", type=int, help="processes that read SMILES the first time; default one per core")
    parser.add_argument("--out", type=str, help="run folder; default runs/NAME")
    parser.add_argument("--model.name", type=str, help="gssc (default), gin, gcn, fingerprint_forest, ...")
    parser.add_argument("--seed", type=int, help="seed of the run")
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in the folder")
    parser.add_argument("--data-root", type=str, help="folder with data files; default GSSC_DATA_ROOT")
    parser.add_argument("--settings", type=type(molecule_model(model).settings()))


def _molecule_config(folder: Path) -> dict[str, Any]:
    """Return the config.yaml of a run on molecules; empty if it is not one."""
    if not (folder / "config.yaml").exists():
        return {}
    found = read_settings(folder / "config.yaml")
    return found if "molecules" in found else {}


def train_molecules(args: Any) -> None:
    """Load the molecules, train with a progress bar, show the result."""
    from rich.console import Console

    from gssc.molecules.run import MoleculeRun

    console = Console(stderr=True, markup=False, highlight=False)
    table = args.get("molecules")
    folder = Path(args.get("out") or Path("runs") / (args.get("dataset") or Path(table or "run").stem))
    before = _molecule_config(folder) if args.get("resume") else {}
    data = before.get("data") or {
        "dataset": args.get("dataset"),
        "molecules": str(Path(table).absolute()) if table else None,
        "smiles_column": args.get("smiles_column"),
        "targets": args.get("targets"),
        "split": args.get("split") or "scaffold",
        "split_seed": 0,
        "invalid": args.get("invalid") or "skip",
    }
    noted = dict(before.get("molecules", {}))
    model = noted.pop("model", None) or model_name(args)
    molecules = molecules_of(data, args.get("data_root"), args.get("jobs"))
    try:
        settings = settings_of(model, noted, args)
    except GsscError as error:
        if not before:
            raise
        raise GsscError(
            f"{folder / 'config.yaml'} does not fit this version of gssc ({error}): correct that line of the file, or "
            "train again with --overwrite"
        ) from None
    run = MoleculeRun(
        folder,
        molecules,
        model,
        settings,
        data=data,
        overwrite=bool(args.get("overwrite")),
        resume=bool(args.get("resume")),
    )
    regression = molecules.is_regression
    kind = "measured target" if regression else "binary target"
    parts = ((molecules.train, "training"), (molecules.val, "validation"), (molecules.test, "test"))
    about = (
        f"{molecules.name} ({molecules.split}): {counted(len(molecules), 'molecule')}, "
        f"{counted(len(molecules.atoms), 'atom')}, {counted(molecules.bonds.shape[1], 'bond')}, "
        f"{counted(molecules.num_targets, kind)}; {', '.join(f'{len(index):,} {part}' for index, part in parts)}; "
        f"model {model}, seed {settings.train.seed}"
    )
    console.print(about, soft_wrap=not console.is_terminal)
    if molecules.skipped:
        first = molecules.skipped[0]
        console.print(
            f"note: rows without a valid molecule are left out: {len(molecules.skipped)}, the first is row "
            f"{first.row}: {first.reason}; skipped.csv lists them",
            soft_wrap=True,
        )
    if regression and (binary := molecules.binary_targets()):
        console.print(
            f"note: {', '.join(binary)} has only the values 0 and 1 but is learned as a measurement, like the others; "
            "for a probability, train it in a run without them",
            soft_wrap=True,
        )
    bar = ProgressBar("preparing", console=console)

    def start(training: Any) -> None:
        bar.begin("training", training.total_epochs, "epochs", training.epoch)
        bar.watch = lambda: training.epochs_done

    def show(epoch: Any) -> None:
        score = f"val {shown_score(epoch.val_score, regression)}"
        bar.update(epoch.epoch + 1, f"loss {epoch.classification_loss:.3f}, {score}")

    try:
        with bar:
            metrics = run.train(show, lambda: console.print(STOPPING), start)
    except KeyboardInterrupt:
        console.print(f"resume with: gssc train --out {quote(str(folder))} --resume", soft_wrap=True)
        raise
    val, test = (shown_score(metrics[part], regression) for part in ("val_score", "test_score"))
    result = Console(markup=False, highlight=False)
    result.print(
        f"{metrics['dataset']} ({metrics['split']}), {model}: {'RMSE' if regression else 'ROC-AUC'} {val} validation, "
        f"{test} test; {metrics['seconds']:.1f} s; saved to {folder}",
        soft_wrap=not result.is_terminal,
    )
    if not regression and "unknown" in (val, test):
        console.print(
            "note: a score is unknown if no target has both classes in its part of the split; try --split random",
            soft_wrap=True,
        )


def shown_score(score: float | None, regression: bool) -> str:
    """Return a validation or test score as text; that of a regression, a negative error, without its sign."""
    if score is None or math.isnan(score):
        return "unknown"
    return f"{-score if regression else score:.4f}"


def molecules_of(data: dict[str, Any], data_root: str | None, jobs: int | None = None) -> MoleculeSet:
    """Return the molecules that the data section of a run's config.yaml names."""
    from gssc.molecules.load import load_molecules, read_molecules

    if jobs is not None and jobs < 1:
        raise GsscError(f"--jobs must be at least 1, not {jobs}")
    shared: dict[str, Any] = {"split": data["split"], "seed": data["split_seed"], "jobs": jobs or os.cpu_count() or 1}
    shared["invalid"] = data.get("invalid", "skip")
    if data["molecules"]:
        targets = data["targets"].split(",") if data["targets"] else None
        return read_molecules(data["molecules"], smiles_column=data["smiles_column"], targets=targets, **shared)
    if data["dataset"]:
        return load_molecules(data["dataset"], data_root=data_root, **shared)
    raise GsscError("name a set of molecules, or give your own table with --molecules FILE.csv")


def is_molecule_run(folder: str | Path) -> bool:
    """Return whether a folder holds a run on molecules."""
    return bool(_molecule_config(Path(folder)))


def audit_molecules(args: Any) -> None:
    """Rank the training labels of a run on molecules by doubt, write them, and show the worst."""
    from rich.console import Console
    from rich.table import Table

    from gssc.files import check_output
    from gssc.molecules.audit import doubtful_labels, write_doubts

    check_output(args.out, (".csv",), args.overwrite)
    molecules = molecules_of(_molecule_config(Path(args.run))["data"], args.data_root)
    with ProgressBar("computing fingerprints") as bar:

        def show(done: float) -> None:
            bar.update(done) if done else bar.begin("comparing labels", molecules.num_targets, "targets")

        labels = doubtful_labels(molecules, seed=args.seed, on_target=show)
    write_doubts(args.out, labels, args.overwrite)
    table = Table(
        "row", "target", "label", "suggested", "SMILES", caption=f"{counted(len(labels), 'label')} in {args.out}"
    )
    for label in labels[:10]:
        table.add_row(str(label.row), label.target, f"{label.label:g}", f"{label.suggested:.3f}", label.smiles)
    Console(markup=False).print(table)


def settings_of(model: str, noted: dict[str, Any], args: Any) -> Any:
    """Return the model's settings: its own, then those of the run that is resumed, then what was typed."""
    typed = args["settings"].as_dict() if args.get("settings") is not None else {}
    made = molecule_model(model).settings()
    for layer in (noted, typed):
        train = parse_section("settings.train", made.train, layer.get("train", {}))
        own = {name: value for name, value in layer.items() if name != "train"}
        made = replace(parse_section("settings", made, own), train=train)
    if args.get("seed") is not None:
        made.train.seed = args["seed"]
    return made


def model_name(args: Any) -> str:
    """Return the name of the model that was typed, or gssc."""
    return str((args.get("model") or {}).get("name") or "gssc")


def about_molecules(datasets: str | None) -> bool:
    """Return whether the first dataset of `gssc bench` is a set of molecules: those are compared apart from graphs."""
    if not datasets:
        return False
    from gssc.data.registry import DATASETS

    first = datasets.partition(",")[0].partition(":")[0].strip()
    return first in DATASETS and DATASETS[first].level == "graph"


def bench_molecules(options: Any, store: Any) -> list[dict[str, Any]]:
    """Run the cross product on sets of molecules, except for what the store has already."""
    from rich.console import Console

    from gssc.cli.bench import names
    from gssc.evaluate.molecule_sweep import molecule_cells, sweep

    if not options.models:
        raise GsscError(f"name --models for molecules: {', '.join(MODELS)}")
    cells = molecule_cells(names(options.models, MODELS), names(options.datasets), options.seeds, options.max_epochs)
    console = Console(stderr=True, highlight=False, markup=False)
    rows: list[dict[str, Any]] = []
    with ProgressBar("comparing", len(cells), "runs", console) as bar:

        def started(cell: Any) -> None:
            bar.update(len(rows), f"running {cell.title}")

        def training_begins(training: Any) -> None:
            before = len(rows)
            bar.watch = lambda: before + training.epochs_done / max(training.total_epochs, 1)

        for row in sweep(
            cells, store, again=options.rerun, retry=options.retry, started=started, on_training=training_begins
        ):
            bar.watch = None
            rows.append(row)
            bar.update(len(rows)) if bar.note else bar.skip()  # those in the store take no time
            if row["error"]:
                console.print(
                    f"failed: {row['model']} on {row['dataset']}, seed {row['seed']}: {row['error']}", soft_wrap=True
                )
    return rows


def is_molecule_model(folder: str | Path) -> bool:
    """Return whether a folder holds a model that takes SMILES, or a run on molecules whose model is not deployable."""
    from gssc.deploy.store import OF_MOLECULES

    try:
        about = read_json(Path(folder) / "model.json")
    except (OSError, GsscError):
        return is_molecule_run(folder)
    return str(about.get("format", "")).startswith(OF_MOLECULES)


def molecule_app(folder: str, limits: Any, token: str | None, hosts: Sequence[str]) -> Any:
    """Return the app that serves a model of molecules."""
    from gssc.molecules.deployed import DeployedMolecules
    from gssc.molecules.smiles import chemistry
    from gssc.serve.molecules import create_molecule_app

    chemistry()  # without RDKit nothing can be answered
    return create_molecule_app(DeployedMolecules.load(folder), limits, token, hosts)


def predict_molecules(args: Any) -> None:
    """Predict for a table of SMILES and show how many rows were read."""
    from rich.console import Console

    from gssc.deploy import row_count
    from gssc.deploy.tables import STREAM
    from gssc.molecules.deployed import DeployedMolecules
    from gssc.molecules.predict import predict_table

    if args.id is not None or args.decimal != ".":
        raise GsscError("--id and --decimal are for feature rows, not for SMILES: predictions have the row number")
    model = DeployedMolecules.load(args.run)
    to_stream = args.out == STREAM
    with ProgressBar("predicting", row_count(args.rows), "molecules") as bar:
        counts = predict_table(
            model,
            args.rows,
            args.out,
            args.smiles_column,
            overwrite=args.overwrite,
            invalid=args.invalid or "skip",
            on_rows=bar.update,
        )
    text = f"wrote {counts.rows:,} row{'' if counts.rows == 1 else 's'}" + ("" if to_stream else f" to {args.out}")
    if counts.invalid:
        more = ", ..." if counts.invalid > len(counts.first_invalid) else ""
        rows = ", ".join(map(str, counts.first_invalid)) + more
        text += f"; {counts.invalid:,} of them without a valid molecule, left blank (row {rows})"
    Console(stderr=to_stream, markup=False, highlight=False).print(text, soft_wrap=True)
