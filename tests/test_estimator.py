from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from scipy import sparse

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gssc
from gssc import Config, DeployedModel, GSSCClassifier, GsscError
from gssc.calibration import PRIOR_ROWS, fit_temperature
from gssc.deploy.export.card import card
from gssc.deploy.export.run_model import read_run_model
from gssc.learner.student import StudentTraining

# Few teachers and one round, so that a fit is short.
QUICK = {"model": {"hidden": 16}, "teachers": {"trees": False, "pairs": "never", "rounds": 1}}


@pytest.fixture(autouse=True, scope="module")
def short_students():
    """Students take a few steps; how well they learn is not what these tests are about."""
    original = StudentTraining.__init__

    def short(self, rows, teacher, nodes, settings, *rest):
        original(self, rows, teacher, nodes, replace(settings, steps=min(settings.steps, 60)), *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StudentTraining, "__init__", short)
        yield


def quick(**parameters) -> GSSCClassifier:
    return GSSCClassifier(**{"config": QUICK, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def few(iris) -> np.ndarray:
    """Ten labels per class, the rest unknown."""
    return np.where(np.arange(150) % 5 == 0, iris[1], -1)


@pytest.fixture(scope="module")
def fitted(iris, few) -> GSSCClassifier:
    return quick().fit(iris[0], few)


@pytest.fixture(scope="module")
def validation(few) -> np.ndarray:
    """A fifth of the labelled rows, two of each class."""
    return np.flatnonzero(few >= 0)[::5]


# A row of weight zero is a row without a label: it still has neighbours. A repeated row has itself as a neighbour.
NOT_AS_ROWS = "rows without a label take part in training, so weights are not the same as leaving out or repeating rows"
WEIGHTS_AS_ROWS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


@pytest.mark.filterwarnings("ignore:y holds only -1 and 1")
@parametrize_with_checks([quick()], expected_failed_checks=lambda _: dict.fromkeys(WEIGHTS_AS_ROWS, NOT_AS_ROWS))
def test_scikit_learns_own_checks(estimator, check) -> None:
    check(estimator)


def test_what_fit_leaves(iris, few, fitted) -> None:
    X, y = iris
    known = few >= 0
    np.testing.assert_array_equal(fitted.transduction_[known], few[known])
    np.testing.assert_array_equal(fitted.transduction_[~known], fitted.predict(X)[~known])
    assert fitted.history_[-1]["phase"] == "student on all rows"
    assert "test_score" not in fitted.history_[0]
    assert fitted.edge_keep_probability_.shape == fitted.edge_index_.shape[1:]
    assert ((fitted.edge_keep_probability_ >= 0) & (fitted.edge_keep_probability_ <= 1)).all()
    assert fitted.transform(X).shape == (150, 16)
    assert fitted.get_feature_names_out()[-1] == "gsscclassifier15"
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)
    assert fitted.score(X, y) > 0.6  # a third is chance


def test_a_linear_model_embeds_rows_by_its_scores(iris, few, fitted) -> None:
    linear = copy.copy(fitted)
    linear.model_ = replace(fitted.model_, layers=[(np.ones((3, 4)), np.zeros(3))])
    assert linear.transform(iris[0]).shape == (150, 3)
    assert linear.get_feature_names_out()[-1] == "gsscclassifier2"


def test_temperature_is_what_validation_rows_ask_for(iris, few, validation) -> None:
    X, _ = iris
    judged = quick().fit(X, few, validation=validation)
    logits, labels = judged.model_.logits(X[validation]), few[validation]
    assert judged.calibration_["rows"] == len(validation) == 6
    assert judged.model_.temperature == pytest.approx(fit_temperature(logits, labels, PRIOR_ROWS), rel=1e-4)
    tempered = np.exp(judged.model_.logits(X) / judged.model_.temperature)
    np.testing.assert_allclose(judged.predict_proba(X), tempered / tempered.sum(axis=1, keepdims=True), rtol=1e-4)


def test_without_validation_rows_nothing_is_held_out(fitted) -> None:
    assert fitted.calibration_["rows"] == 0
    assert np.isnan(fitted.history_[0]["val_score"])
    assert fitted.model_.temperature == 1


def test_a_validation_mask_of_another_length_is_refused(iris, few) -> None:
    with pytest.raises(GsscError, match="one entry per row, 150 in all"):
        quick().fit(iris[0], few, validation=np.ones(3, dtype=bool))


@pytest.mark.parametrize("validation", [np.array([0, 900]), np.array([-1]), np.array([0.5]), np.array([[0]])])
def test_validation_rows_that_do_not_exist_are_refused(iris, few, validation) -> None:
    with pytest.raises(GsscError, match="numbers of rows, from 0 to 149"):
        quick().fit(iris[0], few, validation=validation)


def test_given_edges_are_used_and_found_again_in_their_columns(iris, few) -> None:
    X, _ = iris
    rng = np.random.default_rng(0)
    ends = np.concatenate([rng.integers(50 * c, 50 * c + 50, (2, 100)) for c in range(3)], axis=1)
    ends = np.concatenate([ends, ends[::-1, :5], ends[:, :5], [[7], [7]]], axis=1)
    model = quick().fit(X, few, edge_index=ends)
    assert model.history_[0]["homophily"] == 1  # all of them join rows of one class
    keep = model.edge_keep_probability_
    np.testing.assert_array_equal(model.edge_index_, ends)
    np.testing.assert_array_equal(keep[300:305], keep[:5])  # reversed
    np.testing.assert_array_equal(keep[305:310], keep[:5])  # repeated
    loops = ends[0] == ends[1]
    assert loops[-1]
    np.testing.assert_array_equal(np.isnan(keep), loops)
    across = np.stack([rng.integers(0, 50, 200), rng.integers(50, 150, 200)])
    assert quick().fit(X, few, edge_index=across).history_[0]["homophily"] == 0


def test_edges_name_the_rows_of_a_data_frame(iris, few) -> None:
    pandas = pytest.importorskip("pandas")
    rows, labels = iris[0][::5], few[::5]
    frame = pandas.DataFrame(rows, index=[f"flower {number}" for number in range(len(rows))])
    ends = np.array([np.arange(len(rows) - 1), np.arange(1, len(rows))])
    named = pandas.DataFrame({"source": frame.index[ends[0]], "target": frame.index[ends[1]], "weight": 2.0})
    frame.columns = frame.columns.astype(str)
    model = quick().fit(frame, labels, edge_index=named)
    np.testing.assert_array_equal(model.edge_index_, ends)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(frame)), model.predict_proba(frame), rtol=1e-12)
    with pytest.raises(ValueError, match="did you mean 'flower 0'"):
        quick().fit(frame, labels, edge_index=[("flowr 0", "flower 1")])


def test_keep_probabilities_follow_their_edges(iris, few, fitted) -> None:
    order = np.random.default_rng(1).permutation(fitted.edge_index_.shape[1])
    again = quick().fit(iris[0], few, edge_index=fitted.edge_index_[::-1, order].tolist())
    np.testing.assert_allclose(again.edge_keep_probability_, fitted.edge_keep_probability_[order], atol=1e-6)
    np.testing.assert_allclose(again.predict_proba(iris[0]), fitted.predict_proba(iris[0]), atol=1e-6)


def test_order_of_rows_does_not_matter_much(iris, few) -> None:
    X, _ = iris
    order = np.random.default_rng(0).permutation(150)
    one, other = quick().fit(X, few), quick().fit(X[order], few[order])
    assert (one.transduction_[order] == other.transduction_).mean() > 0.9


@pytest.mark.parametrize("labels", [["setosa", "versicolor", "virginica"], [10, 20, 30], [False, True, True]])
def test_saved_and_loaded_it_predicts_the_same(iris, few, tmp_path, labels) -> None:
    X, _ = iris
    classes = np.array(labels)
    if classes.dtype == bool:
        y = np.array([None if code < 0 else bool(classes[code]) for code in few], dtype=object)
    else:
        y = np.where(few < 0, "" if classes.dtype.kind == "U" else -1, classes[few])
    weights = dict.fromkeys(np.unique(classes).tolist(), 2.0)
    model = quick(class_weight=weights).fit(X, y)
    model.save(tmp_path / "model")
    loaded = GSSCClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, np.unique(classes))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.n_features_in_ == 4
    assert not hasattr(loaded, "feature_names_in_")
    assert loaded.get_params() == model.get_params()
    # The folder is a deployed model like any other: raw rows in, calibrated probabilities out.
    deployed = DeployedModel.load(tmp_path / "model")
    np.testing.assert_allclose(deployed.predict_proba(X), model.predict_proba(X), atol=2e-5)
    assert deployed.class_names == [str(label) for label in np.unique(classes)]


def test_a_run_folder_loads_too(tmp_path) -> None:
    layers = [(np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32))] * 2
    DeployedModel(layers, class_names=["left", "right"], normalize="row").save(tmp_path)
    loaded = GSSCClassifier.load(tmp_path)
    assert loaded.predict([[2.0, 1.0], [0.0, 3.0]]).tolist() == ["left", "right"]
    DeployedModel(layers, class_names=["left", "right"], task="multilabel").save(tmp_path)
    with pytest.raises(GsscError, match="multi-label"):
        GSSCClassifier.load(tmp_path)
    with pytest.raises(NotFittedError):
        GSSCClassifier().save(tmp_path / "nothing")


def test_a_data_frame_keeps_its_columns(iris, few, tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(iris[0], columns=["a", "b", "c", "d"])
    model = quick().fit(frame, pandas.Series(few))
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    model.save(tmp_path)
    loaded = GSSCClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    for predictor in (model, loaded):
        with pytest.raises(ValueError, match="same order"):
            predictor.predict(frame[["b", "a", "c", "d"]])
        with pytest.raises(ValueError, match="[Ff]eature names"):
            predictor.predict(frame.rename(columns={"a": "z"}))
    embedded = model.set_output(transform="pandas").transform(frame)
    assert embedded.columns[0] == "gsscclassifier0"


def test_sparse_and_dense_tables_agree() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    counts = rng.poisson(np.where(y[:, None] == np.arange(12) % 2, 1.0, 0.1)).astype(float)
    few = np.where(np.arange(60) % 3 == 0, y, -1)
    from_sparse = quick(normalize="row").fit(sparse.csr_matrix(counts), few)
    from_dense = quick(normalize="row").fit(counts, few)
    np.testing.assert_allclose(from_sparse.predict_proba(counts), from_dense.predict_proba(counts), atol=1e-4)
    np.testing.assert_allclose(
        from_sparse.predict_proba(sparse.csc_array(counts)), from_sparse.predict_proba(counts), atol=1e-12
    )
    assert from_sparse.score(counts, y) > 0.8
    assert quick().fit(sparse.csr_matrix(-counts), few).model_.normalize == "none"  # sums of rows would be negative


def test_scaling_is_part_of_the_model(iris, few) -> None:
    X = (10 * iris[0]).round()  # so that no rounding error makes the two trainings differ
    stretched = X * [2.0**-20, 1.0, 2.0**10, 1.0] + [0.0, 512.0, 0.0, 0.0]
    one, other = (quick(normalize="standard").fit(rows, few) for rows in (X, stretched))
    np.testing.assert_allclose(other.predict_proba(stretched), one.predict_proba(X), atol=1e-3)
    with pytest.warns(UserWarning, match="column 1 lies far from zero"):
        quick().fit(X + np.array([0.0, 1e7, 0.0, 0.0]), few)


def test_class_weights_move_the_border() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [80, 20])
    X = rng.standard_normal((100, 2)) + 0.7 * y[:, None]
    shares = [
        (quick(class_weight=weight).fit(X, y).predict(X) == 1).mean()
        for weight in (None, "balanced", {0: 1.0, 1: 50.0})
    ]
    assert shares[0] < shares[1] < shares[2]


@pytest.mark.parametrize("trees", [False, True])
def test_a_label_of_weight_zero_is_no_label(iris, few, trees: bool) -> None:
    X, weight = iris[0], np.tile([3.0, 0.0, 1.0], 50)
    config = {**QUICK, "teachers": {**QUICK["teachers"], "trees": trees}}
    one = quick(config=config).fit(X, few, sample_weight=weight)
    other = quick(config=config).fit(X, np.where(weight > 0, few, -1), sample_weight=weight)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_class_of_weight_zero_is_never_predicted(iris, few) -> None:
    model = quick(class_weight={0: 1.0, 1: 0.0, 2: 1.0}).fit(iris[0], few)
    assert not (model.predict(iris[0]) == 1).any()


def test_sample_weights_count_in_calibration(iris, few, validation) -> None:
    X = iris[0]
    weight = np.random.default_rng(0).choice([0.0, 1.0, 9.0], len(few))
    weight[few >= 0] = np.maximum(weight[few >= 0], 1.0)
    weight[validation[::3]] = 0.0
    fitted = quick().fit(X, few, validation=validation, sample_weight=weight)
    known = validation[weight[validation] > 0]
    logits, labels = fitted.model_.logits(X[known]), few[known]
    expected = fit_temperature(logits, labels, PRIOR_ROWS, weight[known])
    assert fitted.model_.temperature == pytest.approx(expected, rel=1e-4)
    alike = fit_temperature(fitted.model_.logits(X[validation]), few[validation], PRIOR_ROWS)
    assert fitted.model_.temperature != pytest.approx(alike, rel=1e-3)


def test_the_scale_of_sample_weights_does_not_matter(iris, few) -> None:
    X, weight = iris[0], 1 + np.arange(150.0) % 4
    one, other = (quick().fit(X, few, sample_weight=scale * weight) for scale in (1.0, 2.0**-40))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_weights_that_leave_no_label_are_refused(iris, few) -> None:
    with pytest.raises(GsscError, match="every training label has weight zero"):
        quick().fit(iris[0], few, sample_weight=np.where(few >= 0, 0.0, 1.0))


def test_seeds(iris, few, fitted) -> None:
    np.testing.assert_array_equal(quick().fit(iris[0], few).predict_proba(iris[0]), fitted.predict_proba(iris[0]))
    other = quick(random_state=np.random.RandomState(5)).fit(iris[0], few)
    assert not np.allclose(other.predict_proba(iris[0]), fitted.predict_proba(iris[0]), atol=1e-3)


def test_threads_and_progress(iris, few, capsys) -> None:
    before = torch.get_num_threads()
    quick(n_jobs=before + 1, verbose=1).fit(iris[0][:20], few[:20] % 4 % 2)
    assert torch.get_num_threads() == before
    assert "trained " in capsys.readouterr().err
    with pytest.raises(ValueError, match="n_jobs"):
        quick(n_jobs=0).fit(iris[0], few)


def test_pipeline_cross_validation_grid_clone_and_pickle(iris, few, fitted) -> None:
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), quick())
    assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.6
    grid = GridSearchCV(quick(), {"n_neighbors": [3, 6]}, cv=2).fit(X, y)
    assert grid.best_params_["n_neighbors"] in (3, 6)
    fresh = clone(fitted)
    assert not hasattr(fresh, "classes_")
    assert fresh.get_params() == fitted.get_params()
    thawed = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(thawed.predict(X), fitted.predict(X))
    edges = fitted.edge_index_
    named = make_pipeline(StandardScaler(), quick()).fit(X, few, gsscclassifier__edge_index=edges)
    np.testing.assert_array_equal(named[-1].edge_index_, edges)


def test_digits_with_five_labels_per_class_beat_an_mlp() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    few = np.full(500, -1)
    for digit in range(10):
        few[np.flatnonzero(y == digit)[:5]] = digit
    later = few < 0
    model = GSSCClassifier(random_state=0).fit(X, few)
    rival = MLPClassifier((64, 64), max_iter=400, random_state=0).fit(X[~later] / 16, y[~later])
    assert model.score(X[later], y[later]) > rival.score(X[later] / 16, y[later]) + 0.02


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors is 0; it must be a whole number, at least 1"),
        ({"n_neighbors": 2.5}, "n_neighbors is 2.5"),
        ({"max_rows": True}, "max_rows is True"),
        ({"normalize": "columns"}, "auto, standard, asinh, row or none"),
        ({"config": {"model": {"width": 3}}}, "unknown setting model.width"),
        ({"config": Config()}, "config is a Config; give a dict"),
        ({"config": {"model": {"name": "gcn"}}}, "config names the model gcn; this classifier trains gssc"),
        ({"class_weight": {0: -1.0}}, "weights must be numbers of at least 0"),
        ({"config": {"teachers": {"rounds": 0}}}, "teachers.rounds is 0"),
    ],
)
def test_parameters_that_are_refused(iris, few, parameters, message) -> None:
    with pytest.raises(GsscError, match=message) as caught:
        quick(**parameters).fit(iris[0], few)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("dtype", [None, object])
def test_minus_one_among_names_is_unknown_to_fit_and_to_score(iris, few, dtype) -> None:
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    given = np.array([-1 if code < 0 else str(names[code]) for code in few], dtype=dtype)
    model = quick().fit(X, given)
    assert model.classes_.tolist() == names.tolist()
    labelled = few >= 0
    assert model.score(X, given) == (model.predict(X)[labelled] == names[y][labelled]).mean() > 0.5
    weight = np.arange(150.0)
    right = (model.predict(X) == names[y])[labelled]
    assert model.score(X, given, weight) == pytest.approx(np.average(right, weights=weight[labelled]))
    with pytest.raises(ValueError, match="no known label"):
        model.score(X[~labelled], given[~labelled])


@pytest.mark.parametrize("dtype", [int, float])
def test_minus_one_and_one_alone_are_scored_as_the_classes_they_are(iris, dtype) -> None:
    X, y = iris
    signs = np.where(y == 0, -1, 1).astype(dtype)
    with pytest.warns(UserWarning, match="two classes"):
        model = quick().fit(X, signs)
    assert model.score(X, signs) == (model.predict(X) == signs).mean()
    assert model.score(X[y == 0], signs[y == 0]) == (model.predict(X[y == 0]) == -1).mean()


def test_the_card_of_a_saved_classifier_tells_what_it_was_fitted_on(iris, few, validation, tmp_path) -> None:
    model = quick(normalize="standard").fit(iris[0], few, validation=validation)
    model.save(tmp_path)
    text = card(read_run_model(tmp_path))
    assert "| training labels | 24 |" in text
    assert "| expected calibration error, after temperature scaling |" in text
    assert "give it raw rows" in text
    assert "test result above" not in text


@pytest.mark.parametrize(
    ("y", "edges", "message"),
    [
        ([-1, -1, -1, -1], None, "holds no label"),
        ([0, 0, -1, -1], None, "one class only"),
        ([0.5, 1.2, 2.2, 3.0], None, "continuous"),
        ([0, 1, -1, -1], [[0, 1], [1, 9]], "names a node that does not exist"),
        ([0, 1, -1, -1], [[0], [0]], "edge"),
        ([0, 1, -1, -1], np.empty((2, 0), dtype=int), "no edges"),
        ([0, 1, -1], None, "inconsistent numbers of samples"),
        (None, None, "requires y"),
    ],
)
def test_tables_that_are_refused(y, edges, message) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(np.arange(8.0).reshape(4, 2), y, edge_index=edges)


def test_a_graph_without_features_is_explained() -> None:
    with pytest.raises(ValueError, match=r"X is None: .*Graph\(None, edges\)"):
        quick().fit(None, [0, 1, -1, -1], edge_index=[[0, 1], [2, 3]])


def test_the_name_is_public_and_light() -> None:
    assert gssc.GSSCClassifier is GSSCClassifier
    assert "GSSCClassifier" in dir(gssc)


def test_without_scikit_learn_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "gssc.estimator")
    with pytest.raises(GsscError, match=r"sklearn is not installed: pip install 'gssc\[data\]'"):
        import_module("gssc.estimator")


def test_columns_with_long_tails_are_learned_and_deployed() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = np.exp(rng.normal(size=(300, 5)) * 1.5 + 1.5 * y[:, None]) * np.array([1e-3, 1, 1, 1e3, 1e5])
    known = np.where(np.arange(300) % 10 == 0, y, -1)
    classifier = quick().fit(X, known)
    assert classifier.model_.activation.startswith("asinh,")
    assert classifier.score(X, y) > quick(normalize="standard").fit(X, known).score(X, y)
    np.testing.assert_allclose(classifier.model_.predict_proba(X), classifier.predict_proba(X), atol=1e-5)


def test_columns_that_are_not_numbers_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [1.0, None, 3.0], "town": ["north", "south", None], "size": [1, 2, 3]})
    table["since"] = pandas.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"])
    expected = (
        r"^X must hold numbers only: encode 'town' \('north'\), 'since' \(Timestamp\('2020-01-01 00:00:00'\)\), as "
        r"OneHotEncoder does; fill in the empty cells of 'age' \(1\), 'town' \(1\), as SimpleImputer does; a "
    )
    with pytest.raises(ValueError, match=expected):
        GSSCClassifier().fit(table, ["a", "b", ""])
