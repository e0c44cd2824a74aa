"""The default learner on small made graphs: what it learns, that it is blind to test labels, that it resumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from gssc.calibration import PRIOR_ROWS, fit_temperature
from gssc.config import parse_config
from gssc.data import load_dataset
from gssc.data.noise import add_noise
from gssc.data.scaling import mean_length
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner import other_models
from gssc.learner.faculty import Faculty, offered_scalings
from gssc.learner.jury import Jury, known_labels
from gssc.learner.learner import LearnerTraining
from gssc.learner.pool import KEPT, Pool
from gssc.learner.progress import records_ahead
from gssc.learner.settings import Config
from gssc.models.student import all_logits
from gssc.result import fit
from gssc.run import Run
from gssc.settings import read_settings
from gssc.sparsify.registry import sparsifier_settings
from gssc.train.training import Training


def quick(**teachers: object) -> Config:
    """One round of short students, without trees."""
    config = Config()
    config.teachers.trees, config.teachers.rounds, config.teachers.pairs = False, 1, "never"
    for name, value in teachers.items():
        setattr(config.teachers, name, value)
    config.model.hidden, config.model.steps = 32, 100
    return config


def trained(graph: Graph, config: Config) -> Training:
    training = LearnerTraining(graph, config)
    for _ in training.epochs():
        pass
    return training


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load_dataset("csbm", nodes=300, seed=0, signal=1.0)


def rows_alone(graph: Graph) -> float:
    """Test score of a logistic regression on the rows of training nodes."""
    model = LogisticRegression(C=1.0, max_iter=500).fit(graph.features[graph.train], graph.labels[graph.train])
    return float(model.score(graph.features[graph.test], graph.labels[graph.test]))


def test_a_run_whose_kept_student_is_a_ridge_regression_writes_one_record_of_it_on_all_rows() -> None:
    graph = load_dataset("csbm", nodes=300, seed=0, signal=2.0, setting="cold-start")
    whole, first, second = (LearnerTraining(graph, quick()) for _ in range(3))
    records = list(whole.epochs())
    assert [record.phase for record in records[-2:]].count("student on all rows") == 1
    assert whole.choices["student"].startswith("ridge")
    for _ in zip(range(len(records) - 1), first.epochs(), strict=False):
        pass
    assert records_ahead(first)["students"] == 1
    second.load_state_dict(first.state_dict())
    assert [record.phase for record in second.epochs()] == ["student on all rows"]
    assert same(weights_of(second), weights_of(whole))
    assert len(whole.deployed().layers) == 1


def weights_of(training: Training) -> list[np.ndarray]:
    return [array for layer in training.deployed().layers for array in layer]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_it_is_blind_to_test_labels(graph: Graph):
    """Shuffled test labels: the same choices and the same bytes."""
    labels = graph.labels.copy()
    labels[graph.test] = np.random.default_rng(0).permutation(labels[graph.test])
    first, second = (trained(found, quick()) for found in (graph, graph.with_(labels=labels)))
    assert same(weights_of(first), weights_of(second))
    assert first.choices == second.choices  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["x", -1])
def test_a_state_with_an_impossible_epoch_is_refused(graph: Graph, value: object):
    training = LearnerTraining(graph, quick())
    next(training.epochs())
    state = training.state_dict()
    assert state["counters"]["phase"] == "teachers"
    state["counters"]["epoch"] = value
    with pytest.raises(ValueError, match="epoch"):
        LearnerTraining(graph, quick()).load_state_dict(state)


@pytest.mark.parametrize("stop", [1, 4, 6, 20])
def test_it_resumes_from_any_step_to_the_same_bytes(graph: Graph, stop: int):
    """Steps fall among the teachers, the pairs and the students."""
    config = quick(pairs="always", pair_epochs=2, pair_batches=2)
    whole = weights_of(trained(graph, config))
    first, second = (LearnerTraining(graph, config) for _ in range(2))
    for _, _ in zip(range(stop), first.epochs(), strict=False):
        pass
    second.load_state_dict(first.state_dict())
    for _ in second.epochs():
        pass
    assert same(weights_of(second), whole)


@pytest.mark.parametrize("left", [1, 5, 12, 14])
def test_the_kept_student_is_trained_again_on_all_rows_and_that_resumes(left: int):
    """Unseen rows: 10 records are those of the kept student, which is a network here, on all rows."""
    graph = load_dataset("csbm", nodes=300, seed=2, signal=3.0, setting="cold-start")
    whole, first, second = (LearnerTraining(graph, quick()) for _ in range(3))
    records = list(whole.epochs())
    assert [record.phase for record in records[-10:]] == ["student on all rows"] * 10
    assert sum(record.best for record in records[-10:]) == 0
    assert records_ahead(whole)["students"] == 0
    kept = whole.student
    assert kept is not None
    assert len(kept.nodes) == len(whole.students.taught) + len(whole.students.held_out)
    deployed, last = whole.outcome().scores, kept.model  # the weights of all rows are those that are deployed
    np.testing.assert_allclose(deployed[whole.seen_nodes], all_logits(last, kept.rows), atol=1e-4)
    for _, _ in zip(range(len(records) - left), first.epochs(), strict=False):
        pass
    assert records_ahead(first)["students"] == left
    second.load_state_dict(first.state_dict())
    assert [record.phase for record in second.epochs()] == [record.phase for record in records[-left:]]
    assert same(weights_of(second), weights_of(whole))
    np.testing.assert_array_equal(second.outcome().val_scores, whole.outcome().val_scores)


def test_the_temperature_for_unseen_rows_is_fitted_on_rows_that_the_student_has_not_learned() -> None:
    """Rows are wide and few: the student of all rows knows the soft labels of the validation rows by heart."""
    graph = load_dataset("csbm", nodes=800, seed=1, signal=2.0, features=300, setting="inductive")
    order = np.random.default_rng(0).permutation(np.concatenate([graph.val, graph.test]))
    result = fit(graph.with_(val=order[:150], test=order[150:400]), quick())
    outcome, labels = result.outcome, graph.labels[np.sort(order[:150])]
    assert outcome.val_scores is not None
    temperature = result.deployed().temperature
    assert temperature == fit_temperature(outcome.val_scores, labels, PRIOR_ROWS)
    assert temperature > 1.2 * fit_temperature(outcome.scores[np.sort(order[:150])], labels, PRIOR_ROWS)


def test_stopped_after_a_student_it_makes_no_record_twice(graph: Graph):
    whole = [record.phase for record in LearnerTraining(graph, quick()).epochs()]
    first, second = (LearnerTraining(graph, quick()) for _ in range(2))
    before = []
    for record in first.epochs():
        before.append(record.phase)
        if first.student is not None and first.student.has_ended:
            break
    second.load_state_dict(first.state_dict())
    assert before + [record.phase for record in second.epochs()] == whole
    assert same(weights_of(second), weights_of(trained(graph, quick())))


@pytest.mark.parametrize("stop", [2, 5])
def test_stopped_among_the_teachers_it_makes_the_same_choices(stop: int, monkeypatch: pytest.MonkeyPatch):
    """After five records the correction is decided; nothing that was fitted before is fitted again."""
    clean = load_dataset("csbm", nodes=300, seed=2, homophily=0.8, signal=1.0)
    graph, _ = add_noise(clean, label="asymmetric:0.7", structure="none", features="none", seed=0)
    config = quick(trees=True)
    fit, fits = Faculty._views, []
    monkeypatch.setattr(Faculty, "_views", lambda *inputs: fits.append(1) or fit(*inputs))
    whole, first, second = (LearnerTraining(graph, config) for _ in range(3))
    records = [epoch.phase for epoch in whole.epochs()]
    needed = len(fits)
    fits.clear()
    for _ in zip(range(stop), first.epochs(), strict=False):
        pass
    second.load_state_dict(first.state_dict())
    assert 0 < len(fits) < needed
    assert [epoch.phase for epoch in second.epochs()] == records[stop:]
    assert len(fits) == needed
    assert (second.choices, second.epoch) == (whole.choices, whole.epoch)
    assert same(weights_of(second), weights_of(whole))


@pytest.mark.parametrize(
    ("homophily", "wanted", "answer"),
    [
        (0.5, "auto", "yes: held-out score of linear teachers "),
        (0.8, "auto", "no: rows alone tell too little, held-out score of linear teachers "),
        (0.2, "auto", "no: held-out score of linear teachers "),
        (0.8, "never", "no: as set"),
        (0.2, "always", "yes: as set"),
    ],
)
def test_pairs_are_trained_on_where_edges_help_linear_teachers(homophily: float, wanted: str, answer: str) -> None:
    graph = load_dataset("csbm", nodes=300, seed=0, signal=1.5, homophily=homophily)
    training = LearnerTraining(graph, quick(pairs=wanted, pair_epochs=1, pair_batches=1))
    phases = [record.phase for record in training.epochs()]
    assert training.choices["pairs"].startswith(answer)
    assert ("pairs" in phases) == answer.startswith("yes")


@pytest.mark.parametrize(
    ("with_edges", "without", "helps", "reason"),
    [
        (0.8, 0.7, True, ""),
        (0.7, 0.8, False, ""),
        (0.9, 0.6, True, ""),
        (0.9, 0.4, False, "rows alone tell too little, "),
        (1.0, 0.98, True, ""),  # no error with edges counts as one
        (1.0, 0.9, False, "rows alone tell too little, "),
    ],
)
def test_pairs_help_if_edges_do_but_not_five_times(
    graph: Graph, with_edges: float, without: float, helps: bool, reason: str
) -> None:
    faculty = LearnerTraining(graph, quick()).faculty
    faculty.pool.scores = {
        "class means on rows spread over trusted edges": with_edges,
        "regression, C=1 on rows": without,
        "forest on rows": 1.0,  # no linear teacher
    }
    told = f"held-out score of linear teachers {with_edges:.3f} with edges, {without:.3f} without"
    assert faculty.pairs_help() == (helps, reason + told)


@pytest.mark.parametrize("stop", [3, 8])
def test_little_memory_keeps_few_opinions_and_resumes_to_the_same_bytes(
    graph: Graph, stop: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gssc.learner.pool.MOST_NUMBERS", 0)
    monkeypatch.setattr("gssc.learner.faculty.MOST_STORED", 0)
    config = quick(pairs="always", pair_epochs=2, pair_batches=2, models="none")
    whole, first, second = (LearnerTraining(graph, config) for _ in range(3))
    for record in whole.epochs():
        assert not whole.faculty.fitted
        needed = {*whole.pool.best(KEPT), *whole.pool.team(config.teachers.best)}
        assert record.phase == "scaling" or whole.pool.opinions.keys() == needed
    assert "inf" not in whole.faculty.pairs_help()[1]  # scores of opinions that are gone are remembered
    for _ in zip(range(stop), first.epochs(), strict=False):
        pass
    second.load_state_dict(first.state_dict())
    for _ in second.epochs():
        pass
    assert second.choices == whole.choices
    assert same(weights_of(second), weights_of(whole))


def test_edges_between_classes_do_no_harm():
    graph = load_dataset("csbm", nodes=400, seed=1, homophily=0.05, signal=2.0)
    assert trained(graph, quick()).outcome().test_score > rows_alone(graph) - 0.02


def test_labels_moved_to_the_next_class_are_moved_back():
    """Most labels are wrong, all in one way; held-out labels show it."""
    clean = load_dataset("csbm", nodes=900, seed=2, homophily=0.8, signal=1.0)
    noisy, _ = add_noise(clean, label="asymmetric:0.7", structure="none", features="none", seed=0)
    corrected, plain = (trained(noisy, quick(correction=how)) for how in ("auto", "never"))
    assert corrected.choices["correction"].startswith("yes")  # type: ignore[attr-defined]
    assert corrected.outcome().test_score > plain.outcome().test_score + 0.2


def test_without_validation_labels_cross_validation_chooses(graph: Graph):
    result = trained(graph.with_(val=np.empty(0, dtype=np.int64)), quick()).outcome()
    assert result.test_score > 0.5


def test_unseen_rows_are_predicted():
    """Rows that training never saw, without edges: at least as well as by a regression on the rows it saw."""
    graph = load_dataset("csbm", nodes=600, seed=0, signal=2.0, setting="cold-start")
    result = trained(graph, quick()).outcome()
    assert result.scores.shape == (graph.num_nodes, graph.num_classes)
    assert result.test_score > rows_alone(graph) - 0.02


def test_the_deployed_model_gives_the_scores_of_the_run(graph: Graph):
    training = trained(graph, quick())
    predicted = training.deployed().predict(graph.features)
    assert (predicted == training.outcome().scores.argmax(axis=1)).mean() > 0.99


def test_columns_are_standardised_last_where_features_are_sparse():
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, (200, 40)) * (rng.random((200, 40)) < 0.2) * 5.0
    assert offered_scalings(counts)[0] == "standard"
    assert offered_scalings(sp.csr_matrix(counts)) == ["row", "none", "standard"]
    assert offered_scalings(sp.csr_matrix(counts[:, :20] - 1)) == ["none", "standard"]
    words = rng.poisson(0.1, (200, 150)).astype(np.float32)
    assert offered_scalings(sp.csr_matrix(words)) == ["row", "none"]


@pytest.mark.parametrize(("right", "chosen"), [(70, "none"), (83, "none"), (90, "standard")])
def test_another_scaling_is_chosen_only_if_it_is_clearly_ahead(
    right: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 validation labels the usual scaling gets 80 right: three more are 1.8 standard errors, ten are 3.3."""
    graph = load_dataset("csbm", nodes=300, seed=0)
    graph = graph.with_(val=graph.test[:100], test=None)
    keep = np.ones(graph.num_edges)
    pool = Pool(Jury(known_labels(graph), graph.train, graph.val, graph.num_classes), graph.edges, keep, 300)
    faculty = Faculty(graph, keep, pool, "auto", seed=0)

    def ask(name: str, fit: object, inputs: object) -> None:
        count = 80 if "(none)" in name else right
        told = np.where(np.isin(np.arange(300), graph.val[:count]), graph.labels, (graph.labels + 1) % 5)
        pool.add(name, (0.5 * np.eye(5)[told] + 0.1,))

    monkeypatch.setattr(faculty, "ask", ask)
    assert offered_scalings(graph.features) == ["none", "standard"]
    assert faculty.choose_scaling() == (
        chosen,
        f"held-out score of linear models on rows: none 0.800, standard 0.{right}0",
    )


def test_several_targets_need_another_model():
    targets = np.random.default_rng(0).integers(0, 2, (20, 3)).astype(float)
    graph = Graph(np.eye(20), edges=[[0], [1]], labels=targets, train=np.arange(10), val=np.arange(10, 15))
    with pytest.raises(GsscError, match="str_contrast"):
        LearnerTraining(graph, Config())


def test_a_run_writes_down_what_was_decided(graph: Graph, tmp_path: Path):
    """As comments of config.yaml, which stays what settings are read from, and in metrics.json."""
    metrics = Run(tmp_path / "run", quick(), graph).train()
    assert {"trust", "labels", "normalize", "correction", "student"} <= metrics["choices"].keys()
    text = (tmp_path / "run" / "config.yaml").read_text()
    assert f"#   normalize: {metrics['choices']['normalize']}" in text
    assert parse_config(read_settings(tmp_path / "run" / "config.yaml")) == quick()


def test_without_a_sparsifier_no_edge_is_doubted(graph: Graph):
    config = quick()
    config.sparsifier = sparsifier_settings("none")()
    assert (LearnerTraining(graph, config).edge_trust()[1] == 1).all()
    assert (LearnerTraining(graph, quick()).edge_trust()[1] < 1).any()


@pytest.mark.parametrize("given", [{"class_weight": [1.0, 30.0, 1.0, 1.0, 1.0]}, {"node_weight": (30.0, 1.0)}])
def test_pair_training_weighs_labels_by_class_and_node(graph: Graph, given: dict):
    """Labels of the second class count thirty times as much: pair training predicts it more often."""
    if "node_weight" in given:
        given = {"node_weight": np.where(graph.labels == 1, *given["node_weight"])}
    shares = []
    for weights in ({}, {name: np.asarray(weight) for name, weight in given.items()}):
        training = LearnerTraining(graph, quick(pairs="always", pair_epochs=10), **weights)
        training.scaling_name = "none"
        pairs = training._make_pairs()
        for _ in pairs.epochs():
            pass
        shares.append(float(pairs.consensus.mean()[:, 1].mean()))
    assert shares[1] > shares[0] + 0.05


def next_class_graph() -> Graph:
    """Five classes in a ring, edges from each to the next one; rows carry little information."""
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=400)
    first = rng.integers(400, size=4000)
    members = [np.flatnonzero(labels == label) for label in range(5)]
    second = np.array([rng.choice(members[(labels[node] + 1) % 5]) for node in first])
    rows = rng.normal(size=(5, 32))[labels] * 0.25 + rng.normal(size=(400, 32))
    train, val, test = np.split(rng.permutation(400), [100, 200])
    return Graph(rows.astype(np.float32), np.stack([first, second]), labels, train, val, test, name="ring")


def test_graphsage_is_a_teacher_by_default_where_neighbours_have_other_classes() -> None:
    asked, alone = (trained(next_class_graph(), quick(models=models)) for models in ("auto", "none"))
    assert any(name.startswith("sage") for name in asked.faculty.pool.opinions)  # type: ignore[attr-defined]
    assert asked.outcome().kept.val_loss < alone.outcome().kept.val_loss


def test_graphsage_is_not_trained_where_averages_over_edges_are_best() -> None:
    training = trained(load_dataset("csbm", nodes=300, seed=0, homophily=0.9, signal=0.5), quick())
    assert not any(name.startswith("sage") for name in training.faculty.pool.opinions)  # type: ignore[attr-defined]


def without_validation_labels() -> Graph:
    """Return a graph without validation labels on which averages over edges make the best linear teacher."""
    graph = load_dataset("csbm", nodes=200, seed=1, homophily=0.8, signal=0.3)
    return graph.with_(val=np.empty(0, dtype=np.int64))


def test_without_validation_labels_a_gcn_is_a_teacher_where_averages_over_edges_are_best() -> None:
    training = LearnerTraining(without_validation_labels(), quick())
    records = list(training.epochs())
    assert any(name.startswith("gcn on rows and edges") for name in training.pool.scores)
    assert [record.phase for record in records].count("gcn") == len(training.jury.views)  # one record per fit


def test_a_run_stopped_between_the_fits_of_a_gcn_resumes_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = without_validation_labels()
    whole, first, second = (LearnerTraining(graph, quick()) for _ in range(3))
    fits = [record.phase for record in whole.epochs()].index("gcn") + 3
    for _ in zip(range(fits), first.epochs(), strict=False):
        pass
    state, fitted = first.state_dict(), []
    train = other_models.trained_view
    monkeypatch.setattr("gssc.learner.learner.trained_view", lambda *arguments: fitted.append(1) or train(*arguments))
    second.load_state_dict(state)
    for _ in second.epochs():
        pass
    assert same(weights_of(second), weights_of(whole))
    assert len(fitted) == len(whole.jury.views) - 3


def test_no_other_model_is_trained_by_default_where_it_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_models, "MOST_NUMBERS", 100)
    training = LearnerTraining(without_validation_labels(), quick())
    assert "gcn" not in {record.phase for record in training.epochs()}


def test_checkpoints_with_settings_of_another_version_are_refused_at_once() -> None:
    graph = load_dataset("csbm", nodes=200, seed=0)
    training = LearnerTraining(graph, quick())
    for _ in training.epochs():
        pass
    state = training.state_dict()
    state["best"]["weights"]["settings"]["naive_bayes"] = False
    with pytest.raises(TypeError, match="naive_bayes"):
        LearnerTraining(graph, quick()).load_state_dict(state)


def test_graphsage_that_is_not_clearly_ahead_stays_out() -> None:
    training = trained(load_dataset("csbm", nodes=300, seed=0, homophily=0.1, signal=2.0), quick())
    assert "does not join" in training.choices["models"]  # type: ignore[attr-defined]
    assert not any(name.startswith("sage") for name in training.faculty.pool.opinions)  # type: ignore[attr-defined]


def test_a_light_edge_is_not_reported_as_a_wrong_one() -> None:
    graph = load_dataset("csbm", nodes=300, seed=0, homophily=0.9, signal=2.0)
    weight = np.random.default_rng(0).uniform(0.1, 10, graph.num_edges).astype(np.float32)
    plain, weighted = (LearnerTraining(g, quick()) for g in (graph, graph.with_(edge_weight=weight)))
    np.testing.assert_array_equal(weighted.edge_trust()[1], plain.edge_trust()[1])
    assert not np.array_equal(weighted.trust.keep, plain.trust.keep)  # training does use the weights


def test_the_student_learns_from_rows_of_any_size() -> None:
    assert np.isfinite(mean_length(np.full((2, 2), 1e30, dtype=np.float32)))


@pytest.mark.parametrize("model", ["gssc", "linear_rows", "ridge_student"])
def test_memory_mapped_features_are_scaled_as_others_are(tmp_path: Path, model: str) -> None:
    """A map of the features, with edges in memory: the deployed model gives the scores of the run."""
    graph = load_dataset("csbm", nodes=200, seed=0, homophily=0.8, signal=1.0)
    rows = np.asarray(graph.features) * np.geomspace(1, 100, graph.num_features, dtype=np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = graph.with_(features=np.load(tmp_path / "rows.npy", mmap_mode="r"))
    config = parse_config({"model": {"name": model}, "train": {"normalize": "standard"}})
    results = [fit(known, config) for known in (mapped, graph.with_(features=rows))]
    predicted = [result.deployed().logits(rows) for result in results]
    np.testing.assert_allclose(predicted[0], predicted[1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(predicted[0], results[0].scores, rtol=1e-3, atol=1e-3)


def test_the_name_of_a_graph_decides_nothing() -> None:
    """GraphSAGE has other settings for graphs named as the benchmarks are; as a teacher it must not use them."""
    graph = next_class_graph()
    weights = []
    for name in ("mine", "actor"):
        training = trained(graph.with_(name=name, split="random-0"), quick(models="sage"))
        weights.append(training.best.weights["model"])
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])


def test_constant_rows_leave_the_trust_in_labels_defined() -> None:
    graph = load_dataset("csbm", nodes=300, seed=0, homophily=0.8)
    graph = graph.with_(features=np.ones((300, 3), np.float32), test=None, val=None)
    graph = graph.with_(val=np.setdiff1d(np.arange(300), graph.train)[:100])
    training = trained(graph, quick(pairs="always", pair_epochs=1))
    assert training.choices["labels"] == "0.0% of the training labels look wrong"


def test_teachers_that_are_off_do_not_teach() -> None:
    """Without linear teachers no regression teaches, and what was not decided is not stated."""
    graph = load_dataset("csbm", nodes=300, seed=0, homophily=0.8, signal=1.0)
    training = LearnerTraining(graph, quick(linear=False, trees=False, models="sage"))
    assert isinstance(training, LearnerTraining)
    list(training.ask_teachers())
    assert all(name.startswith("sage") for name in training.pool.opinions)
    assert training.choices["labels"].startswith("not judged")
    assert training.choices["pairs"] == "no: as set"
    assert "correction" not in training.choices
    with pytest.raises(GsscError, match="no teacher is enabled"):
        list(LearnerTraining(graph, quick(linear=False, trees=False, models="none")).ask_teachers())


@pytest.mark.parametrize(("name", "message"), [("sagee", "did you mean 'sage'"), ("gssc", "is the learner itself")])
def test_models_that_cannot_teach_are_refused_at_once(name: str, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        LearnerTraining(load_dataset("csbm", nodes=300, seed=0), quick(models=f"gcn,{name}"))


def test_a_pool_without_room_is_pruned_while_the_best_opinions_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_dataset("csbm", nodes=300, seed=0, homophily=0.3, signal=2.0)
    monkeypatch.setattr("gssc.learner.pool.MOST_NUMBERS", 40 * 300 * graph.num_classes)
    monkeypatch.setattr("gssc.learner.faculty.FEW", 30)  # all of them, also those that the first averages push out
    training = LearnerTraining(graph, quick(trees=True, models="none"))
    list(training.ask_teachers())
    assert any(" over trust" in name for name in training.pool.scores)


def test_codes_beside_large_columns_are_no_words() -> None:
    """One-hot codes and a few columns of amounts: these would outweigh the codes unless columns are scaled."""
    rng = np.random.default_rng(0)
    codes = np.eye(20, dtype=np.float32)[rng.integers(0, 20, (300, 8))].reshape(300, 160)
    amounts = rng.lognormal(8, 2, (300, 4)).astype(np.float32)
    assert "standard" in offered_scalings(np.hstack([codes, amounts]))
    assert "standard" in offered_scalings(sp.csr_matrix(np.hstack([codes, amounts])))
    assert "standard" not in offered_scalings(codes)


def test_students_of_another_version_are_refused_when_a_run_is_resumed() -> None:
    graph = load_dataset("csbm", nodes=300, seed=0)
    training = LearnerTraining(graph, quick())
    state = training.rounds.state_dict()
    with pytest.raises(ValueError, match="its students are close"):
        training.rounds.load_state_dict({**state, "kinds": ["close", "plain"]})
