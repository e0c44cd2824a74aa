"""Sweeps over molecules: every run is kept once, failures are rows, names are checked first."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("torch_geometric")

from gssc.errors import GsscError
from gssc.evaluate import molecule_sweep
from gssc.evaluate.molecule_sweep import MoleculeCell, molecule_cells, sweep
from gssc.evaluate.store import Store
from gssc.molecules.featurize import featurize
from gssc.molecules.molecule_set import MoleculeSet


def small(name: str, **_: Any) -> MoleculeSet:
    texts = ["C" * (1 + n % 6) + "NO"[n % 2] for n in range(30)]
    parts = np.split(np.random.default_rng(1).permutation(30), [18, 24])
    made = featurize(texts, np.arange(30)[:, None] % 2, ["y"], name=name)
    return made.with_(train=parts[0], val=parts[1], test=parts[2])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(molecule_sweep, "load_molecules", small)
    return Store(tmp_path / "store.sqlite")


def test_a_run_is_kept_and_not_repeated(store: Store) -> None:
    cells = molecule_cells(["gcn", "fingerprint_mlp"], ["bbbp"], seeds=2, max_epochs=1)
    assert [(cell.model, cell.seed) for cell in cells] == [
        ("gcn", 0),
        ("fingerprint_mlp", 0),
        ("gcn", 1),
        ("fingerprint_mlp", 1),
    ]
    started: list[MoleculeCell] = []
    rows = list(sweep(cells, store, started=started.append))
    assert len(started) == len({row["key"] for row in rows}) == 4
    assert all(row["status"] == "done" and 0 <= row["test_score"] <= 1 for row in rows)
    assert rows[0]["metric"] == "roc_auc"
    again = list(sweep(cells, store, started=started.append))
    assert len(started) == 4
    assert [row["test_score"] for row in again] == [row["test_score"] for row in rows]


def test_two_sweeps_on_one_store_never_train_the_same_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins while the first trains its first run, and waits for that run at the end."""
    monkeypatch.setattr(molecule_sweep, "SECONDS_BETWEEN_LOOKS", 0.01)
    cells = molecule_cells(["fingerprint_mlp"], ["bbbp"], seeds=2, max_epochs=1)
    begun: list[tuple[str, int]] = []
    other: list[dict[str, Any]] = []

    def second() -> None:
        other.extend(sweep(cells, store, started=lambda cell: begun.append(("second", cell.seed))))

    thread = threading.Thread(target=second)

    def first(cell: MoleculeCell) -> None:
        begun.append(("first", cell.seed))
        if cell.seed == 0:
            thread.start()
            deadline = time.monotonic() + 60
            while not other and time.monotonic() < deadline:
                time.sleep(0.01)

    rows = list(sweep(cells, store, started=first))
    thread.join(60)
    assert begun == [("first", 0), ("second", 1)]
    assert sorted(row["key"] for row in rows) == sorted(row["key"] for row in other)


def test_the_seed_settings_and_data_make_the_key() -> None:
    identity = MoleculeCell("gcn", "bbbp", 0).identity()
    assert identity["settings"]["train"]["seed"] == 0
    assert identity["split"] == "scaffold"
    for other in (
        MoleculeCell("gcn", "bbbp", 1),
        MoleculeCell("gin", "bbbp", 0),
        MoleculeCell("gcn", "tox21", 0),
        MoleculeCell("gcn", "bbbp:random", 0),
    ):
        assert other.identity() != identity


def test_a_failure_is_a_row_and_can_be_retried(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, **_: Any) -> MoleculeSet:
        raise GsscError("no such file")

    cells = molecule_cells(["gcn"], ["bbbp"], seeds=1, max_epochs=1)
    monkeypatch.setattr(molecule_sweep, "load_molecules", broken)
    (row,) = sweep(cells, store)
    assert row["status"] == "failed"
    assert "no such file" in row["error"]
    monkeypatch.setattr(molecule_sweep, "load_molecules", small)
    (row,) = sweep(cells, store)
    assert row["status"] == "failed"
    (row,) = sweep(cells, store, retry=True)
    assert row["status"] == "done"


def test_names_are_checked_before_anything_runs() -> None:
    with pytest.raises(GsscError, match="did you mean 'gin'"):
        molecule_cells(["gcn", "gim"], ["bbbp"], 1)
    with pytest.raises(GsscError, match="apart from sets of molecules"):
        molecule_cells(["gcn"], ["cora"], 1)
