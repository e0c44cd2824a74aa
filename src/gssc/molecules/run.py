"""A training run on molecules in a folder: settings, one line per epoch, the result, the deployed model; resumable.

config.yaml        model, data and settings, enough to run it again
metrics.jsonl      one line per epoch; the kept one is marked as best
metrics.json       the result
model.safetensors  the deployed model, with model.json (GSSC only)
scores.npz         scores of every molecule, with row numbers
skipped.csv        rows of the data without a valid molecule
checkpoint.safetensors  only until training is finished
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from gssc.deploy.tables import safe_cell
from gssc.errors import GsscError
from gssc.files import atomic_write, json_number, keep_others_out, write_json
from gssc.molecules.molecule_set import MoleculeSet, Skipped
from gssc.molecules.objective import average_precision
from gssc.molecules.registry import molecule_model
from gssc.run_folder import EpochLog
from gssc.signals import interrupted_by
from gssc.train.checkpoint import load_checkpoint, save_checkpoint
from gssc.train.process import Interruption
from gssc.train.training import Epoch
from gssc.versions import versions

if TYPE_CHECKING:
    from gssc.molecules.training import MoleculeTraining

SECONDS_BETWEEN_CHECKPOINTS = 5.0
FILES = ("metrics.jsonl", "metrics.json", "model.safetensors", "model.json", "scores.npz", "skipped.csv")


class MoleculeRun:
    """A run folder. A run may be killed at any time; with ``resume`` it continues from its last checkpoint.

    Args:
        folder: the run folder.
        molecules: the data.
        model: name of a graph-level model.
        settings: its settings; by default the defaults of the model.
        data: origin of the molecules, recorded in config.yaml.
        overwrite: whether to replace a run in the folder.
        resume: whether to continue it.
    """

    def __init__(
        self,
        folder: str | Path,
        molecules: MoleculeSet,
        model: str = "gssc",
        settings: Any = None,
        *,
        data: dict[str, Any] | None = None,
        overwrite: bool = False,
        resume: bool = False,
    ):
        if overwrite and resume:
            raise GsscError("--resume continues a run and --overwrite replaces it: give only one of the two")
        entry = molecule_model(model)
        self.folder, self.molecules, self.model = Path(folder), molecules, model
        self.settings = settings or entry.settings()
        self.config = {"data": data or {}, "molecules": {"model": model, **asdict(self.settings)}}
        there = self.folder.exists() and any(self.folder.iterdir())
        if there and not (overwrite or resume):
            raise GsscError(f"{self.folder} already exists; use --resume to continue it or --overwrite to replace it")
        if there and not (self.folder / "config.yaml").exists():
            raise GsscError(f"{self.folder} is not empty and is not a run of gssc; choose another folder")
        if there and resume and self._saved_config() != self.config:
            raise GsscError(f"cannot resume {self.folder} with other settings or data; drop them or use --overwrite")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = keep_others_out(self.folder)
        self.log = EpochLog(self.folder)
        self._is_new, self._resumed = not there, there and resume
        if self._is_new:  # so that a run that is stopped during pre-training can be resumed
            self._write_config()

    def _saved_config(self) -> Any:
        """Return the content of config.yaml; None if it cannot be read."""
        try:
            return yaml.safe_load((self.folder / "config.yaml").read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError):
            return None

    @property
    def data_digest(self) -> str:
        """Digest of the molecules, targets and split."""
        digest = hashlib.sha256("\n".join(map(str, self.molecules.smiles)).encode())
        for part in (self.molecules.targets, self.molecules.train, self.molecules.val, self.molecules.test):
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    def _write_config(self) -> None:
        with atomic_write(self.folder / "config.yaml") as temporary:
            temporary.write_text(yaml.safe_dump(self.config, sort_keys=False), encoding="utf-8")

    def _prepare(self) -> None:
        """Build the training, which may pre-train, then clear the folder or load its checkpoint."""
        try:
            self.training = molecule_model(self.model).training_class()(self.molecules, self.settings)
        except GsscError:
            if self._is_new:
                (self.folder / "config.yaml").unlink()
            raise
        if self._resumed:
            self._load_checkpoint()
        else:
            self._start_over()

    def _start_over(self) -> None:
        """Delete the results of an earlier run."""
        for name in (*FILES, "checkpoint.safetensors"):
            (self.folder / name).unlink(missing_ok=True)
        self._write_config()
        self.log.clear()

    def _load_checkpoint(self) -> None:
        """Continue from the checkpoint in the folder, or from the start if there is none."""
        checkpoint = self.folder / "checkpoint.safetensors"
        if not checkpoint.exists():  # stopped before the first one was written
            self.log.clear()
            return
        state = load_checkpoint(checkpoint)
        if state["data"] != self.data_digest:
            raise GsscError(f"cannot resume {self.folder}: the molecules are not those the run was started with")
        self.training.load_state_dict(state["training"])
        self.log.cut(self.training.epoch)

    def train(
        self,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_interrupt: Callable[[], None] | None = None,
        on_start: Callable[[MoleculeTraining], None] | None = None,
    ) -> dict[str, Any]:
        """Train to the end and return the content of metrics.json.

        Args:
            on_epoch: called with the record of each epoch.
            on_interrupt: called on the first Ctrl+C, SIGTERM or SIGHUP. The current epoch is then finished and saved
                before KeyboardInterrupt is raised; a second signal stops at once.
            on_start: called with the training before its first epoch, after pre-training.
        """
        try:
            if self._resumed and (self.folder / "metrics.json").exists():
                found: dict[str, Any] = json.loads((self.folder / "metrics.json").read_text(encoding="utf-8"))
                return found
            self._prepare()
            if on_start:
                on_start(self.training)
            return self._train(on_epoch, on_interrupt)
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _train(
        self, on_epoch: Callable[[Epoch], None] | None, on_interrupt: Callable[[], None] | None
    ) -> dict[str, Any]:
        saved_at = time.monotonic()
        with Interruption(on_interrupt) as interruption:
            for record in self.training.epochs():
                self.log.append(asdict(record))
                if on_epoch:
                    on_epoch(record)
                if interruption.requested is not None or time.monotonic() - saved_at >= SECONDS_BETWEEN_CHECKPOINTS:
                    state = {"data": self.data_digest, "training": self.training.state_dict()}
                    save_checkpoint(self.folder / "checkpoint.safetensors", state)
                    saved_at = time.monotonic()
                if interruption.requested is not None:
                    raise interrupted_by(interruption.requested)
        return self._finish()

    def _finish(self) -> dict[str, Any]:
        """Write the results and return metrics.json, which is written last: it marks the run as finished."""
        molecules, outcome = self.molecules, self.training.outcome()
        selects_last = self.settings.train.select == "last"
        test, precision = molecules.test, math.nan
        if not molecules.is_regression and len(test):
            precision = average_precision(outcome.scores[test], molecules.targets[test])
        metrics = {
            "model": self.model,
            "dataset": molecules.name,
            "split": molecules.split,
            "seed": self.settings.train.seed,
            "metric": molecules.task.metric,
            "val_score": json_number(outcome.val_score),
            "test_score": json_number(outcome.test_score),
            "test_score_per_target": score_per_target(molecules, outcome.scores, test),
            "test_average_precision": json_number(precision),
            "seconds": round(outcome.seconds, 3),
            "epochs": outcome.epochs,
            "best_epoch": outcome.kept.epoch,
            "kept_because": "the last epoch" if selects_last else self.training.best.reason(),
            "bonds_kept": outcome.edges_kept,
            "bonds_total": outcome.edges_total,
            "molecules": len(molecules),
            "skipped": len(molecules.skipped),
            "data": self.data_digest,
            "versions": versions(),
        }
        if hasattr(self.training, "deployed_molecules"):
            self.training.deployed_molecules().save(self.folder)
        with atomic_write(self.folder / "scores.npz") as temporary:
            np.savez_compressed(temporary, allow_pickle=False, row=molecules.rows, scores=outcome.scores)
        with atomic_write(self.folder / "skipped.csv") as temporary, temporary.open("w", newline="") as file:
            csv.writer(file).writerows([("row", "smiles", "reason"), *map(_skipped, molecules.skipped)])
        self.log.mark_best(outcome.kept.epoch)
        write_json(self.folder / "metrics.json", metrics)
        (self.folder / "checkpoint.safetensors").unlink(missing_ok=True)
        return metrics


def score_per_target(molecules: MoleculeSet, scores: np.ndarray, index: np.ndarray) -> dict[str, float | None]:
    """Return the task's metric of each target on these molecules; None if it is unknown there."""
    columns = zip(molecules.target_names, scores[index].T, molecules.targets[index].T, strict=True)
    return {name: json_number(molecules.task.score(score[:, None], truth[:, None])) for name, score, truth in columns}


def _skipped(entry: Skipped) -> tuple[int, str, str]:
    return entry.row, safe_cell(entry.smiles), safe_cell(entry.reason)
