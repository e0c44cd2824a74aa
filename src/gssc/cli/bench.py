"""``gssc bench``: any model with any sparsifier on any graph under any noise, with every run in a store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gssc.errors import GsscError
from gssc.names import counted, nearest
from gssc.progress_bar import ProgressBar

if TYPE_CHECKING:
    from gssc.evaluate.executor import Executor
    from gssc.evaluate.sweep import Job, Sweep

EXAMPLES = """\
examples:
  gssc bench --list                                 every model, sparsifier, dataset and noise
  gssc bench --models gcn,str_contrast --datasets cora
  gssc bench --models mlp,gcn,str_contrast --sparsifiers none,drop_edge,str_sparse --datasets cora,citeseer \\
             --label-noise symmetric:0.4 --structure-noise 0.2 --seeds 5 --store results.sqlite --jobs 2
  gssc bench --models gcn,str_contrast --graph mine.npz,yours.npz:ratio:60/20/20
  gssc bench --models gcn,str_contrast --datasets cora --settings inductive,cold-start
  gssc bench --models all --datasets actor:fixed,squirrel --seeds 10 --jobs 2
  gssc bench --store results.sqlite --export results.parquet       show and export what is stored (also csv, md, tex)

Lists make a cross product; impossible combinations are left out, with the reason. A run that is in the store is not
repeated: stop a sweep at any time and give the same command to continue, or give it on several machines that share the
store. With numbered splits (actor:fixed, squirrel), seed s takes split s; splits that are drawn (cora:per-class:20) are
drawn by the seed. Two noise rates (0.2,0.4) are separate runs.
"""
ENGINES = ("local", "ray")
# Only options that were typed are passed on, so that no default overrides a recipe. These values fill in the rest.
DEFAULTS_IN_ARGS = False
DEFAULTS: dict[str, Any] = {
    "list": False,
    "models": None,
    "sparsifiers": "none",
    "datasets": None,
    "graph": None,
    "settings": "transductive",
    "label_noise": "none",
    "structure_noise": "none",
    "feature_noise": "none",
    "seeds": 5,
    "max_epochs": 0,
    "store": "results.sqlite",
    "engine": "local",
    "jobs": None,
    "export": None,
    "against": None,
    "retry": False,
    "rerun": False,
    "overwrite": False,
    "sparsifier": {},
}
HELP = {
    "list": "show every model, sparsifier, dataset and noise, and exit",
    "models": "names, or all",
    "sparsifiers": "names, or all",
    "datasets": "names, optionally each with a split: cora,actor:fixed",
    "graph": "your own graph files, optionally each with a split to draw: mine.npz,yours.npz:per-class:20",
    "settings": "transductive, inductive, cold-start",
    "label_noise": "KIND:RATE, such as symmetric:0.4",
    "structure_noise": "KIND:RATE, such as random:0.2",
    "feature_noise": "KIND:RATE, such as mask:0.3",
    "seeds": "number of seeds, from seed 0 on",
    "max_epochs": "maximum epochs of every run, for a quick look; 0 for no limit",
    "store": "SQLite file that keeps every run",
    "engine": "where runs are computed: local (processes of this machine) or ray (a Ray cluster, RAY_ADDRESS)",
    "jobs": "runs at once, one thread each; default 1, with ray as many as the cluster has cores",
    "export": "write runs to .parquet or .csv, or a table to .md or .tex",
    "against": "method that others are compared with by paired differences, such as gcn or gcn+drop_edge",
    "retry": "repeat runs that failed",
    "rerun": "repeat runs that are in the store",
    "overwrite": "replace the --export file if it exists",
}


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    from gssc.sparsify.registry import every_setting

    for name, text in HELP.items():
        option, default = f"--{name.replace('_', '-')}", DEFAULTS[name]
        if default is False:
            parser.add_argument(option, action="store_true", help=text)
        else:
            kind = int if name in ("seeds", "max_epochs", "jobs") else str
            parser.add_argument(option, type=kind, default=default, help=text)
    parser.add_argument("--sparsifier", type=every_setting())


def run(args: Any) -> None:
    """Run what is missing, show the table, export; an error at the end if some run failed."""
    from rich.console import Console

    from gssc.cli.molecules import about_molecules, bench_molecules
    from gssc.evaluate.export import WRITERS, export_runs
    from gssc.evaluate.store import Store
    from gssc.files import check_output

    options = SimpleNamespace(**{**DEFAULTS, **args.as_dict()})
    options.sparsifier.pop("__path__", None)  # of a section read from a file
    if options.list:
        show_lists()
        return
    export = check_output(options.export, WRITERS, options.overwrite) if options.export else None
    store, ran = Store(Path(options.store)), bool(options.models or options.datasets or options.graph)
    if not ran and not Path(options.store).exists():
        raise GsscError(
            f"name --models and --datasets to run, or an existing store to show; {options.store} does not exist"
        )
    runner = bench_molecules if about_molecules(options.datasets) else run_sweep
    runs = runner(options, store) if ran else store.runs()
    show_table(runs, options.against)
    if export:
        what = export_runs(export, runs, options.against)
        Console(markup=False, highlight=False).print(f"{what} written to {export}", soft_wrap=True)
    failed = sum(row["status"] == "failed" for row in runs)
    if ran and failed:
        raise GsscError(f"{failed} of {counted(len(runs), 'run')} failed; add --retry to run them again")


def run_sweep(options: Any, store: Any) -> list[dict[str, Any]]:
    """Run the cross product of the options, except for what the store has already."""
    from rich.console import Console
    from rich.text import Text

    from gssc.data.registry import DATASETS
    from gssc.evaluate.cell import cells
    from gssc.evaluate.sweep import Sweep
    from gssc.graph import LEARNING_SETTINGS
    from gssc.models.registry import MODELS
    from gssc.sparsify.registry import SPARSIFIERS

    if not (options.models and (options.datasets or options.graph)):
        raise GsscError("name --models, and --datasets or --graph; gssc bench --list shows them")
    if options.seeds < 1 or (options.jobs or 1) < 1 or options.max_epochs < 0:
        raise GsscError("--seeds and --jobs must be at least 1, --max-epochs at least 0")
    if "name" in options.sparsifier:
        raise GsscError("--sparsifier.name is a factor of the comparison: give --sparsifiers instead")
    made, refused = cells(
        names(options.models, MODELS),
        names(options.sparsifiers, SPARSIFIERS),
        names(options.datasets, DATASETS) if options.datasets else [],
        graphs=names(options.graph) if options.graph else [],
        settings=names(options.settings, LEARNING_SETTINGS),
        label_noise=names(options.label_noise),
        structure_noise=names(options.structure_noise),
        feature_noise=names(options.feature_noise),
        seeds=options.seeds,
        max_epochs=options.max_epochs,
    )
    console = Console(stderr=True)
    for reason in refused.values():
        console.print(Text.assemble(("left out ", "yellow"), reason))
    if not made:
        raise GsscError("nothing is left to run: " + "; ".join(refused.values()))
    executor = executor_of(options)
    sweep = Sweep(made, store, executor, options.sparsifier, again=options.rerun, retry=options.retry)
    console.print(
        f"{counted(len(made), 'run')}, {len(made) - len(sweep.missing)} in {options.store} already; "
        f"{len(sweep.missing)} to do on {executor}",
        highlight=False,
    )
    with SweepBar(sweep) as bar:
        sweep.run(bar)
    return list(store.runs(sweep.keys))


def executor_of(options: Any) -> Executor:
    """Return the executor that the options name."""
    from gssc.evaluate.executor import LocalProcesses
    from gssc.evaluate.sweep import run_job

    if options.engine not in ENGINES:
        raise GsscError(f"unknown --engine {options.engine!r}: {nearest(options.engine, ENGINES)}")
    if options.engine == "ray":
        from gssc.evaluate.ray_executor import RayTasks

        return RayTasks(run_job, options.jobs)
    return LocalProcesses(run_job, options.jobs or 1)


def names(text: str, every: Any = ()) -> list[str]:
    """Return ``a,b`` as a list; ``all`` stands for every registered name."""
    listed = [name.strip() for name in str(text).split(",") if name.strip()]
    if listed == ["all"] and every:
        return list(every)
    if not listed:
        raise GsscError(f"{text!r} names nothing; gssc bench --list shows what there is")
    return list(dict.fromkeys(listed))


class SweepBar:
    """Shows runs done, running and failed, and the time left."""

    def __init__(self, sweep: Sweep):
        self.executor = sweep.executor
        self.bar = ProgressBar("comparing", len(sweep.missing), "runs", watch=self._done)
        self.finished = self.failed = 0
        self.running: list[str] = []

    def __enter__(self) -> SweepBar:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__(*error)

    def started(self, job: Job) -> None:
        """Count a run that begins."""
        self.running.append(job.cell.title)
        self._show()

    def ended(self, job: Job, row: dict[str, Any]) -> None:
        """Count a run that is in the store now."""
        if job.cell.title in self.running:
            self.running.remove(job.cell.title)
        if row["error"]:
            from rich.text import Text

            self.failed += 1
            line = Text.assemble(("failed ", "red"), f"{job.cell.title}: {row['error']}")
            self.bar.console.print(line, soft_wrap=True)
        self.finished += 1
        self._show()

    def found(self, job: Job) -> None:
        """Count a run that another process has done."""
        self.finished += 1
        self._show()

    def _done(self) -> float:
        """Return the number of runs that are done, with the finished shares of those that are running."""
        return self.finished + self.executor.in_flight()

    def _show(self) -> None:
        failed = [f"{self.failed} failed"] if self.failed else []
        running = [f"running {'; '.join(self.running)}"] if self.running else []
        self.bar.update(self._done(), ", ".join([*failed, *running]))


def show_table(runs: list[dict[str, Any]], against: str | None) -> None:
    """Show means over seeds, one method per row."""
    from rich.console import Console
    from rich.table import Table

    from gssc.evaluate.summary import result_table

    found = result_table(runs, against)
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
    """Show every model, sparsifier, dataset and noise, each with a summary and its paper."""
    from rich.console import Console
    from rich.table import Table

    from gssc.data.noise import NOISE
    from gssc.data.registry import DATASETS
    from gssc.models.registry import MODELS
    from gssc.molecules.registry import MODELS as MOLECULE_MODELS
    from gssc.sparsify.registry import SPARSIFIERS

    console = Console()
    lists = {
        "models": {name: (entry.summary, entry.paper) for name, entry in MODELS.items()},
        "models of molecules": {name: (entry.summary, entry.paper) for name, entry in MOLECULE_MODELS.items()},
        "sparsifiers": {name: (entry.summary, entry.paper) for name, entry in SPARSIFIERS.items()},
        "datasets": {name: (entry.description, entry.citation) for name, entry in DATASETS.items()},
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
