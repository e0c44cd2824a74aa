"""``gssc tune``: search settings by validation score, with test labels removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from gssc.cli.train import add_settings, settings_of
from gssc.cli.train import expanded as expanded
from gssc.errors import GsscError
from gssc.progress_bar import ProgressBar
from gssc.recipes import PRESETS
from gssc.text_tables import first_repeated

EXAMPLES = """\
examples:
  gssc tune cora --search model.hidden=64,128,256 --search teachers.best=2..10 --trials 50 --jobs 2
  gssc tune --graph mine.npz --model gcn --search train.lr=1e-4..1e-1:log --seeds 3 --out tune/mine
  gssc train cora --config tune/cora/recipe.yaml           with the settings that won

Candidates of a setting are choices (64,128,256) or a range (0.1..0.7, with :log on a logarithmic scale); without
--search, those of a few settings that matter for the model. Test labels are removed before the search starts. Stop a
search at any time and give the same command to continue; give it several times, also on machines that share the folder,
to search faster. Trials that fall behind the median of the others are pruned. Other settings (--teachers.rounds 1)
apply to every trial.
"""
DEFAULTS_IN_ARGS = False
SETTINGS_BY_ARGUMENTS = True
TRIALS, SEEDS, JOBS = 30, 1, 1
SHOWN_TRIALS = 5


def add_arguments(parser: Any, arguments: Sequence[str] = ()) -> None:
    """Add the options of the command."""
    parser.add_argument("dataset", type=str, nargs="?", help="a dataset's name; see gssc data list")
    parser.add_argument("--graph", type=str, help="your own graph, .npz")
    parser.add_argument("--split", type=str, help="public, fixed-0, per-class:20, ratio:60/20/20, ...")
    parser.add_argument("--setting", type=str, help="transductive, inductive or cold-start")
    parser.add_argument("--search", type=str, action="append", help="SETTING=CANDIDATES; may be given several times")
    parser.add_argument(
        "--trials", type=int, default=TRIALS, help="number of trials, including those already in the folder"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="trainings per trial, from seed 100 on")
    parser.add_argument("--jobs", type=int, default=JOBS, help="trials at once, one process each")
    parser.add_argument("--out", type=str, help="folder of the search and of recipe.yaml; default tune/NAME")
    parser.add_argument(
        "--preset", type=str, help=f"{', '.join(PRESETS)}: settings of model str_contrast, in place of the recipe"
    )
    parser.add_argument("--config", type=str, help="YAML file with settings")
    parser.add_argument("--data-root", type=str, help="folder with data files; default GSSC_DATA_ROOT")
    add_settings(parser, arguments)


def run(args: Any) -> None:
    """Search, and show the best trials."""
    from rich.console import Console

    from gssc.evaluate.executor import LocalProcesses
    from gssc.evaluate.search_space import default_space, parse_dimension
    from gssc.evaluate.tuning import RECIPE, Tuning, run_trial, tune

    trials, seeds, jobs = args.get("trials", TRIALS), args.get("seeds", SEEDS), args.get("jobs", JOBS)
    if min(trials, seeds, jobs) < 1:
        raise GsscError("--trials, --seeds and --jobs must be at least 1")
    base = settings_of(args)
    space = tuple(parse_dimension(text, base) for text in args.get("search") or default_space(base))
    if twice := first_repeated(dimension.setting for dimension in space):
        raise GsscError(f"--search names {twice} twice: join the candidates with commas")
    if not space:
        raise GsscError("name what to search: --search SETTING=CANDIDATES")
    name = base.data.dataset or Path(base.data.graph or "graph").stem
    folder = Path(args.get("out") or Path("tune") / name)
    tuning = Tuning(str(folder), base.to_dict(), space, seeds, args.get("data_root"))
    console = Console(stderr=True, markup=False, highlight=False)
    executor, finished = LocalProcesses(run_trial, jobs), 0
    bar = ProgressBar("starting", console=console, watch=lambda: finished + executor.in_flight())

    def show(progress: Any) -> None:
        nonlocal finished
        finished = progress.finished
        if bar.total is None:
            bar.begin("searching", trials, "trials", finished)  # with those of earlier commands
        best = "" if progress.best is None else f", best {progress.best:.4f}"
        bar.update(finished + executor.in_flight(), f"{progress.pruned} pruned{best}" if finished else "")
        if not console.is_terminal:
            console.print(bar.line(), soft_wrap=True)

    try:
        with bar:
            study = tune(tuning, trials, executor, show)
    except KeyboardInterrupt:
        console.print(f"finished trials are kept in {folder}: give the same command to continue", soft_wrap=True)
        raise
    show_trials(study, space)
    where = f"--graph {quote(base.data.graph)}" if base.data.graph else name
    recipe = folder / RECIPE
    Console(markup=False, highlight=False).print(
        f"recipe written to {recipe}; next: gssc train {where} --config {quote(str(recipe))}", soft_wrap=True
    )


def show_trials(study: Any, space: Sequence[Any]) -> None:
    """Show the best trials with their settings."""
    from rich.console import Console
    from rich.table import Table

    complete = sorted(
        (trial for trial in study.trials if trial.value is not None and trial.state.name == "COMPLETE"),
        key=lambda trial: -trial.value,
    )
    if not complete:
        raise GsscError("no trial finished: all failed or were pruned; check --search and the settings")
    table = Table(title="best trials by validation score", title_justify="left")
    for heading in ("trial", "validation", *(dimension.setting for dimension in space)):
        table.add_column(heading, justify="right")
    for trial in complete[:SHOWN_TRIALS]:
        values = (trial.params[dimension.setting] for dimension in space)
        table.add_row(
            str(trial.number),
            f"{trial.value:.4f}",
            *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values),
        )
    Console(markup=False).print(table)
