"""Cross-validation with unknown labels: a splitter that tests on labelled rows only, and scorers that ignore the rest.

scikit-learn's own scorers count the mark for unknown (-1, None, NaN or "") as one more class, so their scores, and
the choices of `GridSearchCV` by them, are meaningless.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> X, y = load_iris(return_X_y=True)
    >>> few = np.where(np.arange(150) % 5 == 0, y, -1)
    >>> scores = cross_val_score(LabelSpreading(), X, few, cv=LabelledSplit(5), scoring=ignore_unknown("accuracy"))
    >>> bool(scores.mean() > 0.8)
    True
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import numpy as np

from gssc.data.labels import encode_labels, is_empty, is_marked_unknown
from gssc.errors import GsscError
from gssc.extras import require

require("sklearn", extra="data")

from sklearn.metrics import get_scorer  # noqa: E402
from sklearn.model_selection import BaseCrossValidator, check_cv  # noqa: E402
from sklearn.utils import _safe_indexing, check_array  # noqa: E402

__all__ = ["LabelledSplit", "UnknownRowsWarning", "ignore_unknown", "known_rows"]

Scorer = Callable[..., float]


class UnknownRowsWarning(UserWarning):
    """A scorer of scikit-learn is about to count unknown labels as a class."""


def known_rows(y: Any, classes: Any = None) -> np.ndarray:
    """Return where a label is known, bool [N].

    Unknown are -1, None, NaN and "". -1 and 1 alone are two classes, as in `GSSCClassifier`.

    Args:
        y: [N] labels.
        classes: classes of a fitted classifier. Where given, -1 is a class if they are -1 and 1, and
            unknown otherwise; rows of a test fold alone may not show which.
    """
    labels = _labels(y)
    if classes is None:
        return encode_labels(labels)[0] >= 0
    minus_one_is_a_class = set(np.asarray(classes).astype(str).tolist()) in ({"-1", "1"}, {"-1.0", "1.0"})
    return ~is_empty(labels) & (~is_marked_unknown(labels) | minus_one_is_a_class)


def _labels(y: Any) -> np.ndarray:
    """Return labels as a NumPy array; names with None or NaN among them stay Python objects."""
    if y is None:
        raise GsscError("y is None: give the labels, -1 where unknown")
    if not hasattr(y, "dtype"):
        y = np.array(list(y), dtype=object)
    labels = np.asarray(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise GsscError(f"y has shape {labels.shape}: give one label per row")
    return labels


class LabelledSplit(BaseCrossValidator):  # type: ignore[misc]
    """Split the labelled rows by another splitter, and add the unknown rows to every training part.

    Test parts hold labelled rows only, so every scorer of scikit-learn is correct on them.

    Args:
        cv: number of folds, stratified by class, or any splitter of scikit-learn.

    Example:
        >>> splits = LabelledSplit(2).split(np.zeros((5, 1)), [0, 0, -1, 1, 1])
        >>> [(train.tolist(), test.tolist()) for train, test in splits]
        [([1, 2, 4], [0, 3]), ([0, 2, 3], [1, 4])]
    """

    def __init__(self, cv: Any = 5):
        self.cv = cv

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of each training and test part, ascending.

        Args:
            X: [N, d] rows; only their number matters.
            y: [N] labels.
            groups: [N] groups of rows, for splitters that use them.
        """
        known, rest, codes, labelled_groups = self._labelled(y, groups)
        for train, test in self._splitter(codes).split(np.zeros((len(known), 1)), codes, labelled_groups):
            yield np.sort(np.concatenate([known[train], rest])), np.sort(known[test])

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        if y is None:
            return int(self._splitter(None).get_n_splits(X, y, groups))
        known, _, codes, labelled_groups = self._labelled(y, groups)
        return int(self._splitter(codes).get_n_splits(np.zeros((len(known), 1)), codes, labelled_groups))

    def _splitter(self, codes: np.ndarray | None) -> Any:
        return check_cv(self.cv, codes, classifier=True)

    def _labelled(self, y: Any, groups: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        codes, _ = encode_labels(_labels(y))
        known = np.flatnonzero(codes >= 0)
        if not len(known):
            raise GsscError("y holds no known label, so nothing can be tested on: label some rows")
        rest = np.flatnonzero(codes < 0)
        return known, rest, codes[known], None if groups is None else np.asarray(groups)[known]


class _KnownRowsScorer:
    """A scorer that passes only the rows with a known label to another one."""

    def __init__(self, scorer: Scorer):
        self.scorer = scorer

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> float:
        labels = _labels(y)
        known = np.flatnonzero(known_rows(labels, getattr(estimator, "classes_", None)))
        if not len(known):
            raise GsscError("no row to score has a known label: use cv=LabelledSplit(...) of gssc.model_selection")
        kept = labels[known]
        if kept.dtype == object:
            kept = np.array(kept.tolist())  # without None among them, they are numbers or text
        if sample_weight is not None:
            options["sample_weight"] = np.asarray(sample_weight)[known]
        return self.scorer(estimator, _safe_indexing(X, known), kept, **options)

    def __repr__(self) -> str:
        return f"ignore_unknown({self.scorer!r})"

    def _accept_sample_weight(self) -> bool:  # called by scikit-learn
        accepts = getattr(self.scorer, "_accept_sample_weight", None)
        return bool(accepts()) if accepts is not None else False


def ignore_unknown(scoring: Any) -> Any:
    """Return a scorer that leaves out rows whose label is unknown.

    Args:
        scoring: a name that scikit-learn has a scorer for ("accuracy", "balanced_accuracy", "f1_macro", "roc_auc",
            "neg_log_loss", ...) or a scorer. A list of names, or a dict of scorers by name, gives a dict of scorers,
            for `cross_validate` and `GridSearchCV`.
    """
    if isinstance(scoring, Mapping):
        return {name: ignore_unknown(one) for name, one in scoring.items()}
    if isinstance(scoring, list | tuple | set):
        return {str(name): ignore_unknown(name) for name in scoring}
    if isinstance(scoring, _KnownRowsScorer):
        return scoring
    if not isinstance(scoring, str) and not callable(scoring):
        raise GsscError(f"scoring is {scoring!r}: give the name of a scorer, a scorer, or several of them")
    try:
        return _KnownRowsScorer(get_scorer(scoring))
    except ValueError as error:
        raise GsscError(f"scoring {scoring!r} is not known to scikit-learn: {str(error).splitlines()[0]}") from None


def warn_if_unknown_rows_are_scored() -> None:
    """Warn if the caller is being fitted by scikit-learn's cross-validation that then scores unknown rows as a class.

    A classifier has no access to the scorer and the test rows. They are looked up in the frame of scikit-learn's
    function that fits and scores one split; where a release of scikit-learn has no such function there is no warning.
    """
    frame = _fit_and_score_frame()
    if frame is None:
        return
    y, name = frame.f_locals.get("y"), _scorer_that_counts_unknown(frame.f_locals.get("scorer"))
    if name is None or y is None:
        return
    for part in ("test", "train") if frame.f_locals.get("return_train_score") else ("test",):
        rows = frame.f_locals.get(part)
        unknown = 0 if rows is None else int((~known_rows(y))[np.asarray(rows)].sum())
        if unknown:
            warnings.warn(
                f"the {part} part holds {unknown} rows without a label, which {name} counts as a class: use "
                "cv=LabelledSplit(...) and scoring=ignore_unknown(...) of gssc.model_selection",
                UnknownRowsWarning,
                stacklevel=3,
            )
            return


def _fit_and_score_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_globals.get("__name__", "").startswith("sklearn."):
            return frame
        frame = frame.f_back
    return None


def _scorer_that_counts_unknown(scorer: Any) -> str | None:
    """Return the name of a metric of scikit-learn among the scorers; a user's own metric may handle unknown rows."""
    several = scorer if isinstance(scorer, Mapping) else getattr(scorer, "_scorers", {"score": scorer})
    for one in several.values():
        metric = getattr(one, "_score_func", None)
        if getattr(metric, "__module__", "").startswith("sklearn."):
            return str(getattr(metric, "__name__", "the scorer"))
    return None
