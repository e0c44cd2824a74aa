"""Every model under every sparsifier on a tiny graph: it trains, or the pair is refused with the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gssc.data import load_dataset
from gssc.errors import GsscError
from gssc.models.registry import MODELS
from gssc.recipes import config_for
from gssc.result import fit as fit_config
from gssc.result import make_training
from gssc.sparsify.registry import SPARSIFIERS, relevant_settings
from gssc.train.checkpoint import load_checkpoint, save_checkpoint
from gssc.train.registry import training_way

pytestmark = pytest.mark.usefixtures("short_students")
CLOSED_FORM = ("label_spreading", "linear_spread", "linear_both", "ridge_student")
IMPOSSIBLE = {(model, name) for model in ("mlp", "linear_rows") for name in SPARSIFIERS if name != "none"} | {
    (model, name) for model in CLOSED_FORM for name in ("lds", "neural_sparse", "gaug", "str_sparse")
}


@pytest.fixture(scope="module")
def graph():
    return load_dataset("csbm", nodes=60, degree=4, classes=3, per_class=5)


# The default learner trains many models in turn; these tests ask for few of them.
FEW_TEACHERS = {"teachers": {"linear": True, "trees": False, "pairs": "always"}}
# It trains on pairs as str_contrast does, so three ways to choose edges stand for all.
PAIRS = [
    (model, sparsifier)
    for model in MODELS
    for sparsifier in (SPARSIFIERS if model != "gssc" else ("none", "evidence", "str_sparse"))
]


def config(model, sparsifier, graph, seed=0, **train):
    quick = relevant_settings(sparsifier, {"pretrain_epochs": 3})
    typed = {"sparsifier": {"name": sparsifier, **quick}, "train": {"seed": seed, **train}}
    return config_for(model, graph.name, graph.split, typed, FEW_TEACHERS if model == "gssc" else {})


def fit(model, sparsifier, graph, seed=0):
    return fit_config(graph, config(model, sparsifier, graph, seed).shortened(3)).outcome


@pytest.mark.parametrize(("model", "sparsifier"), PAIRS)
def test_any_model_with_any_sparsifier(model, sparsifier, graph):
    if (model, sparsifier) in IMPOSSIBLE:
        with pytest.raises(GsscError, match="does not use edges|no gradient"):
            fit(model, sparsifier, graph)
        return
    outcome = fit(model, sparsifier, graph)
    assert outcome.scores.shape == (graph.num_nodes, graph.num_classes)
    assert np.isfinite(outcome.scores).all()
    assert 0 <= outcome.val_score <= 1
    assert 0 < outcome.edges_total <= graph.num_edges
    if model == "gssc":  # its records are of many models, and its trust in edges is that of the evidence
        return
    assert outcome.epochs <= 9
    if sparsifier == "none":
        assert outcome.edges_kept == outcome.edges_total == graph.num_edges


@pytest.mark.parametrize("setting", ["inductive", "cold-start"])
@pytest.mark.parametrize("model", MODELS)
def test_any_model_in_any_setting(model, setting, graph):
    outcome = fit(model, "none", graph.with_(setting=setting))
    assert outcome.scores.shape == (graph.num_nodes, graph.num_classes)
    assert np.isfinite(outcome.scores).all()
    assert outcome.edges_total < graph.num_edges


@pytest.mark.parametrize("model", [name for name in MODELS if not MODELS[name].load().passes_messages])
def test_a_model_that_needs_no_edges_answers_the_same_without_them(model, graph):
    sparsifier = "none" if (model, "str_sparse") in IMPOSSIBLE else "str_sparse"
    unseen, alone = (fit(model, sparsifier, graph.with_(setting=name)) for name in ("inductive", "cold-start"))
    np.testing.assert_array_equal(unseen.scores, alone.scores)


@pytest.mark.parametrize("sparsifier", SPARSIFIERS)
def test_any_sparsifier_where_test_nodes_come_later(sparsifier, graph):
    outcome = fit("gcn", sparsifier, graph.with_(setting="inductive"))
    assert np.isfinite(outcome.scores).all()


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_gives_the_same_scores(model, graph):
    np.testing.assert_array_equal(fit(model, "none", graph, seed=3).scores, fit(model, "none", graph, seed=3).scores)


@pytest.mark.parametrize("model", [name for name in MODELS if name not in ("mlp", "label_spreading")])
def test_training_never_sees_test_nodes_in_the_inductive_setting(model, graph):
    """Other features at test nodes leave every answer about other nodes as it was, if they have no edges either."""
    apart = graph.with_(setting="cold-start")
    features = apart.features.copy()
    features[apart.test] += 100
    changed = apart.with_(features=features, _checked_features=None)
    before, after = fit(model, "none", apart), fit(model, "none", changed)
    assert before.val_score == after.val_score
    if model not in ("sgformer", "glognn"):  # in these, every node attends to all others in prediction
        others = np.setdiff1d(np.arange(graph.num_nodes), graph.test)
        np.testing.assert_allclose(before.scores[others], after.scores[others], atol=1e-5)


def test_how_each_sparsifier_is_trained():
    ways = {
        "none": None,
        "drop_edge": None,
        "spectral": None,
        "rank_degree": None,
        "ss_rd": None,
        "lds": "validation",
        "neural_sparse": "loss",
        "gaug": "loss",
        "evidence": None,
        "str_sparse": "loss",
    }
    assert {name: training_way("gcn", name) for name in ways} == ways
    learned = ("lds", "neural_sparse", "gaug", "str_sparse")
    for model in ("str_contrast", "graph_mlp", "link_dist"):
        assert {training_way(model, name) for name in learned} == {"homophily"}


@pytest.mark.parametrize(("model", "sparsifier"), [("gcn", "str_sparse"), ("gcn", "lds"), ("graph_mlp", "str_sparse")])
def test_a_learned_sparsifier_learns(model, sparsifier, graph):
    training = make_training(graph, config(model, sparsifier, graph, epochs=6, warmup_epochs=2))
    before = [parameter.detach().clone() for parameter in training.sparsifier.parameters()]
    for _ in training.epochs():
        after = [parameter.detach().clone() for parameter in training.sparsifier.parameters()]
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_the_sparsifier_that_is_kept_is_the_one_that_was_judged(graph):
    outcome = fit_config(graph, config("gcn", "str_sparse", graph, epochs=4)).outcome
    val = graph.val
    assert (outcome.scores[val].argmax(1) == graph.labels[val]).mean() == outcome.val_score


RESUMED = [("gcn", "none"), ("gcn", "str_sparse"), ("gcn", "lds"), ("gat", "drop_edge"), ("link_dist", "gaug")]


@pytest.mark.parametrize(("model", "sparsifier"), [*RESUMED, ("graph_mlp", "str_sparse"), ("glnn", "drop_edge")])
@pytest.mark.parametrize("stop_after", [1, 3, 6])
def test_any_training_goes_on_from_a_checkpoint_to_the_same_scores(model, sparsifier, stop_after, graph, tmp_path):
    settings = config(model, sparsifier, graph).shortened(5)
    whole, stopped, resumed = (make_training(graph, settings) for _ in range(3))
    expected = [replace(record, seconds=0) for record in whole.epochs()]
    steps = stopped.epochs()
    for _ in range(min(stop_after, len(expected) - 1)):
        next(steps)
    save_checkpoint(tmp_path / "c", stopped.state_dict())
    resumed.load_state_dict(load_checkpoint(tmp_path / "c"))
    rest = [replace(record, seconds=0) for record in resumed.epochs()]
    assert rest == expected[-len(rest) :]
    np.testing.assert_array_equal(resumed.outcome().scores, whole.outcome().scores)


@pytest.mark.parametrize("model", [name for name in MODELS if not MODELS[name].load().passes_messages])
def test_a_model_that_needs_no_edges_is_deployed_or_has_a_reason_not_to_be(model, graph):
    result = fit_config(graph, config(model, "none", graph).shortened(3))
    if result.needs_graph:
        assert model in ("link_dist", "graph_mlp")
        assert "layers that a deployed MLP lacks" in result.needs_graph
    else:
        np.testing.assert_allclose(result.deployed().logits(graph.features), result.scores, atol=1e-4)


@pytest.mark.parametrize("model", ["gcn", "label_spreading"])
def test_a_model_that_needs_the_graph_is_not_deployed(model, graph):
    with pytest.raises(GsscError, match=f"^{model} .*graph"):
        fit_config(graph, config(model, "none", graph).shortened(3)).deployed()


@pytest.mark.parametrize("model", ["gcn", "mlp", "sgc"])
def test_models_whose_loss_is_that_of_the_task_take_multilabel_targets(model, graph):
    rng = np.random.default_rng(0)
    targets = (rng.random((graph.num_nodes, 2)) > 0.5).astype(float)
    targets[rng.random(targets.shape) > 0.8] = np.nan
    outcome = fit(model, "none", graph.with_(labels=targets, class_names=None))
    assert outcome.scores.shape == (graph.num_nodes, 2)
    assert 0 <= outcome.val_score <= 1
    with pytest.raises(GsscError, match="one class per node"):
        fit("link_dist", "none", graph.with_(labels=targets, class_names=None))


@pytest.mark.parametrize("sparsifier", ["none", "str_sparse"])
@pytest.mark.parametrize("model", ["gcn", "graph_mlp", "link_dist", "glnn", "nagphormer"])
def test_labels_of_test_nodes_change_nothing(model, sparsifier, graph):
    labels = graph.labels.copy()
    labels[graph.test] = (labels[graph.test] + 1) % graph.num_classes
    np.testing.assert_array_equal(
        fit(model, sparsifier, graph).scores, fit(model, sparsifier, graph.with_(labels=labels)).scores
    )


@pytest.mark.parametrize("sparsifier", ["none", "str_sparse"])
@pytest.mark.parametrize("model", ["gcn", "graph_mlp", "link_dist", "glnn", "str_contrast"])
def test_features_of_unseen_nodes_change_nothing_of_what_is_learned(model, sparsifier, graph):
    cold = graph.with_(setting="cold-start")
    features = cold.features.copy()
    features[cold.test] += 3
    before, after = (fit(model, sparsifier, each).scores for each in (cold, cold.with_(features=features)))
    seen = np.setdiff1d(np.arange(graph.num_nodes), graph.test)
    np.testing.assert_allclose(before[seen], after[seen], atol=1e-6)
    assert not np.allclose(before[graph.test], after[graph.test])
