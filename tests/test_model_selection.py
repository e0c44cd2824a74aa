"""Cross-validation where most labels are unknown: scores count labelled rows only."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score, log_loss, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from gssc import GSSCClassifier
from gssc.errors import GsscError
from gssc.model_selection import LabelledSplit, UnknownRowsWarning, ignore_unknown, known_rows


class NearestLabelled(ClassifierMixin, BaseEstimator):
    """A semi-supervised classifier in a few lines: the nearest row with a label decides."""

    def __init__(self, n_neighbors: int = 1, flip: bool = False):
        self.n_neighbors = n_neighbors
        self.flip = flip

    def fit(self, X: Any, y: Any) -> NearestLabelled:
        known = known_rows(y)
        labels = np.array(np.asarray(y)[known].tolist())
        self.inner_ = KNeighborsClassifier(self.n_neighbors, algorithm="brute").fit(X[known], labels)
        self.classes_ = self.inner_.classes_
        self.rows_seen_ = len(y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        found = self.inner_.predict(X)
        if self.flip:
            found = self.classes_[(np.searchsorted(self.classes_, found) + 1) % len(self.classes_)]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.inner_.predict_proba(X)


def table(classes: int = 3, rows: int = 90, known: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Well separated classes in two columns; the first `known` rows have labels."""
    rng = np.random.default_rng(seed)
    truth = np.arange(rows) % classes
    X = np.stack([10.0 * truth, truth % 2 * 5.0], axis=1) + rng.standard_normal((rows, 2))
    return X, np.where(np.arange(rows) < known, truth, -1)


MARKED: list[Any] = [
    [0, 1, -1, 0, 1, -1, 1],
    np.array([0, 1, -1, 0, 1, -1, 1]),
    [0.0, 1.0, float("nan"), 0.0, 1.0, None, 1.0],
    ["a", "b", "", "a", "b", None, "b"],
    np.array(["a", "b", "-1", "a", "b", "", "b"]),
    np.array(["a", "b", -1, "a", "b", np.nan, "b"], dtype=object),
    pandas.Series(["a", "b", None, "a", "b", "", "b"]),
    pandas.Series([0, 1, None, 0, 1, -1, 1]),
]


@pytest.mark.parametrize("y", MARKED)
def test_what_is_unknown(y: Any) -> None:
    assert np.flatnonzero(~known_rows(y)).tolist() == [2, 5]
    for train, test in LabelledSplit(2).split(np.zeros((7, 1)), y):
        assert {2, 5} <= set(train.tolist())
        assert not {2, 5} & set(test.tolist())


def test_minus_one_beside_one_alone_is_a_class() -> None:
    assert known_rows([-1, 1, 1, -1]).all()
    assert known_rows([-1, 1, 2, -1]).tolist() == [False, True, True, False]
    assert known_rows([-1, 1], classes=[0, 1]).tolist() == [False, True]
    assert known_rows([-1, 1, None], classes=[-1, 1]).tolist() == [True, True, False]
    assert known_rows(np.array([-1.0, 1.0]), classes=np.array([-1.0, 1.0])).all()


@given(st.lists(st.integers(-1, 2), min_size=6, max_size=40), st.integers(2, 3))
def test_every_labelled_row_is_tested_once_and_unknown_rows_always_train(labels: list[int], folds: int) -> None:
    y = np.array([*labels, 0, 0, 0, 2, 2, 2])
    known = set(np.flatnonzero(y >= 0).tolist())
    splitter = LabelledSplit(StratifiedKFold(folds, shuffle=True, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with fewer rows than folds
        splits = list(splitter.split(np.zeros((len(y), 1)), y))
    assert len(splits) == folds == splitter.get_n_splits(None, y)
    assert sorted(row for _, test in splits for row in test.tolist()) == sorted(known)
    for train, test in splits:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(y)))


def test_any_splitter_can_be_wrapped() -> None:
    y = [0, 1, -1, 0, 1, -1]
    assert LabelledSplit(LeaveOneOut()).get_n_splits(np.zeros(6), y) == 4
    assert LabelledSplit(3).get_n_splits() == 3
    groups = [0, 0, 7, 1, 1, 7]
    tests = [test.tolist() for _, test in LabelledSplit(GroupKFold(2)).split(np.zeros(6), y, groups)]
    assert sorted(tests) == [[0, 1], [3, 4]]
    assert "LabelledSplit(cv=2)" in repr(LabelledSplit(2))
    with pytest.raises(GsscError, match="no known label"):
        next(LabelledSplit(2).split(np.zeros(3), [-1, -1, -1]))
    with pytest.raises(GsscError, match="y is None"):
        next(LabelledSplit(2).split(np.zeros(3)))
    with pytest.raises(GsscError, match=r"shape \(3, 2\)"):
        next(LabelledSplit(2).split(np.zeros(3), np.zeros((3, 2))))


NAMES = ["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr", "matthews_corrcoef"]


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_labelled_rows_alone(name: str) -> None:
    X, y = table()
    fitted = NearestLabelled(n_neighbors=5).fit(X, y)
    scorer, known = ignore_unknown(name), y >= 0
    assert scorer(fitted, X, y) == scorer.scorer(fitted, X[known], y[known])
    assert scorer(fitted, sp.csr_matrix(X), y.tolist()) == scorer(fitted, X, y)
    assert scorer(fitted, pandas.DataFrame(X).to_numpy(), pandas.Series(y)) == scorer(fitted, X, y)
    assert pickle.loads(pickle.dumps(scorer))(fitted, X, y) == scorer(fitted, X, y)


def test_scores_by_hand() -> None:
    X = np.array([[0.0], [1.0], [0.1], [0.9], [0.2]])
    fitted = NearestLabelled().fit(X[:2], [0, 1])
    y = [0, 1, 1, 1, -1]  # row 2 is wrong, row 4 unknown
    assert ignore_unknown("accuracy")(fitted, X, y) == 3 / 4
    weights = [1, 1, 5, 1, 100]
    assert ignore_unknown("accuracy")(fitted, X, y, sample_weight=weights) == 3 / 8
    assert ignore_unknown("roc_auc")(fitted, X, y) == pytest.approx(5 / 6)
    expected = -log_loss([0, 1, 1, 1], [[1, 0], [0, 1], [1, 0], [0, 1]])
    assert ignore_unknown("neg_log_loss")(fitted, X, y) == pytest.approx(expected)
    named = NearestLabelled().fit(X[:2], ["a", "b"])
    assert ignore_unknown("accuracy")(named, X, ["a", "b", "b", None, ""]) == 2 / 3


def test_scorers_that_cannot_be() -> None:
    X, y = table()
    with pytest.raises(GsscError, match="no row to score has a known label"):
        ignore_unknown("accuracy")(NearestLabelled().fit(X, y), X[40:], y[40:])
    with pytest.raises(GsscError, match="scoring 'acuracy' is not known"):
        ignore_unknown("acuracy")
    with pytest.raises(GsscError, match="scoring is 3"):
        ignore_unknown(3)
    one = ignore_unknown("accuracy")
    assert ignore_unknown(one) is one
    assert "accuracy" in repr(one)
    assert set(ignore_unknown(["accuracy", "f1_macro"])) == {"accuracy", "f1_macro"}
    assert set(ignore_unknown({"mine": make_scorer(accuracy_score)})) == {"mine"}


@pytest.mark.parametrize("classifier", [NearestLabelled(), LabelSpreading(gamma=0.1)])
def test_cross_validation_of_any_semi_supervised_classifier(classifier: Any) -> None:
    X, y = table()
    plain = cross_val_score(classifier, X, y, cv=3, scoring="accuracy")
    assert plain.max() < 0.6  # what goes wrong without: two thirds of the rows count as a class of their own
    by_splitter = cross_val_score(classifier, X, y, cv=LabelledSplit(3), scoring="accuracy")
    by_scorer = cross_val_score(classifier, X, y, cv=3, scoring=ignore_unknown("accuracy"))
    assert by_splitter.tolist() == by_scorer.tolist() == [1, 1, 1]
    several = cross_validate(
        classifier, X, y, cv=LabelledSplit(3), scoring=ignore_unknown(NAMES), return_train_score=True,
        return_estimator=True,
    )  # fmt: skip
    for name in NAMES:
        assert np.isfinite(several[f"test_{name}"]).all()
        assert np.isfinite(several[f"train_{name}"]).all()
    assert several["train_accuracy"].tolist() == [1, 1, 1]
    if isinstance(classifier, NearestLabelled):
        assert [one.rows_seen_ for one in several["estimator"]] == [80, 80, 80]  # 60 unknown and two thirds of 30


def test_names_with_none_among_them() -> None:
    X, y = table()
    names = np.array([None, "a", "b", "c"], dtype=object)[y + 1]
    scores = cross_val_score(NearestLabelled(), X, names, cv=LabelledSplit(3), scoring=ignore_unknown("f1_macro"))
    assert scores.tolist() == [1, 1, 1]


@pytest.mark.parametrize("scoring", ["accuracy", ["accuracy", "neg_log_loss"]])
def test_grid_search_finds_the_right_one(scoring: Any) -> None:
    X, y = table()
    refit = True if isinstance(scoring, str) else "accuracy"
    search = GridSearchCV(
        NearestLabelled(), {"flip": [True, False]}, cv=LabelledSplit(3), scoring=ignore_unknown(scoring), refit=refit
    )
    search.fit(X, y)
    assert search.best_params_ == {"flip": False}
    assert search.best_score_ == 1
    assert search.score(X, y) == 1


pytestmark = pytest.mark.usefixtures("short_students")


def quick(**changes: Any) -> GSSCClassifier:
    config = {"model": {"hidden": 8}, "teachers": {"trees": False, "pairs": "never", "rounds": 1}}
    return GSSCClassifier(**{"config": config, "random_state": 0, **changes})


def test_the_classifier_itself() -> None:
    X, y = table(rows=60, known=30)
    scoring = ignore_unknown(["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"])
    pipeline = make_pipeline(StandardScaler(), quick())
    scores = cross_validate(pipeline, X, y, cv=LabelledSplit(2), scoring=scoring)
    assert scores["test_accuracy"].min() > 0.6
    assert all(np.isfinite(scores[f"test_{name}"]).all() for name in scoring)
    search = GridSearchCV(
        quick(), {"n_neighbors": [3, 6]}, cv=LabelledSplit(2), scoring=ignore_unknown("balanced_accuracy")
    )
    assert search.fit(X, y).best_params_["n_neighbors"] in (3, 6)


def test_unsafe_scoring_of_the_classifier_is_warned_of() -> None:
    X, y = table(rows=60, known=30)
    for scoring in ("accuracy", ["accuracy", "f1_macro"]):
        with pytest.warns(UnknownRowsWarning, match=r"15 rows without a label, which accuracy_score counts as a class"):
            cross_validate(quick(), X, y, cv=2, scoring=scoring)
    with pytest.warns(UnknownRowsWarning, match="the train part holds 30 rows"):
        cross_validate(quick(), X, y, cv=LabelledSplit(2), scoring="accuracy", return_train_score=True)
    with pytest.warns(UnknownRowsWarning):
        GridSearchCV(make_pipeline(StandardScaler(), quick()), {}, cv=2, scoring="f1_macro").fit(X, y)


def test_safe_scoring_is_not_warned_of() -> None:
    X, y = table(rows=60, known=30)  # warnings are errors here
    cross_val_score(quick(), X, y, cv=2)  # GSSCClassifier.score leaves unknown rows out
    cross_val_score(quick(), X, y, cv=2, scoring=ignore_unknown("accuracy"))
    cross_val_score(quick(), X, y, cv=LabelledSplit(2), scoring="accuracy")
    cross_val_score(quick(), X[:30], y[:30], cv=2, scoring="accuracy")
    mine = make_scorer(lambda truth, found: float((truth == found)[truth >= 0].mean()))
    cross_val_score(quick(), X, y, cv=2, scoring=mine)
