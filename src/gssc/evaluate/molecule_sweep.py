"""Comparisons on molecules: runs of models on sets of molecules with several seeds, kept in the results store."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from gssc.data.registry import find_dataset
from gssc.errors import GsscError
from gssc.evaluate.cell import key_of
from gssc.evaluate.claims import Claims
from gssc.evaluate.code_version import code_version
from gssc.evaluate.store import Store
from gssc.evaluate.sweep import SECONDS_BETWEEN_LOOKS
from gssc.files import json_number
from gssc.molecules.load import load_molecules
from gssc.molecules.objective import average_precision
from gssc.molecules.registry import molecule_model
from gssc.versions import versions


@dataclass(frozen=True)
class MoleculeCell:
    """One run: a model, a set of molecules (``tox21`` or ``tox21:random``) and a seed.

    ``max_epochs`` limits the number of epochs; 0 is no limit.
    """

    model: str
    dataset: str
    seed: int
    max_epochs: int = 0

    @property
    def title(self) -> str:
        """The name of the run in progress bars and errors."""
        return f"{self.model} on {self.dataset}, seed {self.seed}"

    def settings(self) -> Any:
        """Return the model's settings for this run."""
        made = molecule_model(self.model).settings()
        made.train.seed = self.seed
        if self.max_epochs:
            made.train.epochs = min(made.train.epochs, self.max_epochs)
        return made

    def identity(self) -> dict[str, Any]:
        """Return everything that determines the result."""
        name, _, split = self.dataset.partition(":")
        dataset = find_dataset(name)
        return {
            **asdict(self),
            "split": split or dataset.default_split,
            "data": hashlib.sha256(" ".join(str(file.sha256) for file in dataset.files).encode()).hexdigest()[:16],
            "code": code_version(f"gssc.molecules.{molecule_model(self.model).module}", "gssc.molecules.load"),
            "settings": asdict(self.settings()),
        }

    def run(self, on_training: Callable[[Any], None] = lambda training: None) -> dict[str, Any]:
        """Train the model and return the measured columns of the store; ``on_training`` gets the training first."""
        name, _, split = self.dataset.partition(":")
        molecules = load_molecules(name, split=split or None, seed=self.seed)
        started = time.process_time()
        training = molecule_model(self.model).training_class()(molecules, self.settings())
        on_training(training)
        for _ in training.epochs():
            pass
        cpu_seconds = time.process_time() - started
        outcome, test = training.outcome(), molecules.test
        precision = None
        if not molecules.is_regression and len(test):
            precision = average_precision(outcome.scores[test], molecules.targets[test])
        return {
            "metric": molecules.task.metric,
            **outcome.measured(),
            "measured": {
                "cpu_seconds": round(cpu_seconds, 3),
                "test_average_precision": _plain(precision),
                "predict_seconds": round(training.seconds_to_predict(), 4),
                "molecules": len(molecules),
                "skipped": len(molecules.skipped),
            },
        }


def _plain(value: float | None) -> float | None:
    return None if value is None else json_number(float(value))


def molecule_cells(
    models: Sequence[str], datasets: Sequence[str], seeds: int, max_epochs: int = 0
) -> list[MoleculeCell]:
    """Return the cross product, seeds outermost; every name is checked before anything runs."""
    for model in models:
        molecule_model(model)
    for dataset in datasets:
        if find_dataset(dataset.partition(":")[0]).level != "graph":
            raise GsscError(f"{dataset} is one graph: compare it apart from sets of molecules")
    return [
        MoleculeCell(model, dataset, seed, max_epochs)
        for seed in range(seeds)
        for dataset in datasets
        for model in models
    ]


def sweep(
    cells: Sequence[MoleculeCell],
    store: Store,
    *,
    again: bool = False,
    retry: bool = False,
    started: Callable[[MoleculeCell], None] = lambda cell: None,
    on_training: Callable[[Any], None] = lambda training: None,
) -> Iterator[dict[str, Any]]:
    """Run the cells that the store does not have, one after another; yield the row of each, old or new.

    Any number of sweeps may share a store: each claims a run before it begins. Runs that another sweep has claimed come
    last: this one waits for them, and runs them if their sweep dies.

    Args:
        cells: the runs.
        store: where results are kept.
        again: run finished cells again.
        retry: run cells again that failed.
        started: called with each cell that is run.
        on_training: called with the training of each cell before its first epoch.
    """
    claims, known, left = Claims(store), store.statuses(), list(cells)
    with claims.alive():
        while left:
            claimed_by_others = []
            for cell in left:
                identity = cell.identity()
                key = key_of(identity)
                before = known.get(key)
                if again or before is None or (before[0] == "failed" and retry):
                    if not claims.take(key):
                        claimed_by_others.append(cell)
                        continue
                    if store.status(key) == before:  # no other sweep has finished it meanwhile
                        started(cell)
                        store.put(_row(cell, identity, key, on_training))
                    claims.release(key)
                yield from store.runs([key])
            left = claimed_by_others
            if left:
                time.sleep(SECONDS_BETWEEN_LOOKS)


def _row(cell: MoleculeCell, identity: dict[str, Any], key: str, on_training: Callable[[Any], None]) -> dict[str, Any]:
    """Run one cell and return its row of the store; an error gives a row with status ``failed``."""
    error, result = None, {}
    try:
        result = cell.run(on_training)
    except (GsscError, RuntimeError, ValueError, MemoryError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    config = {**identity["settings"], "measured": result.pop("measured", {})}
    return {
        **asdict(cell),
        "key": key,
        "split": identity["split"],
        "data": identity["data"],
        "code": identity["code"],
        "sparsifier": "str_sparse" if identity["settings"].get("sparsify") else "none",
        "setting": "inductive",
        "label_noise": "none",
        "structure_noise": "none",
        "feature_noise": "none",
        "config": config,
        "status": "failed" if error else "done",
        "error": error,
        "versions": versions(),
        "host_cores": os.cpu_count(),
        "finished_at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        **result,
    }
