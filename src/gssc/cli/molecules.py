"""What `gssc train` and `gssc predict` do with molecules; their modules call these functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gssc.errors import GsscError


def trains_molecules(args: Any) -> bool:
    """Whether a `gssc train` command is about molecules: a set of them, a table of SMILES, or such a run to resume."""
    if args.get("molecules"):
        return True
    if args.get("dataset"):
        from gssc.data.registry import DATASETS

        entry = DATASETS.get(args["dataset"])
        return entry is not None and entry.level == "graph"
    return bool(args.get("resume") and args.get("out") and _noted(Path(args["out"])))


def _noted(folder: Path) -> dict[str, Any]:
    """Return the config.yaml of a run on molecules; empty if it is not one."""
    from gssc.config import read_settings

    if not (folder / "config.yaml").exists():
        return {}
    found = read_settings(folder / "config.yaml")
    return found if "molecules" in found else {}


def train_molecules(args: Any) -> None:
    """Load the molecules, train with one line per epoch, show the result."""
    from rich.console import Console

    from gssc.molecules.load import load_molecules, read_molecules
    from gssc.molecules.registry import molecule_model
    from gssc.molecules.run import MoleculeRun

    console = Console(stderr=True, markup=False, highlight=False)
    table = args.get("molecules")
    folder = Path(args.get("out") or Path("runs") / (args.get("dataset") or Path(table or "run").stem))
    before = _noted(folder) if args.get("resume") else {}
    data = before.get("data") or {
        "dataset": args.get("dataset"),
        "molecules": str(Path(table).absolute()) if table else None,
        "smiles_column": args.get("smiles_column"),
        "targets": args.get("targets"),
        "split": args.get("split") or "scaffold",
        "split_seed": 0,
    }
    noted = dict(before.get("molecules", {}))
    model = noted.pop("model", None) or model_name(args)
    shared = {"split": data["split"], "seed": data["split_seed"]}
    if data["molecules"]:
        targets = data["targets"].split(",") if data["targets"] else None
        molecules = read_molecules(data["molecules"], smiles_column=data["smiles_column"], targets=targets, **shared)
    elif data["dataset"]:
        molecules = load_molecules(data["dataset"], data_root=args.get("data_root"), **shared)
    else:
        raise GsscError("name a set of molecules, or give your own table with --molecules FILE.csv")
    settings = molecule_model(model).settings(**noted_settings(noted))
    if args.get("seed") is not None:
        settings.train.seed = args["seed"]
    run = MoleculeRun(
        folder,
        molecules,
        model,
        settings,
        data=data,
        overwrite=bool(args.get("overwrite")),
        resume=bool(args.get("resume")),
    )
    console.print(f"{molecules!r}; model {model}, seed {settings.train.seed}", soft_wrap=True)
    if molecules.skipped:
        first = molecules.skipped[0]
        console.print(
            f"note: {len(molecules.skipped)} rows hold no molecule and are left out, the first is row {first.row}: "
            f"{first.reason}; skipped.csv lists them",
            soft_wrap=True,
        )
    metrics = run.train(
        lambda epoch: console.print(
            f"epoch {epoch.epoch}: {epoch.phase}, loss {epoch.classification_loss:.3f}, "
            f"validation {epoch.val_score:.4f}{' (best)' if epoch.best else ''}"
        )
    )
    Console(markup=False, highlight=False).print(
        f"{metrics['dataset']} ({metrics['split']}), {model}: {metrics['metric']} {metrics['val_score']} validation, "
        f"{metrics['test_score']} test; {metrics['seconds']} s; saved to {folder}",
        soft_wrap=True,
    )


def noted_settings(noted: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in a config.yaml as keywords of the model's Settings."""
    from gssc.molecules.training import Schedule

    return {name: Schedule(**value) if name == "train" else value for name, value in noted.items()}


def model_name(args: Any) -> str:
    """Return the model that was asked for, or GSSC."""
    given = args.get("model")
    name = given if isinstance(given, str) else (given or {}).get("name")
    return "gssc" if name in (None, "str_contrast") else str(name)


def predict_molecules(args: Any) -> None:
    """Predict for a table of SMILES and show how many rows were read."""
    from rich.console import Console

    from gssc.molecules.deployed import DeployedMolecules
    from gssc.molecules.predict import predict_table

    model = DeployedMolecules.load(args.run)
    summary = predict_table(model, args.rows, args.out, args.smiles_column, overwrite=args.overwrite)
    text = f"{summary.rows:,} rows, written to {args.out}"
    if summary.invalid:
        rows = ", ".join(map(str, summary.first_invalid))
        text += f"; {summary.invalid:,} hold no molecule and have blank predictions (row {rows}...)"
    Console(markup=False, highlight=False).print(text, soft_wrap=True)
