"""Search for settings with Optuna: resumable, shared by any number of processes, without test labels."""

from __future__ import annotations

import json
import math
import os
import secrets
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from gssc.config import RunConfig, parse_config
from gssc.errors import GsscError
from gssc.evaluate.claims import is_gone, this_process
from gssc.evaluate.executor import Executor, LocalProcesses
from gssc.evaluate.reported_fit import reported_fit
from gssc.evaluate.search_space import Dimension, with_settings
from gssc.extras import require
from gssc.files import atomic_write
from gssc.graph import Graph
from gssc.run_graph import fingerprint, named_graph
from gssc.settings import Settings

FIRST_SEED = 100  # first seed of the search; results are reported on other seeds, from 0 on
STUDY, RECIPE = "study.sqlite", "recipe.yaml"
STUDY_NAME = "gssc"
BEAT_SECONDS, SILENCE_SECONDS = 10, 60
SECONDS_BETWEEN_LOOKS = 1.0  # between checks of the trials of other processes
# How a search may differ from the one in the folder.
CHANGED = {
    "settings": "other settings",
    "space": "other candidates (--search)",
    "seeds": "another number of --seeds",
    "graph": "another graph",
}
STARTUP_TRIALS = 5  # number of first trials that are not pruned, since there is nothing to compare them with


@dataclass(frozen=True)
class Tuning:
    """A search, in a form that can be sent to a worker.

    Args:
        folder: where the study and the recipe are kept.
        settings: settings that the search starts from, including ``data``.
        space: the settings to search.
        seeds: trainings per trial; the trial's value is their mean.
        data_root: where data files are.
        token: names the process that starts the trials.
    """

    folder: str
    settings: Settings = field(hash=False)
    space: tuple[Dimension, ...]
    seeds: int = 1
    data_root: str | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def base(self) -> RunConfig:
        """The settings, parsed."""
        return parse_config(self.settings)

    def graph(self) -> Graph:
        """Return the graph without its test labels, so that no code of the search has access to them."""
        return _blind_graph(json.dumps(self.settings["data"], sort_keys=True), self.data_root)


@lru_cache(maxsize=1)
def _blind_graph(data: str, data_root: str | None) -> Graph:
    graph = without_test_labels(named_graph(parse_config({"data": json.loads(data)}).data, data_root))
    if not len(graph.val):
        raise GsscError(
            f"{graph.name} has no validation nodes, so there is nothing to choose settings by: give it some"
        )
    return graph


def without_test_labels(graph: Graph) -> Graph:
    """Return the same graph with the labels of test nodes unknown: nothing chosen on it can depend on them.

    >>> import numpy as np
    >>> graph = Graph(np.eye(3), [[0, 1], [1, 2]], labels=["a", "b", "b"], train=[0], val=[1], test=[2])
    >>> blind = without_test_labels(graph)
    >>> blind.labels.tolist(), blind.num_classes
    ([0, 1, -1], 2)
    """
    labels = graph.labels.copy()
    labels[graph.test] = graph.task.missing
    return graph.with_(labels=labels, class_names=graph.output_names)


def val_score(graph: Graph, config: RunConfig, on_epoch: Callable[[Any], None], part: int = 0, parts: int = 1) -> float:
    """Train, and return the validation score; the arguments are those of :func:`reported_fit`.

    The graph must have no test labels.
    """
    result = reported_fit(graph, config, on_epoch, part, parts)
    assert math.isnan(result.test_score), "a test label reached the search"
    return result.val_score


@contextmanager
def _quiet() -> Iterator[Any]:
    """Yield Optuna without its log and without its warnings about experimental features."""
    optuna = require("optuna", extra="tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield optuna


def open_study(tuning: Tuning) -> Any:
    """Return the study in the folder, created if there is none. Raises GsscError for a study of another search."""
    folder = Path(tuning.folder)
    about = {
        "settings": tuning.settings,
        "space": [asdict(dimension) for dimension in tuning.space],
        "seeds": tuning.seeds,
        "graph": fingerprint(tuning.graph()),
    }
    text = json.dumps(about, sort_keys=True)
    require("optuna", extra="tune")
    folder.mkdir(parents=True, exist_ok=True)
    with _quiet() as optuna, _one_at_a_time(folder):
        try:
            storage = optuna.storages.RDBStorage(
                f"sqlite:///{folder / STUDY}",
                engine_kwargs={"connect_args": {"timeout": 60}},
                heartbeat_interval=BEAT_SECONDS,
                grace_period=SILENCE_SECONDS,
                heartbeat_stale_trial_callback=lambda study, trial: study.enqueue_trial(trial.params),
            )
            study = optuna.create_study(
                study_name=STUDY_NAME,
                storage=storage,
                direction="maximize",
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS),
            )
            begun_with = study.user_attrs.setdefault("about", text)
        except Exception as error:  # SQLAlchemy's own, of many kinds
            reason = str(error).splitlines()[0]
            raise GsscError(f"cannot use the study {folder / STUDY}: {reason}; choose another folder") from None
        if begun_with != text:
            was = json.loads(begun_with)
            changed = next(name for name in about if json.loads(json.dumps(about[name])) != was.get(name))
            raise GsscError(
                f"{folder} holds a search with {CHANGED[changed]}; choose another --out or repeat it as it was"
            )
        study.set_user_attr("about", text)
        study.sampler = optuna.samplers.TPESampler(seed=len(study.trials), constant_liar=True)
    return study


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder, so that only one process at a time opens the study and creates its tables."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def run_trial(tuning: Tuning) -> dict[str, Any]:
    """Run one trial of the study in a worker."""
    study, graph = open_study(tuning), tuning.graph()
    with _quiet() as optuna:
        number = -1

        def objective(trial: Any) -> float:
            nonlocal number
            number = trial.number
            trial.set_user_attr("process", this_process())
            trial.set_user_attr("token", tuning.token)
            config = with_settings(tuning.base, {each.setting: each.suggest(trial) for each in tuning.space})
            scores: list[float] = []
            for index in range(tuning.seeds):
                config.train.seed = FIRST_SEED + index
                report = _reporter(optuna, trial, index * (config.total_epochs + 1))
                try:
                    scores.append(val_score(graph, config, report, index, tuning.seeds))
                except GsscError as error:  # diverged, or settings that do not fit together
                    trial.set_user_attr("error", str(error))
                    raise optuna.TrialPruned from None
            return statistics.mean(scores)

        study.optimize(objective, n_trials=1)
    trial = study.trials[number]
    return {"number": number, "state": trial.state.name, "value": trial.value}


def _reporter(optuna: Any, trial: Any, first_step: int) -> Callable[[Any], None]:
    """Return a callback that reports the best validation score so far and prunes a trial that is behind the others."""
    best = -math.inf

    def report(record: Any) -> None:
        nonlocal best
        best = max(best, record.val_score)
        trial.report(best, first_step + record.epoch)
        if trial.should_prune():
            raise optuna.TrialPruned

    return report


@dataclass
class Progress:
    """The progress of a study."""

    finished: int
    pruned: int
    running_elsewhere: int
    best: float | None


def progress_of(study: Any, token: str) -> Progress:
    """Return the counts of trials; trials of dead processes are queued again first."""
    with _quiet() as optuna:
        states = optuna.trial.TrialState
        optuna.storages.fail_stale_trials(study)  # also those of other machines, which have no heartbeat any more
        running = 0
        for trial in study.get_trials(deepcopy=False, states=[states.RUNNING]):
            if _is_abandoned(trial):
                # It may have finished, or been released by another process, since the trials were listed.
                with suppress(ValueError, optuna.exceptions.UpdateFinishedTrialError):
                    study.tell(trial.number, state=states.FAIL)
                    study.enqueue_trial(trial.params)
            elif trial.user_attrs.get("token") != token:
                running += 1
        complete = study.get_trials(deepcopy=False, states=[states.COMPLETE])
        pruned = len(study.get_trials(deepcopy=False, states=[states.PRUNED]))
        best = max((trial.value for trial in complete), default=None)
    return Progress(len(complete) + pruned, pruned, running, best)


def _is_abandoned(trial: Any) -> bool:
    """Return whether the process of a running trial has ended on this machine.

    A trial is created before its process is noted. If the process is killed in between, only the trial's age shows it.
    """
    if "process" in trial.user_attrs:
        return is_gone(trial.user_attrs["process"])
    return (datetime.now() - trial.datetime_start).total_seconds() > SILENCE_SECONDS


def tune(
    tuning: Tuning,
    trials: int,
    executor: Executor | None = None,
    on_trial: Callable[[Progress], None] | None = None,
) -> Any:
    """Run trials until the study has ``trials`` of them, write the settings of the best one, and return the study.

    Trials of other processes on the same study count. A trial whose process died is run again.

    Args:
        tuning: the search.
        trials: total number of trials of the study.
        executor: runs :func:`run_trial`; one process of this machine if left out.
        on_trial: called before the first trial of this call and after each.
    """
    study, executor = open_study(tuning), executor or LocalProcesses(run_trial)
    if on_trial:
        on_trial(progress_of(study, tuning.token))
    in_flight = 0

    def left() -> Iterator[Tuning]:
        nonlocal in_flight
        while True:
            progress = progress_of(study, tuning.token)
            if progress.finished + progress.running_elsewhere + in_flight >= trials:
                return
            in_flight += 1
            yield tuning

    while (progress := progress_of(study, tuning.token)).finished < trials:
        for finished in executor.run(left(), lambda job: None):
            in_flight -= 1
            if finished.error:
                raise GsscError(f"a trial failed: {finished.error}")
            write_recipe(study, tuning)
            if on_trial:
                on_trial(progress_of(study, tuning.token))
        if progress.running_elsewhere:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    write_recipe(study, tuning)
    return study


def write_recipe(study: Any, tuning: Tuning) -> None:
    """Write the settings of the best trial so far as YAML, if one is complete."""
    progress = progress_of(study, tuning.token)
    if progress.best is None:
        return
    best = study.best_trial
    settings = with_settings(tuning.base, best.params).to_dict()
    del settings["data"], settings["train"]["seed"]
    graph, last = tuning.graph(), FIRST_SEED + tuning.seeds - 1
    seeds = f"mean of seeds {FIRST_SEED} to {last}" if tuning.seeds > 1 else f"seed {FIRST_SEED}"
    about = (
        f"# Validation {graph.task.metric} {best.value:.4f} on {graph.name} ({graph.split}, {graph.setting}): "
        f"the best of {progress.finished} trials ({progress.pruned} pruned),\n"
        f"# {seeds}. No test label took part. Searched: "
        f"{', '.join(dimension.setting for dimension in tuning.space)}.\n"
    )
    with atomic_write(Path(tuning.folder) / RECIPE) as temporary:
        temporary.write_text(about + yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
