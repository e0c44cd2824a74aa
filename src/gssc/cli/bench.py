"""``gssc bench``: any model with any sparsifier on any data set under any noise, in a store that remembers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gssc.config import SparsifierConfig
from gssc.errors import GsscError

if TYPE_CHECKING:
    from gssc.evaluate.sweep import Job, Sweep

EXAMPLES = """\
examples:
  gssc bench --list                                 every model, sparsifier, data set and noise
  gssc bench --models gcn,str_contrast --datasets cora
  gssc bench --models mlp,gcn,str_contrast --sparsifiers none,drop_edge,str_sparse --datasets cora,citeseer \\
             --label-noise symmetric:0.4 --structure-noise 0.2 --seeds 5 --store results.sqlite --jobs 2
  gssc bench --models gcn,str_contrast --datasets cora --settings inductive,cold-start
  gssc bench --models all --datasets actor:fixed,squirrel --seeds 10 --jobs 2
  gssc bench --store results.sqlite --export results.parquet       what is there, run nothing (also csv, md, tex)

Every comma makes one more factor of the cross product; impossible pairs are left out, with the reason. A run that is
in the store is not run again: stop a sweep at any moment and give the same command to go on. Of numbered splits
(actor:fixed, squirrel) seed s takes split s; splits that are drawn (cora:per-class:20) are drawn by the seed. Of two
noise rates (0.2,0.4) each is a run of its own.
"""
SECONDS_BETWEEN_LINES = 30


def add_arguments(parser: Any) -> None:
    """The options of the command."""
    parser.add_argument(
        "--list", action="store_true", help="show every model, sparsifier, data set and noise, and stop"
    )
    parser.add_argument("--models", type=str, help="names, or all")
    parser.add_argument("--sparsifiers", type=str, default="none", help="names, or all")
    parser.add_argument("--datasets", type=str, help="names, each with a split if you like: cora,actor:fixed")
    parser.add_argument("--settings", type=str, default="transductive", help="transductive, inductive, cold-start")
    parser.add_argument("--label-noise", type=str, default="none", help="KIND:RATE, such as symmetric:0.4")
    parser.add_argument("--structure-noise", type=str, default="none", help="KIND:RATE, such as random:0.2")
    parser.add_argument("--feature-noise", type=str, default="none", help="KIND:RATE, such as mask:0.3")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to this less one")
    parser.add_argument(
        "--max-epochs", type=int, default=0, help="cut every schedule short, for a quick look; 0: do not"
    )
    parser.add_argument("--store", type=str, default="results.sqlite", help="SQLite file that keeps every run")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--export", type=str, help="write runs to .parquet or .csv, or a table to .md or .tex")
    parser.add_argument(
        "--against", type=str, help="method to take paired differences to, such as gcn or gcn+drop_edge"
    )
    parser.add_argument("--retry", action="store_true", help="run again what failed")
    parser.add_argument("--rerun", action="store_true", help="run again what is done")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --export")
    parser.add_argument("--sparsifier", type=SparsifierConfig)


def run(args: Any) -> None:
    """Run what is missing, show the table, export."""
    from gssc.evaluate.export import WRITERS, export_rows
    from gssc.evaluate.store import Store
    from gssc.files import check_output

    if args.list:
        show_lists()
        return
    export = check_output(args.export, WRITERS, args.overwrite) if args.export else None
    store = Store(Path(args.store))
    if args.datasets and about_molecules(args.datasets):
        rows = run_molecules(args, store)
    elif args.models or args.datasets:
        rows = run_sweep(args, store)
    elif Path(args.store).exists():
        rows = store.rows()
    else:
        raise GsscError(
            f"name --models and --datasets to run, or an existing store to show; {args.store} does not exist"
        )
    show_table(rows, args.against)
    if export:
        export_rows(export, rows, args.against)


def run_sweep(args: Any, store: Any) -> list[dict[str, Any]]:
    """The cross product of the options, as far as the store does not have it."""
    from rich.console import Console
    from rich.text import Text

    from gssc.data.registry import DATASETS
    from gssc.evaluate.cell import cells
    from gssc.evaluate.executor import LocalProcesses
    from gssc.evaluate.sweep import Sweep, run_job
    from gssc.models.registry import MODELS
    from gssc.sparsify.registry import SPARSIFIERS

    if not (args.models and args.datasets):
        raise GsscError("name both --models and --datasets; gssc bench --list shows them")
    if args.seeds < 1 or args.jobs < 1 or args.max_epochs < 0:
        raise GsscError("--seeds and --jobs must be at least 1, --max-epochs at least 0")
    made, refused = cells(
        names(args.models, MODELS),
        names(args.sparsifiers, SPARSIFIERS),
        names(args.datasets, DATASETS),
        settings=names(args.settings, ("transductive", "inductive", "cold-start")),
        label_noise=names(args.label_noise),
        structure_noise=names(args.structure_noise),
        feature_noise=names(args.feature_noise),
        seeds=args.seeds,
        max_epochs=args.max_epochs,
    )
    console = Console(stderr=True)
    for reason in refused.values():
        console.print(Text.assemble(("left out ", "yellow"), reason))
    if not made:
        raise GsscError("nothing is left to run: " + "; ".join(refused.values()))
    settings = vars(args.sparsifier) if args.sparsifier else {}
    sweep = Sweep(made, store, LocalProcesses(run_job, args.jobs), settings, again=args.rerun, retry=args.retry)
    console.print(
        f"{len(made)} runs, {len(made) - len(sweep.missing)} of them in {args.store} already; "
        f"{len(sweep.missing)} to do on {args.jobs} {'process' if args.jobs == 1 else 'processes'}",
        highlight=False,
    )
    with SweepBar(sweep) as bar:
        sweep.run(bar)
    return list(store.rows(sweep.keys))


def about_molecules(datasets: str) -> bool:
    """Whether the first data set named is a set of molecules: those are compared apart from graphs."""
    from gssc.data.load import find_dataset

    listed = names(datasets)
    return listed != ["all"] and find_dataset(listed[0].partition(":")[0]).level == "graph"


def run_molecules(args: Any, store: Any) -> list[dict[str, Any]]:
    """The cross product on sets of molecules, as far as the store does not have it."""
    from rich.console import Console

    from gssc.molecules.bench import molecule_cells, sweep
    from gssc.molecules.registry import MODELS

    if not args.models:
        raise GsscError(f"name --models for molecules: {', '.join(MODELS)}")
    cells = molecule_cells(names(args.models, MODELS), names(args.datasets), args.seeds, args.max_epochs)
    console = Console(stderr=True, highlight=False)
    rows: list[dict[str, Any]] = []
    for row in sweep(
        cells,
        store,
        again=args.rerun,
        retry=args.retry,
        started=lambda cell: console.print(f"{len(rows)} of {len(cells)} done; running {cell.title}"),
    ):
        rows.append(row)
        if row["error"]:
            console.print(
                f"failed: {row['model']} on {row['dataset']}, seed {row['seed']}: {row['error']}", markup=False
            )
    return rows


def names(text: str, every: Any = ()) -> list[str]:
    """``a,b`` as a list; ``all`` is every name there is."""
    listed = [name.strip() for name in str(text).split(",") if name.strip()]
    if listed == ["all"] and every:
        return list(every)
    if not listed:
        raise GsscError(f"{text!r} names nothing; gssc bench --list shows what there is")
    return list(dict.fromkeys(listed))


class SweepBar:
    """Runs done, running, failed, time left; a line now and then where there is no terminal."""

    def __init__(self, sweep: Sweep):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = Console(stderr=True)
        self.progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.total, self.done, self.failed = len(sweep.missing), 0, 0
        self.task = self.progress.add_task("", total=self.total)
        self.running: list[str] = []
        self.began = self.said = time.monotonic()

    def __enter__(self) -> SweepBar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()
        if self.failed:
            self.console.print(f"[red]{self.failed} of {self.total} runs failed[/red]; --retry runs them again")

    def started(self, job: Job) -> None:
        """A run begins."""
        self.running.append(job.cell.title)
        self._show()

    def ended(self, job: Job, row: dict[str, Any]) -> None:
        """A run is in the store."""
        if job.cell.title in self.running:
            self.running.remove(job.cell.title)
        self.done += 1
        if row["error"]:
            from rich.text import Text

            self.failed += 1
            self.console.print(Text.assemble(("failed ", "red"), f"{job.cell.title}: {row['error']}"))
        self._show()

    def found(self, job: Job) -> None:
        """Another process has done it."""
        self.done += 1
        self._show()

    def _show(self) -> None:
        failed = f", {self.failed} failed" if self.failed else ""
        self.progress.update(
            self.task,
            completed=self.done,
            description=f"running {len(self.running)}{failed}: {'; '.join(self.running)}",
        )
        now = time.monotonic()
        if not self.console.is_terminal and now - self.said > SECONDS_BETWEEN_LINES:
            self.said = now
            left = (now - self.began) / max(self.done, 1) * (self.total - self.done)
            self.console.print(
                f"{self.done} of {self.total} done{failed}, about {left / 60:.0f} min left", highlight=False
            )


def show_table(rows: list[dict[str, Any]], against: str | None) -> None:
    """Means over seeds, a method a row."""
    from rich.console import Console
    from rich.table import Table

    from gssc.evaluate.summary import result_table

    found = result_table(rows, against)
    if not found.scores:
        return
    table = Table()
    table.add_column("method")
    for heading in found.headings:
        table.add_column(heading, justify="right")
    for method, texts in found.texts(bold=("[bold]", "[/bold]"), second=("[italic]", "[/italic]")):
        table.add_row(method, *texts)
    console = Console()
    console.print(table)
    console.print(found.caption, style="dim", highlight=False)


def show_lists() -> None:
    """Every model, sparsifier, data set and noise, with a line on each and its paper."""
    from rich.console import Console
    from rich.table import Table

    from gssc.data.noise import NOISE
    from gssc.data.registry import DATASETS
    from gssc.models.registry import MODELS
    from gssc.sparsify.registry import SPARSIFIERS

    console = Console()
    lists = {
        "models": {name: (entry.summary, entry.paper) for name, entry in MODELS.items()},
        "sparsifiers": {name: (entry.summary, entry.paper) for name, entry in SPARSIFIERS.items()},
        "data sets": {name: (entry.description, entry.citation) for name, entry in DATASETS.items()},
        **{
            f"{on} noise": {kind: (entry.summary, entry.paper) for kind, entry in kinds.items()}
            for on, kinds in NOISE.items()
        },
    }
    for title, entries in lists.items():
        table = Table(title=title, title_justify="left")
        for heading in ("name", "what it is", "paper"):
            table.add_column(heading)
        for name, (summary, paper) in entries.items():
            table.add_row(name, summary, paper)
        console.print(table)
