"""Doubtful labels: flipped ones come first, rare classes are not doubted as such."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("sklearn")

from gssc.errors import GsscError
from gssc.molecules.audit import doubtful_labels, write_doubts
from gssc.molecules.featurize import featurize
from gssc.molecules.models.fingerprint_forest import fitted_forest


def test_flipped_labels_come_first_and_others_are_not_read(tmp_path: Path) -> None:
    texts = ["C" * (1 + n % 10) + "NO"[n % 2] + "C" * (n % 7) for n in range(80)]
    truth = (np.arange(80) % 2).astype(float)[:, None]
    given = truth.copy()
    flipped = [3, 20, 41, 58]
    given[flipped] = 1 - given[flipped]
    given[70:] = np.nan
    molecules = featurize(texts, given, ["=oxygen"]).with_(train=np.arange(75), test=np.arange(75, 80))
    done: list[float] = []
    labels = doubtful_labels(molecules, trees=60, on_target=done.append)
    assert len(done) == 21
    assert done[0] == 0
    assert done == sorted(done)
    assert done[-1] == 1
    assert len(labels) == 70  # known and in training
    assert {label.row - 1 for label in labels[:4]} == set(flipped)
    assert labels[0].doubt >= labels[-1].doubt
    write_doubts(tmp_path / "out.csv", labels)
    with (tmp_path / "out.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["smiles"], first["target"]) == (labels[0].smiles, "'=oxygen")  # no formula for a spreadsheet
    with pytest.raises(GsscError, match="exists already"):
        write_doubts(tmp_path / "out.csv", labels)


def test_one_class_has_nothing_to_doubt() -> None:
    molecules = featurize(["C", "CC", "CCC"], np.ones((3, 1)), ["y"]).with_(train=np.arange(3))
    with pytest.raises(GsscError, match="nothing to compare"):
        doubtful_labels(molecules)


@pytest.mark.parametrize("regression", [False, True])
def test_a_forest_is_the_same_with_a_callback(regression: bool) -> None:
    rng = np.random.default_rng(0)
    rows, counts = rng.integers(0, 4, (60, 12)), []
    truth = rows[:, 0] + rng.normal(size=60) if regression else (rows[:, 0] > 1).astype(float)
    plain = fitted_forest(rows, truth, 25, 3, regression, out_of_bag=True)
    followed = fitted_forest(rows, truth, 25, 3, regression, out_of_bag=True, on_trees=counts.append)
    assert counts == [*range(1, 26)]
    np.testing.assert_array_equal(followed.predict(rows), plain.predict(rows))
    name = "oob_prediction_" if regression else "oob_decision_function_"
    np.testing.assert_array_equal(getattr(followed, name), getattr(plain, name))
