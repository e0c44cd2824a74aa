"""A run: one folder with the settings, the progress and the result of one training.

config.yaml        every setting, enough to run it again
metrics.jsonl      one line per epoch; the one that was kept is marked as best
metrics.json       the result
model.safetensors  the deployed MLP, with model.json (see gssc.deploy); not for models that need the graph
scores.npz         for those: the scores of every node
edges.npz          the keep probability of every training edge
checkpoint.safetensors  only during training
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gssc import run_folder
from gssc.config import RunConfig, parse_config
from gssc.errors import GsscError
from gssc.files import atomic_write, json_number, keep_others_out, read_json, write_json
from gssc.graph import Graph
from gssc.result import Result, make_training
from gssc.run_graph import fingerprint, named_graph
from gssc.signals import interrupted_by
from gssc.tracking.callback import Callback, Callbacks
from gssc.train.checkpoint import load_checkpoint, save_checkpoint
from gssc.train.process import Interruption
from gssc.train.training import Diverged, Epoch, Training
from gssc.versions import versions

SECONDS_BETWEEN_CHECKPOINTS = 5.0
LEAST_BETWEEN = 10  # times the duration of the last checkpoint: large ones are written less often


class Run:
    """A training run in a folder. It may be killed at any time: :meth:`train` continues from the last checkpoint.

    Args:
        folder: the run folder.
        config: all settings; if left out, those of the run to resume, or the defaults for a new one.
        graph: the graph to train on, in place of what ``config.data`` names. To resume such a run, give it again.
        overwrite: replace a run that is already in the folder, once this one is finished.
        resume: continue the run in the folder; starts one where there is none.
        data_root: where data files are, see :func:`gssc.data.load_dataset`.
    """

    _lock: int | None = None  # keeps other processes out of the folder
    _replaces: Path | None = None  # the folder of the run that this one is to replace

    def __init__(
        self,
        folder: str | Path,
        config: RunConfig | None = None,
        graph: Graph | None = None,
        *,
        overwrite: bool = False,
        resume: bool = False,
        data_root: str | None = None,
    ):
        if overwrite and resume:
            raise GsscError("--resume continues a run and --overwrite replaces it: give one of the two")
        self.folder = Path(folder)
        self.config = (config or self._default_config(resume)).plain()
        self._find_run(overwrite or resume)
        self.graph = self._graph(graph, data_root)
        self.training: Training = make_training(self.graph, self.config)
        self.resumed = False
        self.result: Result | None = None  # once it is trained
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GsscError(f"cannot write to {self.folder}: {error.strerror}") from None
        self._lock = keep_others_out(self.folder)
        run_folder.complete_replacement(self.folder)
        # Loading takes time: another process may have written here since the first check.
        found = self._find_run(overwrite or resume)
        if found and overwrite:
            self._replaces, self.folder = self.folder, run_folder.begin_replacement(self.folder)
        elif found and run_folder.is_run(self.folder / run_folder.NEW):
            self._replaces, self.folder = self.folder, self.folder / run_folder.NEW
        if found and resume:
            self._check_same_run()
            self._load_checkpoint()
        else:
            self._start_over()

    def _default_config(self, resume: bool) -> RunConfig:
        begun = run_folder.config_file(self.folder)
        return run_folder.saved_config(begun) if resume and run_folder.is_run(begun.parent) else parse_config()

    def _graph(self, given: Graph | None, data_root: str | None) -> Graph:
        data = self.config.data
        if given is None:
            return named_graph(data, data_root)
        if data.dataset is not None or data.graph is not None:
            raise GsscError("give the graph itself, or name it in the settings (data.dataset, data.graph): one of them")
        return given

    @property
    def finished(self) -> bool:
        """Whether the run in the folder is finished."""
        return (self.folder / "metrics.json").exists()

    def train(
        self,
        on_epoch: Callable[[Epoch], None] | None = None,
        callbacks: Iterable[Callback] = (),
        on_interrupt: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Train to the end and return the content of metrics.json.

        Args:
            on_epoch: called with the record of each epoch.
            callbacks: follow the run, see :class:`gssc.tracking.Callback`; a finished run does not call them.
            on_interrupt: called on the first Ctrl+C, SIGTERM or SIGHUP. The epoch in flight is then finished and saved
                before KeyboardInterrupt is raised; a second signal stops at once.
        """
        try:
            metrics = (
                self._metrics()
                if self.finished
                else self._train_with_callbacks(on_epoch, Callbacks(callbacks), on_interrupt)
            )
            if self._replaces is not None:
                run_folder.replace_run(self._replaces)
                self.folder, self._replaces = self._replaces, None
            return metrics
        except GsscError as error:
            good = f"; the last good checkpoint is {self._last_checkpoint()}" if isinstance(error, Diverged) else ""
            before = f"; the run before it is still in {self._replaces}" if self._replaces else ""
            if not good + before:
                raise
            raise GsscError(f"{error}{good}{before}") from error
        finally:
            self._unlock()

    def _last_checkpoint(self) -> str:
        path = self.folder / run_folder.CHECKPOINT
        return f"{path}, before epoch {load_checkpoint(path)['lines']}"

    def _train_with_callbacks(
        self,
        on_epoch: Callable[[Epoch], None] | None,
        callbacks: Callbacks,
        on_interrupt: Callable[[], None] | None,
    ) -> dict[str, Any]:
        def report(record: Epoch) -> None:
            callbacks.epoch(record)
            if on_epoch:
                on_epoch(record)

        metrics = None
        callbacks.start(self)
        try:
            metrics = self._train(report, on_interrupt)
            return metrics
        finally:
            callbacks.end(metrics)

    def _train(self, on_epoch: Callable[[Epoch], None], on_interrupt: Callable[[], None] | None) -> dict[str, Any]:
        saved_at, wait, history = time.monotonic(), SECONDS_BETWEEN_CHECKPOINTS, []
        with Interruption(on_interrupt) as interruption:
            for record in self.training.epochs():
                history.append(record)
                self.log.append(asdict(record))
                on_epoch(record)
                began = time.monotonic()
                if interruption.requested is not None or began - saved_at >= wait:
                    self._save_checkpoint()
                    saved_at = time.monotonic()
                    wait = max(SECONDS_BETWEEN_CHECKPOINTS, LEAST_BETWEEN * (saved_at - began))
                if interruption.requested is not None:
                    raise interrupted_by(interruption.requested)
        self.result = Result(self.training, history)
        return self._finish(self.result)

    def __del__(self) -> None:
        self._unlock()

    def _unlock(self) -> None:
        """Release the lock, so that other processes may use the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _find_run(self, may_exist: bool) -> bool:
        """Return whether there is a run in the folder. Raises GsscError if its content must not be changed."""
        if not self.folder.exists() or run_folder.only_leftovers(self.folder):
            return False
        if not may_exist:
            raise GsscError(f"{self.folder} already exists; use --resume to continue it or --overwrite to replace it")
        if not run_folder.is_run(self.folder):
            raise GsscError(f"{self.folder} is not empty and not a run of gssc; choose another folder")
        return True

    def _start_over(self) -> None:
        run_folder.clear(self.folder)
        self._write_config({})
        self.log.clear()
        self._save_checkpoint()  # from now on the graph must stay as it is

    def _write_config(self, choices: dict[str, str]) -> None:
        """Write every setting, and as comments what the training decided where settings leave it open."""
        settings = yaml.safe_dump(self.config.to_dict(), sort_keys=False)
        decided = [f"#   {name}: {' '.join(reason.split())}" for name, reason in choices.items()]
        comments = "\n".join(["# decided by the data:", *decided]) + "\n" if decided else ""
        with atomic_write(self.folder / "config.yaml") as temporary:
            temporary.write_text(run_folder.MARK + settings + comments, encoding="utf-8")

    def _check_same_run(self) -> None:
        before = run_folder.saved_config(self.folder / run_folder.CONFIG)
        if before != self.config:
            changed = _first_difference(before.to_dict(), self.config.to_dict())
            raise GsscError(
                f"cannot resume {self.folder} with other settings ({changed}); drop them or use --overwrite"
            )

    def _check_same_graph(self, before: str | None) -> None:
        if before is not None and before != self.graph_digest:  # runs of earlier versions have no digest
            raise GsscError(
                f"cannot resume {self.folder}: the graph is not the one the run began with; "
                "put that one back, or start over with --overwrite"
            )

    @cached_property
    def graph_digest(self) -> str:
        """A digest of everything training can see of the graph."""
        return fingerprint(self.graph)

    def _load_checkpoint(self) -> None:
        checkpoint = self.folder / run_folder.CHECKPOINT
        self.resumed = self.finished or checkpoint.exists()
        if self.finished:
            self._check_same_graph(self._metrics().get("graph"))
            return
        if not checkpoint.exists():
            self._start_over()
            return
        state = load_checkpoint(checkpoint)
        try:
            self._check_same_graph(state["graph"])
            self.training.load_state_dict(state["training"])
            logged = int(state["lines"])
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, RuntimeError) as error:
            raise GsscError(
                f"cannot resume {self.folder}: its checkpoint is of another version of gssc ({error}); "
                "start over with --overwrite"
            ) from None
        self.log.cut(logged)

    def _save_checkpoint(self) -> None:
        state = {"graph": self.graph_digest, "lines": len(self.log), "training": self.training.state_dict()}
        save_checkpoint(self.folder / run_folder.CHECKPOINT, state)

    @property
    def log(self) -> run_folder.EpochLog:
        """The records of the epochs, in metrics.jsonl."""
        return run_folder.EpochLog(self.folder)

    def _metrics(self) -> dict[str, Any]:
        path = self.folder / "metrics.json"
        try:
            found = read_json(path)
        except GsscError:
            found = {}
        if not found.keys() >= {"dataset", "metric", "val_score", "edges_kept"}:
            raise GsscError(f"{path} is damaged: it is not the result of a run; start over with --overwrite")
        return found

    def _finish(self, result: Result) -> dict[str, Any]:
        """Write the result; metrics.json last, since it marks the run as finished."""
        outcome, best = result.outcome, result.best
        metrics = {
            "model": self.config.model.name,
            "dataset": self.graph.name,
            "split": self.graph.split,
            "setting": self.graph.setting,
            "seed": self.config.train.seed,
            "metric": self.graph.task.metric,
            "val_score": json_number(best.val_score),
            "test_score": json_number(best.test_score),
            "seconds": round(outcome.seconds, 3),
            "epochs": len(self.log),
            "best_epoch": best.epoch,
            "kept_because": result.kept_because,
            "choices": result.choices,
            "scales_columns": result.scales_columns,
            "edges_kept": outcome.edges_kept,
            "edges_total": outcome.edges_total,
            "homophily": json_number(best.homophily),
            "graph": self.graph_digest,
            "versions": versions(),
            "training_labels": len(self.graph.train),
            "calibration": {name: json_number(value) for name, value in result.calibration.items()}
            if result.calibration
            else None,
            "notes": result.notes,
        }
        if result.needs_graph:
            metrics["needs_graph"] = result.needs_graph
            self._save_arrays("scores.npz", scores=result.scores)
        else:
            model = result.deployed()
            model.metadata = {name: metrics[name] for name in ("dataset", "split", "setting", "seed", "test_score")}
            model.save(self.folder)
        edges, trust = result.edge_trust()
        self._save_arrays("edges.npz", edge_index=edges, keep_probability=trust)
        self.log.mark_best(best.epoch)
        self._write_config(result.choices)
        write_json(self.folder / "metrics.json", metrics)
        (self.folder / run_folder.CHECKPOINT).unlink(missing_ok=True)
        return metrics

    def _save_arrays(self, name: str, **arrays: Any) -> None:
        with atomic_write(self.folder / name) as temporary:
            np.savez_compressed(temporary, **arrays)


def _first_difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    for section, values in before.items():
        for name, value in values.items():
            current = now.get(section, {}).get(name)
            if current != value:
                return f"{section}.{name} was {value!r}, now {current!r}"
    return "none"
