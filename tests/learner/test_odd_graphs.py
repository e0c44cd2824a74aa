"""The default learner on graphs that have little or nothing to learn from, and on numbers that run away."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.data import load_dataset
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner.settings import Config
from gssc.learner.student import StudentTraining
from gssc.models.student import StudentSettings
from gssc.result import fit
from gssc.run import Run
from gssc.train.training import Diverged, Training

GRAPH = load_dataset("csbm", nodes=60, degree=4, classes=3, per_class=6)


def quick(pairs: str = "never", trees: bool = False) -> Config:
    config = Config()
    config.teachers.rounds, config.teachers.pair_epochs, config.teachers.pair_batches = 1, 2, 2
    config.teachers.pairs, config.teachers.trees = pairs, trees  # type: ignore[assignment]
    config.model.hidden, config.model.steps = 8, 10
    return config


def odd_graphs() -> dict[str, Graph]:
    x, edges = np.array(GRAPH.features), GRAPH.edges
    return {
        "constant features": GRAPH.with_(features=np.ones_like(x)),
        "nothing but zeros": GRAPH.with_(features=sp.csr_matrix(x.shape, dtype=np.float32)),
        "one class": GRAPH.with_(labels=np.zeros(60, dtype=int), class_names=("only",)),
        "isolated nodes": GRAPH.with_(edges=edges[:, (edges > 20).all(axis=0)]),
        "one label": GRAPH.with_(train=GRAPH.train[:1]),
        "one label and one to validate": GRAPH.with_(train=GRAPH.train[:1], val=GRAPH.val[:1]),
        "no validation nodes": GRAPH.with_(val=None),
        "one label of each class": GRAPH.with_(train=[list(GRAPH.labels).index(c) for c in range(3)], val=None),
        "one feature": GRAPH.with_(features=x[:, :1]),
        "two nodes": Graph([[1.0, 0.0], [0.0, 1.0]], [[0], [1]], [0, 1], train=[0], test=[1]),
    }


@pytest.mark.parametrize("name", list(odd_graphs()))
def test_odd_graphs_simply_work(name: str) -> None:
    graph = odd_graphs()[name]
    result = fit(graph, quick("always"))
    assert np.isfinite(result.scores).all()
    assert np.isfinite(result.deployed().predict_proba(graph.features)).all()


def test_choices_without_held_out_labels_say_so() -> None:
    result = fit(odd_graphs()["one label of each class"], quick("auto"))
    choices = result.training.choices  # type: ignore[attr-defined]
    assert "no held-out labels" in choices["normalize"]
    assert choices["pairs"] == "no: needs 50 validation labels"
    assert not any(figure in " ".join(choices.values()) for figure in ("inf", "nan"))


@pytest.mark.parametrize("added", [1e9, -3e37])
def test_a_constant_column_of_any_size_changes_no_deployed_prediction(added: float) -> None:
    columns = np.column_stack([GRAPH.features, np.full(60, added)])
    result = fit(GRAPH.with_(features=columns), quick())
    deployed = result.deployed()
    np.testing.assert_allclose(deployed.logits(columns), result.scores, atol=1e-3)
    columns[:, -1] = 0  # a row with another value there is no other row
    np.testing.assert_allclose(deployed.logits(columns), result.scores, atol=1e-3)


@pytest.mark.parametrize("size", [1e-40, 1e-36, 1e30])
@pytest.mark.parametrize("normalize", ["auto", "row", "none"])
@pytest.mark.parametrize("kind", [np.array, sp.csr_matrix])
@pytest.mark.filterwarnings("error")
def test_features_of_any_size_are_learned_and_deployed(kind: type, normalize: str, size: float) -> None:
    graph, config = GRAPH.with_(features=kind(np.array(GRAPH.features) * size)), quick()
    config.train.normalize = normalize  # type: ignore[assignment]
    result = fit(graph, config)
    np.testing.assert_allclose(result.deployed().logits(graph.features), result.scores, atol=1e-2)
    assert np.isfinite(result.edge_trust()[1]).all()


def test_a_single_class_is_learned_by_trees_too() -> None:
    result = fit(odd_graphs()["one class"], quick(trees=True))
    assert (result.deployed().predict_proba(GRAPH.features) == 1).all()


def test_edges_that_are_all_dropped_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from gssc.learner import learner

    found = learner.edge_trust

    def nothing_trusted(*arguments: object) -> object:
        trust = found(*arguments)  # type: ignore[arg-type]
        trust.keep[:] = 0.0
        return trust

    monkeypatch.setattr(learner, "edge_trust", nothing_trusted)
    result = fit(GRAPH, quick("always"))
    assert result.outcome.edges_kept == 0
    assert np.isfinite(result.scores).all()


def test_a_batch_of_one_row_is_passed_over() -> None:
    rows, soft = np.ones((1, 2), dtype=np.float32), np.ones((1, 2), dtype=np.float32) / 2
    student = StudentTraining(rows, soft, np.array([0]), StudentSettings(hidden=4, batch_norm=True, steps=3), 0)
    assert all(np.isfinite(loss) for loss in student.run())


def test_a_student_that_diverges_names_pass_and_batch() -> None:
    rows, soft = np.ones((4, 2), dtype=np.float32), np.full((4, 2), np.nan, dtype=np.float32)
    student = StudentTraining(rows, soft, np.arange(4), StudentSettings(hidden=4, steps=3), 0)
    with pytest.raises(Diverged, match=r"diverged in pass 0, batch 0 of a student: .*finite number"):
        list(student.run())


def test_the_old_run_is_there_when_a_new_one_diverges(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    Run(tmp_path / "run", quick(), GRAPH).train()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    monkeypatch.setattr(StudentTraining, "_one_pass", lambda self: diverge())
    with pytest.raises(GsscError, match=r"pass 7.*; the last good checkpoint is .*; the run before it is still in "):
        Run(tmp_path / "run", quick(), GRAPH, overwrite=True).train()
    assert {name: (tmp_path / "run" / name).read_bytes() for name in before} == before


def diverge() -> float:
    raise Diverged("pass 7")


def test_predictions_that_are_not_finite_stop_any_training(monkeypatch: pytest.MonkeyPatch) -> None:
    from gssc.learner.learner import LearnerTraining

    training: Training = LearnerTraining(GRAPH, quick())
    steps = training.steps()
    broken = next(steps)
    broken.scores[0, 0] = np.nan
    monkeypatch.setattr(training, "steps", lambda: iter([broken]))
    with pytest.raises(Diverged, match=r"diverged in epoch 0 \(scaling\)"):
        list(training.epochs())


@pytest.mark.parametrize("validation", [True, False])
def test_the_largest_seed_of_the_settings_is_one_for_all_teachers(validation: bool) -> None:
    """scikit-learn takes seeds below 2**32 only."""
    graph, config = load_dataset("csbm", nodes=120, degree=4), quick("auto", trees=True)
    config.train.seed = 2**63 - 1
    assert np.isfinite(fit(graph if validation else graph.with_(val=None), config).scores).all()
