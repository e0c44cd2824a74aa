"""Comparisons on molecules: any model on any set with any seed, each run kept in the results store."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from gssc.data.registry import find_dataset
from gssc.errors import GsscError
from gssc.evaluate.code_version import code_version
from gssc.evaluate.store import Store
from gssc.files import json_number
from gssc.molecules.load import load_molecules
from gssc.molecules.objective import average_precision
from gssc.molecules.registry import molecule_model
from gssc.versions import versions


@dataclass(frozen=True)
class MoleculeCell:
    """A run: a model, a set (``tox21`` or ``tox21:random``), a seed; ``max_epochs`` limits its epochs, 0 does not."""

    model: str
    dataset: str
    seed: int
    max_epochs: int = 0

    @property
    def title(self) -> str:
        """A line that names the run in progress and errors."""
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

    def run(self) -> dict[str, Any]:
        """Train it; return the measured columns of the store."""
        name, _, split = self.dataset.partition(":")
        molecules = load_molecules(name, split=split or None, seed=self.seed)
        started = time.process_time()
        training = molecule_model(self.model).training_class()(molecules, self.settings())
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
) -> Iterator[dict[str, Any]]:
    """Run the cells that the store does not have, one after another; yield the row of each, old or new."""
    for cell in cells:
        identity = cell.identity()
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        status = store.status(key)
        if again or status is None or (status[0] == "failed" and retry):
            started(cell)
            store.put(_row(cell, identity, key))
        yield from store.runs([key])


def _row(cell: MoleculeCell, identity: dict[str, Any], key: str) -> dict[str, Any]:
    """Run one cell; an error becomes a failed row."""
    error, result = None, {}
    try:
        result = cell.run()
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
        "finished_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **result,
    }
