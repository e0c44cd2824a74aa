"""``gssc train``: trains a model on a graph and writes a run folder."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from gssc.cli.molecules import STOPPING, add_train_arguments, is_about_molecules, names_molecules, train_molecules
from gssc.config import (
    DEFAULT_MODEL,
    DataSettings,
    RunConfig,
    config_class,
    merged_settings,
    parse_config,
    sections,
)
from gssc.errors import GsscError
from gssc.extras import require_all
from gssc.names import counted
from gssc.recipes import PRESETS, preset_settings, recipe_settings, suited
from gssc.run_folder import config_file, saved_config
from gssc.settings import Settings, parse_section, read_settings
from gssc.tracking import TRACKERS

if TYPE_CHECKING:
    from rich.console import Console

    from gssc.run import Run
    from gssc.train.distributed import Processes

EXAMPLES = """\
examples:
  gssc train cora --out runs/cora                    the default learner, seed 0
  gssc train cora --seed 3 --model.hidden 512 --out runs/wide
  gssc train --graph my_graph.npz --out runs/mine    your own graph (see gssc data import)
  gssc train cora --model str_contrast --out runs/pairs      pair training alone, with the recipe of the dataset
  gssc train cora --preset paper --out runs/paper    pair training as the paper describes it
  gssc train --graph mine.npz --fast --out runs/fast         a linear model in seconds
  gssc train cora --model gcn --out runs/gcn         another model (see gssc bench --list)
  gssc train cora --setting inductive --out runs/inductive
  gssc train --out runs/cora --resume                continue after an interruption
  gssc train bbbp --out runs/bbbp                    a set of molecules (extra molecules)
  gssc train --molecules mine.csv --smiles-column smiles --targets active --out runs/mine
  gssc train bbbp --help                             options and settings for molecules

Settings are layered, and later ones win: defaults, the recipe of the dataset (model str_contrast only), --preset in
place of the recipe, --config, options. The run folder keeps all of them in config.yaml.
"""
DEFAULTS_IN_ARGS = False
FAST_MODEL = "ridge_student"  # --fast is short for --model with this name
NAMED_SECTIONS = ("model", "sparsifier")  # --model gcn is short for --model.name gcn
SETTINGS_BY_ARGUMENTS = True  # the sections of settings depend on the model
SHORTHANDS = {
    "dataset": ("data", "dataset"),
    "graph": ("data", "graph"),
    "split": ("data", "split"),
    "setting": ("data", "setting"),
    "seed": ("train", "seed"),
    "device": ("train", "device"),
}


def add_arguments(parser: Any, arguments: Sequence[str] = ()) -> None:
    """Add the options of the command; those of settings depend on the model that the arguments name."""
    if names_molecules(arguments):
        require_all(("torch", "molecules"))  # that extra includes train
        add_train_arguments(parser, _value_of("--model.name", arguments) or "gssc")
        return
    parser.add_argument("dataset", type=str, nargs="?", help="a dataset's name; see gssc data list")
    parser.add_argument("--out", type=str, help="run folder; default runs/NAME")
    parser.add_argument("--graph", type=str, help="your own graph: .npz, or a folder of gssc data build")
    parser.add_argument("--split", type=str, help="public, fixed-0, per-class:20, ratio:60/20/20, ...")
    parser.add_argument("--setting", type=str, help="transductive, inductive or cold-start")
    parser.add_argument("--seed", type=int, help="seed of the run")
    parser.add_argument(
        "--device",
        type=str,
        help="cpu, cuda, mps, ...; model str_contrast only; results are exactly repeatable on a cpu",
    )
    parser.add_argument(
        "--preset", type=str, help=f"{', '.join(PRESETS)}: settings of model str_contrast, in place of the recipe"
    )
    parser.add_argument(
        "--fast", action="store_true", help=f"a linear model in seconds: short for --model {FAST_MODEL}"
    )
    parser.add_argument("--config", type=str, help="YAML file with settings, such as a run's config.yaml")
    parser.add_argument("--track", type=str, help="also log to tensorboard, mlflow or both, separated by a comma")
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in the folder")
    parser.add_argument("--data-root", type=str, help="folder with data files; default GSSC_DATA_ROOT")
    add_settings(parser, arguments)


def add_settings(parser: Any, arguments: Sequence[str]) -> None:
    """Add one option per setting of the model and the sparsifier that the arguments name."""
    model = named("model", arguments) or DEFAULT_MODEL
    for name, section in sections(config_class(model), model, named("sparsifier", arguments)).items():
        parser.add_argument(f"--{name}", type=section)
        if name in NAMED_SECTIONS:
            action = next(action for action in parser._actions if f"--{name}" in action.option_strings)
            action.metavar = "NAME"
            action.help = f"short for --{name}.name NAME, see gssc bench --list; or a YAML file with these settings"


def expanded(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``--model NAME`` as ``--model.name NAME``; anything else after --model is a file.

    The same for ``--sparsifier NAME``. ``--fast`` names the fast model.
    """
    arguments = [f"--model.name={FAST_MODEL}" if argument == "--fast" else argument for argument in arguments]
    text = "\n".join(arguments)
    named = re.sub(r"^--(model|sparsifier)[=\n](\w+)$", r"--\1.name=\2", text, flags=re.MULTILINE)
    return named.split("\n") if arguments else []


def named(section: str, arguments: Sequence[str]) -> str | None:
    """Return the model or sparsifier that was typed or that a file of settings names, or None."""
    typed, own_file = _value_of(f"--{section}.name", arguments), _value_of(f"--{section}", arguments)
    if typed:
        return typed
    if own_file and Path(own_file).is_file() and "name" in (values := read_settings(own_file)):
        return str(values["name"])
    file, folder = _value_of("--config", arguments), _value_of("--out", arguments)
    files = [Path(file)] if file else []
    if folder and "--resume" in arguments:
        files.append(Path(folder) / "config.yaml")
    for path in filter(Path.is_file, files):
        found = read_settings(path).get(section)
        if isinstance(found, dict) and "name" in found:
            return str(found["name"])
    return None


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if argument == option:
            return following
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def run(args: Any) -> None:
    """Train with the settings of the arguments and show the result; under torchrun, with other processes."""
    molecules = is_about_molecules(args)
    if molecules:
        require_all(("rdkit", "molecules"))
    else:
        require_all(("torch", "train"), *((name, name) for name in _trackers(args) if name in TRACKERS))
    from gssc.train.distributed import joined

    with joined() as processes:
        if molecules:
            if processes.count > 1:
                raise GsscError("models of molecules train in one process: start them without torchrun")
            train_molecules(args)
        elif processes.first:
            _train(args, processes)
        else:
            _train_along(args, processes)


def _trackers(args: Any) -> list[str]:
    return [name.strip() for name in args["track"].split(",")] if args.get("track") else []


def _train_along(args: Any, processes: Processes) -> None:
    """Train along with the first process, which alone reads and writes the run folder."""
    from gssc.result import make_training
    from gssc.run_graph import named_graph

    shared: Any = processes.from_first(lambda: None)
    config, state = shared
    if state is None:  # the run is finished
        return
    training = make_training(named_graph(config.data, args.get("data_root")), config)
    training.load_state_dict(state)
    for _ in training.epochs():
        pass


def _train(args: Any, processes: Processes) -> None:
    from rich.console import Console

    from gssc.progress import EpochProgress
    from gssc.run import Run
    from gssc.tracking import make_tracker

    config = settings_of(args)
    folder = folder_of(args, config.data)
    trackers = [make_tracker(name) for name in _trackers(args)]
    run = Run(
        folder,
        config,
        overwrite=bool(args.get("overwrite")),
        resume=bool(args.get("resume")),
        data_root=args.get("data_root"),
    )
    processes.from_first(lambda: (config, None if run.finished else run.training.state_dict()))
    announce(run, args)
    console = Console(stderr=True, markup=False, highlight=False)
    try:
        with EpochProgress(run.training, console) as progress:
            metrics = run.train(progress.show, trackers, lambda: console.print(STOPPING))
    except KeyboardInterrupt:
        console.print(f"resume with: gssc train --out {quote(str(folder))} --resume", soft_wrap=True)
        raise
    show_result(run, metrics)
    for line in filter(None, (tracker.look for tracker in trackers)):
        Console(markup=False, highlight=False).print(line, soft_wrap=True)


def settings_of(args: Any) -> RunConfig:
    """Return the merged settings: those of a resumed run, else of recipe or preset; then --config, then options."""
    from_file, typed = read_settings(args["config"]) if args.get("config") else {}, _typed(args)
    for one, other in (("dataset", "graph"), ("graph", "dataset")):  # one of the two, and what is typed wins
        if typed.get("data", {}).get(one) is not None:
            from_file.get("data", {}).pop(other, None)
    merged = merged_settings(from_file, typed)
    preset = preset_settings(args["preset"]) if args.get("preset") else None
    data = parse_section("data", DataSettings(), merged.get("data", {}))
    begun = config_file(folder_of(args, data))
    if args.get("resume") and begun.exists():
        before = saved_config(begun)
        model = merged_settings(preset or {}, merged).get("model", {}).get("name", before.model.name)
        if model != before.model.name:
            raise GsscError(
                f"cannot resume {begun.parent} with another model: it trains {before.model.name}, not {model}; "
                "choose another folder, or use --overwrite"
            )
        return parse_config(before.to_dict(), preset or {}, from_file, typed)
    if args.get("resume") and data.dataset is None and data.graph is None:
        raise GsscError(f"there is no run in {begun.parent} to resume; check the folder")
    if preset is None:
        preset = recipe_settings(data.dataset, data.split, merged.get("model", {}).get("name", DEFAULT_MODEL))
    return parse_config(suited(preset, from_file, typed), from_file, typed)


def folder_of(args: Any, data: DataSettings) -> Path:
    """Return the run folder: the one that was typed, or one named after the data."""
    return Path(args.get("out") or Path("runs") / (data.dataset or Path(data.graph or "run").stem))


def _typed(args: Any) -> Settings:
    """Return the typed settings by section; the path of a graph is absolute, so that a run resumes from any folder."""
    given = {name: args[name] for name in vars(args) if hasattr(args[name], "as_dict")}
    typed = {name: values.as_dict() for name, values in given.items()}
    for values in typed.values():
        values.pop("__path__", None)  # of a section read from a file
    for option, (section, name) in SHORTHANDS.items():
        if args.get(option) is not None:
            typed.setdefault(section, {})[name] = args[option]
    if typed.get("data", {}).get("graph") is not None:
        typed["data"]["graph"] = str(Path(typed["data"]["graph"]).absolute())
    return typed


def announce(run: Run, args: Any) -> None:
    """Show what is trained and with which settings, and notes about the graph."""
    from rich.console import Console
    from rich.text import Text

    console, graph, data = Console(stderr=True, markup=False, highlight=False), run.graph, run.config.data
    model = run.config.model.name
    has_recipe = data.dataset and recipe_settings(data.dataset, data.split, model).keys() > {"model"}
    base = "recipe" if has_recipe else "defaults"
    base = f"preset {args['preset']}" if args.get("preset") else base
    base = f"{base}, {args['config']}" if args.get("config") else base
    about = (
        f" ({graph.split}, {graph.setting}), {model}: {counted(graph.num_nodes, 'node')}, "
        f"{counted(graph.num_edges, 'edge')}, {counted(graph.num_features, 'feature')}, "
        f"{graph.num_classes} {graph.task.outputs}; {counted(len(graph.train), 'training label')}; "
        f"seed {run.config.train.seed}; settings: {'those of the run' if run.resumed else base + ' and options'}"
    )
    console.print(Text.assemble((graph.name, "bold"), about), soft_wrap=not console.is_terminal)
    notes = [*graph.notes, *([graph.cleaning.summary()] if any(astuple(graph.cleaning)) else [])]
    if len(graph.val) == 0:
        chooses = "cross-validation over the training labels chooses the model"
        otherwise = "the full schedule is trained and its last epoch kept"
        notes.append(f"no validation nodes: {chooses if model == DEFAULT_MODEL else otherwise}")
    if graph.task.has_classes and graph.num_classes == 1:
        notes.append("every label is of the same class: the model can predict no other")
    for note in filter(None, notes):
        console.print(Text.assemble(("note ", "yellow"), note), soft_wrap=not console.is_terminal)
    if run.resumed:
        state = "is finished already" if run.finished else f"continues from epoch {run.training.epoch}"
        console.print(f"{run.folder} {state}")
    elif args.get("resume"):
        console.print(
            Text.assemble(("note ", "yellow"), f"there was no run in {run.folder} to resume: a new one begins")
        )


def show_result(run: Run, metrics: dict[str, Any]) -> None:
    """Show the scores in a small table, what was chosen and why, and the next command."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{metrics['dataset']} ({metrics['split']}, {metrics['setting']}), seed {metrics['seed']}")
    names = ("val_score", "test_score", "best_epoch", "epochs", "seconds", "edges_kept")
    for name in names:
        title = name.replace("_", " ").replace("score", metrics["metric"]).replace("best", "kept")
        table.add_column(title, justify="right")
    table.add_row(*(shown(name, metrics[name]) for name in names))
    console = Console(markup=False)  # a name may hold brackets
    one_line = not console.is_terminal  # a terminal gets lines that break between words
    console.print(table)
    if reason := metrics.get("kept_because"):  # has the choice of the student, too
        console.print(f"kept epoch {metrics['best_epoch']}: {reason}", soft_wrap=one_line)
    show_choices(console, {name: reason for name, reason in metrics.get("choices", {}).items() if name != "student"})
    for note in metrics.get("notes", []):
        console.print(Text.assemble(("note ", "yellow"), note), soft_wrap=one_line)
    if reason := metrics.get("needs_graph"):
        console.print(f"saved to {run.folder}, with the scores of every node in scores.npz; {reason}", soft_wrap=True)
        return
    following = f"gssc predict {quote(str(run.folder))} ROWS --out predictions.csv"
    console.print(f"saved to {run.folder}; next: {following}", soft_wrap=True)


def show_choices(console: Console, choices: dict[str, str]) -> None:
    """Show what the training decided, a line per choice; on a terminal, long reasons are wrapped beside the name."""
    from rich.table import Table

    if not console.is_terminal:
        width = max(map(len, choices), default=0)
        for name, reason in choices.items():
            console.print(f"  {name:<{width}}  {reason}", soft_wrap=True)
        return
    lines = Table.grid(padding=(0, 0, 0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for name, reason in choices.items():
        lines.add_row(name, reason)
    console.print(lines)


def shown(name: str, value: Any) -> str:
    """Return a number as text for the table."""
    if value is None or math.isnan(value):
        return "-"
    if name.endswith("score"):
        return f"{value:.2%}"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
