"""Algorithm 1 end to end on small graphs: its guarantees, and odd input."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.config import ContrastConfig
from gssc.data import csbm
from gssc.errors import GsscError
from gssc.features import SparseRows
from gssc.graph import Graph
from gssc.result import Result, fit
from gssc.sparsify.registry import sparsifier_settings
from gssc.sparsify.relaxed import sample_edges
from gssc.train import losses
from gssc.train.bilevel import BilevelTraining
from gssc.train.checkpoint import load_checkpoint, save_checkpoint
from gssc.train.optimize import descend, falling
from gssc.train.training import training_labels

GRAPH = csbm(nodes=40, classes=2, features=6, degree=4, per_class=6, signal=3.0)
HAND_MADE = Graph(
    features=[[1.0, 0.0], [1.0, 0.5], [0.0, 1.0], [0.5, 1.0]],
    edges=[[0, 1, 2], [1, 2, 3]],
    labels=[0, 0, 1, 1],
    train=[0, 3],
    val=[1],
    test=[2],
)


def settings(**changes: Any) -> ContrastConfig:
    """Tiny defaults; a change is written section__name=value."""
    config = ContrastConfig()
    config.model.hidden = config.sparsifier.hidden = 8
    config.sparsifier.pretrain_epochs = 2
    config.train.warmup_epochs = config.train.epochs = 2
    config.train.batch_size = 64
    config.train.normalize = "none"
    config.consolidate.epochs = 0  # tests of its own: test_consensus.py
    if "sparsifier__name" in changes:
        config.sparsifier = sparsifier_settings(changes.pop("sparsifier__name"))()
    for name, value in changes.items():
        section, setting = name.split("__")
        assert hasattr(getattr(config, section), setting), name
        setattr(getattr(config, section), setting, value)
    return config


def weights(run: BilevelTraining | Result) -> dict[str, Tensor]:
    training = run.training if isinstance(run, Result) else run
    parts = {"model": training.model, "sparsifier": training.sparsifier}
    return {f"{part}.{name}": v.clone() for part, module in parts.items() for name, v in module.state_dict().items()}


def identical(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())


def finite(training: BilevelTraining | Result) -> bool:
    return all(bool(value.isfinite().all()) for value in weights(training).values())


def finished(graph: Graph, config: ContrastConfig) -> BilevelTraining:
    training = BilevelTraining(graph, config)
    for _ in training.epochs():
        pass
    return training


# Who learns from what (Eq. 15 to 18) ---------------------------------------------------------------------------------


def test_the_classifiers_loss_gives_the_sparsifier_no_gradient():
    training = BilevelTraining(GRAPH, settings(train__warmup_epochs=0))
    kept, edge_weights = training.sample_subgraph()
    assert edge_weights.requires_grad
    before = weights(training)
    training.update_classifier(kept)
    after = weights(training)
    assert all(parameter.grad is None for parameter in training.sparsifier.parameters())
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("sparsifier"))
    assert not torch.equal(after["model.first.weight"], before["model.first.weight"])

    batch = next(training.batches.epoch(training.pairs[:, kept], training.rng))
    out = training.model.compare(batch)
    total = losses.pair_smoothness(GRAPH.task, out.endpoints, out.mixed, out.negatives).mean()
    total = total + losses.classification(GRAPH.task, out.endpoints, out.mixed, batch.labels)
    gradients = torch.autograd.grad(total, list(training.sparsifier.parameters()), allow_unused=True)
    assert all(gradient is None for gradient in gradients)


@pytest.mark.parametrize("objective", ["share", "ratio", "masked_smoothness"])
def test_the_sparsifiers_objective_moves_the_sparsifier_alone(objective: str):
    training = BilevelTraining(GRAPH, settings(train__warmup_epochs=0, sparsifier__objective=objective))
    kept, edge_weights = training.sample_subgraph()
    _, pair_losses = training.update_classifier(kept)
    training.optimizer.zero_grad()
    before = weights(training)
    training.update_sparsifier(edge_weights, training.pair_agreement(training.predict_all()), pair_losses)
    after = weights(training)
    assert all(parameter.grad is None for parameter in training.model.parameters())
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("model"))
    assert not torch.equal(after["sparsifier.first.weight"], before["sparsifier.first.weight"])


@pytest.mark.parametrize("noise", ["logistic", "gumbel"])
@pytest.mark.parametrize("objective", ["share", "ratio"])
def test_homophily_raises_agreeing_and_lowers_disagreeing_edges_through_the_sample(objective: str, noise: str):
    probability = torch.linspace(0.2, 0.9, 40, requires_grad=True)
    agree = (torch.arange(40) % 3 > 0).float()
    sample = sample_edges(probability, 1.0, noise, np.random.default_rng(0))
    if objective == "share":
        losses.homophily_share(sample, agree).neg().backward()
        heard = torch.ones(40, dtype=torch.bool)
    else:
        losses.homophily_ratio(sample, agree).backward()
        heard = sample.detach() > 0.5
    assert heard.sum() > 10
    downhill = -probability.grad
    assert (downhill[heard & (agree == 1)] > 0).all()
    assert (downhill[heard & (agree == 0)] < 0).all()


def test_pairs_that_were_dropped_cost_nothing_and_kept_ones_their_own_loss():
    training = BilevelTraining(GRAPH, settings(train__batch_size=7))
    kept = np.array([3, 8, 20, 21, 33, 50, 51, 60, 61, 70])
    _, pair_losses = training.update_classifier(kept)
    assert np.flatnonzero(pair_losses.numpy()).tolist() == kept.tolist()


def test_both_directions_of_an_edge_have_one_probability_and_a_draw_each():
    training = BilevelTraining(GRAPH, settings(train__warmup_epochs=0, sparsifier__alpha=0.5))
    edges = GRAPH.num_edges
    assert np.array_equal(training.pairs[:, edges:], training.pairs[::-1, :edges])
    draws = np.stack([training.sample_subgraph()[1].detach().numpy() for _ in range(200)])
    forth, back = draws[:, :edges], draws[:, edges:]
    assert (forth != back).any()
    assert np.abs(forth.mean(0) - back.mean(0)).max() < 0.25  # five standard errors of 200 draws


def collapse(objective: str) -> list[int]:
    graph = csbm(nodes=80, classes=2, features=64, degree=4, per_class=10, signal=4.0)
    config = settings(
        sparsifier__objective=objective,
        sparsifier__score="dot",  # Eq. 5 as written
        sparsifier__alpha=0.0,
        sparsifier__pretrain_epochs=0,
        sparsifier__lr=0.02,
        sparsifier__hidden=16,
        objective__negatives="none",
        train__warmup_epochs=3,
        train__epochs=40,
        train__batch_size=1000,
        train__patience=1000,
    )
    return [record.edges_kept for record in BilevelTraining(graph, config).epochs()]


def test_eq_14_empties_the_edge_set_and_eq_16_does_not():
    masked, share, ratio = (collapse(objective) for objective in ("masked_smoothness", "share", "ratio"))
    assert masked[:3] == share[:3] == ratio[:3] == [160] * 3  # warm-up: every edge
    assert min(masked) < 160 / 4  # it goes on up and down between 25 and 50, differently on every processor
    assert np.mean(masked[-20:]) < 160 / 3
    assert masked[-1] < masked[8] < masked[3]
    # A quarter of the edges joins different classes; what homophily drops is about that, and there it stays.
    assert min(share[-5:]) > 160 / 2
    assert min(ratio[-5:]) > 160 / 2


@pytest.mark.parametrize("pretrain", [0, 100])
def test_pretraining_leaves_the_sparsifier_able_to_learn(pretrain: int):
    """Pretraining ends where every edge is kept; if M rounded to one there, it would have no gradient.

    True labels stand in for pseudo-labels here, so that nothing but the sparsifier is tested.
    """
    graph = csbm(nodes=80, classes=2, features=32, degree=4, per_class=6, signal=3.0)
    config = settings(train__warmup_epochs=0, sparsifier__pretrain_epochs=pretrain, sparsifier__hidden=64)
    training = BilevelTraining(graph, config)
    training.sparsifier.pretrain(training.sparsifier_optimizer)
    labels = torch.from_numpy(graph.labels)
    agree = (labels[training.pairs[0]] == labels[training.pairs[1]]).float()
    assert agree.mean() < 0.8
    for _ in range(80):
        _, sample = training.sample_subgraph()
        descend(losses.homophily_ratio(sample, agree), training.sparsifier_optimizer)
    kept, _ = training.sample_subgraph()
    assert agree[kept].mean() > 0.9


# Ablations and options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ablation",
    [
        {"sparsifier__name": "none"},
        {"sparsifier__alpha": 1.0},
        {"objective__negatives": "none"},
        {"model__mix_by": "off"},
        {"objective__center_weight": 0.0},
        {"objective__class_weights": "none"},
    ],
)
def test_ablations_run(ablation: dict[str, Any]):
    training = BilevelTraining(GRAPH, settings(**ablation))
    records = list(training.epochs())
    assert len(records) == 4
    assert finite(training)
    if any(name.startswith("sparsifier") for name in ablation):
        assert [record.edges_kept for record in records] == [GRAPH.num_edges] * 4
    if "objective__negatives" in ablation:
        assert all(record.smoothness_loss >= 0 for record in records)


def test_without_a_sparsifier_it_is_never_touched():
    training = BilevelTraining(GRAPH, settings(sparsifier__name="none"))
    before = weights(training)
    list(training.epochs())
    after = weights(training)
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("sparsifier"))
    assert training.edge_trust()[1].tolist() == [1] * GRAPH.num_edges


@pytest.mark.parametrize("mix_by", ["own_net", "vector", "off"])
@pytest.mark.parametrize("layer_order", ["norm_first", "activation_first"])
@pytest.mark.parametrize("activation", ["leaky_relu", "relu"])
def test_every_architecture_trains(activation: str, layer_order: str, mix_by: str):
    for head_norms, mix_at in product(("separate", "shared"), ("first", "last", "output")):
        config = settings(train__warmup_epochs=1, train__epochs=1, sparsifier__pretrain_epochs=1)
        config.model = replace(
            config.model,
            activation=activation,
            layer_order=layer_order,
            mix_by=mix_by,
            head_norms=head_norms,
            mix_at=mix_at,
            layers=1 if layer_order == "norm_first" and mix_by == "off" else 2,
        )
        training = finished(HAND_MADE, config)
        assert finite(training), config.model
        assert training.epoch == 2


@pytest.mark.parametrize("negatives", ["in_batch", "degree", "uniform", "none"])
@pytest.mark.parametrize("objective", ["ratio", "share", "masked_smoothness"])
@pytest.mark.parametrize("noise", ["logistic", "gumbel"])
def test_every_objective_trains(negatives: str, objective: str, noise: str):
    config = settings(
        train__epochs=2,
        train__warmup_epochs=0,
        objective__negatives=negatives,
        sparsifier__objective=objective,
        sparsifier__noise=noise,
        sparsifier__maps=1 if noise == "gumbel" else 2,
    )
    training = BilevelTraining(GRAPH, config)
    records = list(training.epochs())
    assert finite(training)
    assert 0 < records[-1].edges_kept <= GRAPH.num_edges


@pytest.mark.parametrize(
    "change",
    [
        {"model__layers": 0},
        {"model__hidden": 0},
        {"model__dropout": 1.0},
        {"model__mix_floor": 1.5},
        {"sparsifier__temperature": 0.0},
        {"sparsifier__alpha": 1.5},
        {"train__batch_size": 0},
        {"train__epochs": -1},
        {"train__lr": -0.1},
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_line(change: dict[str, Any]):
    with pytest.raises(GsscError):
        fit(GRAPH, settings(**change))


def test_no_epochs_at_all_is_refused_or_leaves_the_start():
    try:
        run = fit(GRAPH, settings(train__epochs=0, train__warmup_epochs=0))
    except GsscError:
        return
    assert finite(run)


# The schedule --------------------------------------------------------------------------------------------------------


def test_warm_up_sees_every_edge_and_leaves_the_sparsifier_alone():
    training = BilevelTraining(GRAPH, settings(train__warmup_epochs=3, train__epochs=2, sparsifier__alpha=0.0))
    steps = training.epochs()
    first = next(steps)
    before = weights(training)
    records = [first, next(steps), next(steps)]
    after = weights(training)
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("sparsifier"))
    assert {record.edges_kept for record in records} == {GRAPH.num_edges}
    rest = list(steps)
    assert [record.phase for record in records + rest] == ["warm-up"] * 3 + ["alternate"] * 2
    assert [record.epoch for record in records + rest] == [0, 1, 2, 3, 4]
    assert rest[-1].edges_kept < GRAPH.num_edges


def test_patience_ends_warm_up_first_and_then_the_run():
    config = settings(train__warmup_epochs=50, train__epochs=50, train__patience=3, train__lr=0.0, train__mix_lr=0.0)
    training = BilevelTraining(GRAPH, config)
    phases = [record.phase for record in training.epochs()]
    assert phases.count("warm-up") < 50
    assert 3 <= phases.count("alternate") < 50
    assert phases == sorted(phases, reverse=True)
    assert training.phase == "consolidate"


def test_the_learning_rate_falls_in_the_last_phase_alone():
    training = BilevelTraining(GRAPH, settings(train__warmup_epochs=1, train__epochs=1, consolidate__epochs=3))
    rates = [training.optimizer.param_groups[0]["lr"] for _ in training.epochs()]
    assert rates == pytest.approx([0.01, 0.01, 0.01, *(0.01 * falling(progress) for progress in (1 / 3, 2 / 3))])
    assert falling(1.0) == pytest.approx(0.01)


def test_fit_returns_the_epoch_with_the_best_validation_score():
    seen = []
    run = fit(GRAPH, settings(train__epochs=6), on_epoch=seen.append)
    best = max(seen, key=lambda record: (record.val_score, -record.val_loss))
    assert asdict(run.best) == asdict(best)
    assert run.history == seen
    for part, score in ((GRAPH.val, best.val_score), (GRAPH.test, best.test_score)):
        assert GRAPH.task.score(run.scores[part], GRAPH.labels[part]) == score
    assert (run.val_score, run.test_score) == (best.val_score, best.test_score)


@pytest.mark.parametrize("normalize", ["row", "none"])
def test_what_is_deployed_is_what_was_judged(normalize: str):
    graph = GRAPH.with_(features=np.abs(GRAPH.features))
    run = fit(graph, settings(train__normalize=normalize))
    deployed = run.deployed()
    assert np.allclose(deployed.logits(graph.features), run.scores, atol=1e-5)


def test_center_step_takes_no_more_nodes_than_it_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gssc.train.theta.PairTraining.center_nodes", 8)
    training = BilevelTraining(GRAPH, settings())
    sizes = []
    plain = training.model.forward
    monkeypatch.setattr(
        training.model,
        "forward",
        lambda rows: (sizes.append(rows.shape[0]) if training.model.training else None) or plain(rows),
    )
    list(training.epochs())
    assert len(sizes) == 4
    assert max(sizes) <= 8


# The same seed, the same weights -------------------------------------------------------------------------------------


def test_one_seed_one_result_bit_for_bit():
    config = settings(train__epochs=3, train__batch_size=32)
    first, second = weights(finished(GRAPH, config)), weights(finished(GRAPH, config))
    assert identical(first, second)
    other = weights(finished(GRAPH, settings(train__epochs=3, train__batch_size=32, train__seed=1)))
    assert not torch.equal(first["model.first.weight"], other["model.first.weight"])


def test_the_result_depends_on_no_global_generator():
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - that this one has no say is the point
    first = weights(finished(GRAPH, settings()))
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    untouched = torch.random.get_rng_state()
    assert identical(first, weights(finished(GRAPH, settings())))
    assert torch.equal(torch.random.get_rng_state(), untouched)


@pytest.mark.parametrize("mix_by", ["own_net", "vector"])
@pytest.mark.parametrize("stop_after", [1, 3, 4, 6])
def test_a_run_taken_up_from_its_checkpoint_ends_at_the_same_weights(tmp_path: Path, stop_after: int, mix_by: str):
    config = settings(train__warmup_epochs=3, train__epochs=4, train__batch_size=32, model__mix_by=mix_by)
    straight = BilevelTraining(GRAPH, config)
    expected = [replace(record, seconds=0) for record in straight.epochs()]

    stopped = BilevelTraining(GRAPH, config)
    steps = stopped.epochs()
    for _ in range(stop_after):
        next(steps)
    save_checkpoint(tmp_path / "run.safetensors", stopped.state_dict())
    resumed = BilevelTraining(GRAPH, replace_seed(config))
    resumed.load_state_dict(load_checkpoint(tmp_path / "run.safetensors"))
    rest = [replace(record, seconds=0) for record in resumed.epochs()]

    assert rest == expected[stop_after:]
    assert identical(weights(resumed), weights(straight))


def replace_seed(config: ContrastConfig) -> ContrastConfig:
    """The same settings with another seed: the whole state must come from the checkpoint."""
    return replace(config, train=replace(config.train, seed=config.train.seed + 1))


def test_a_checkpoint_from_before_the_first_epoch_is_one_too(tmp_path: Path):
    fresh = BilevelTraining(GRAPH, settings())
    save_checkpoint(tmp_path / "run.safetensors", fresh.state_dict())
    resumed = BilevelTraining(GRAPH, replace_seed(settings()))
    resumed.load_state_dict(load_checkpoint(tmp_path / "run.safetensors"))
    list(fresh.epochs())
    list(resumed.epochs())
    assert identical(weights(resumed), weights(fresh))


def test_a_state_kept_in_memory_does_not_move_on_with_the_run(tmp_path: Path):
    training = BilevelTraining(GRAPH, settings())
    steps = training.epochs()
    next(steps)
    state = training.state_dict()
    save_checkpoint(tmp_path / "before.safetensors", state)
    list(steps)
    save_checkpoint(tmp_path / "after.safetensors", state)
    assert (tmp_path / "before.safetensors").read_bytes() == (tmp_path / "after.safetensors").read_bytes()


def test_threads_are_those_of_the_settings_while_it_trains_and_as_before_afterwards():
    torch.set_num_threads(2)
    try:
        steps = BilevelTraining(GRAPH, settings(train__threads=1)).epochs()
        assert torch.get_num_threads() == 2
        next(steps)
        assert torch.get_num_threads() == 1
        steps.close()
        assert torch.get_num_threads() == 2
        fit(GRAPH, settings(train__threads=1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


# What training may see -----------------------------------------------------------------------------------------------


def test_training_labels_are_those_of_train_nodes_alone():
    labels = training_labels(GRAPH)
    assert torch.equal(labels[GRAPH.train], torch.from_numpy(GRAPH.labels[GRAPH.train]))
    hidden = np.setdiff1d(np.arange(GRAPH.num_nodes), GRAPH.train)
    assert (labels[hidden] == -1).all()


@pytest.mark.parametrize("setting", ["inductive", "cold-start"])
def test_unseen_test_rows_never_touch_the_weights(setting: str):
    """Garbage in the test rows, and other edges between them, must leave the chosen model as it is."""
    clean = GRAPH.with_(setting=setting)
    features = np.array(GRAPH.features)
    features[GRAPH.test] = 1e3 * np.random.default_rng(0).standard_normal((len(GRAPH.test), 6))
    extra = np.stack([GRAPH.test, np.roll(GRAPH.test, 1)])
    touching = np.stack([GRAPH.test, np.resize(GRAPH.train, len(GRAPH.test))])
    poisoned = clean.with_(features=features, edges=np.concatenate([GRAPH.edges, extra, touching], axis=1))
    runs = [fit(graph, settings(train__epochs=4)) for graph in (clean, poisoned)]
    assert identical(weights(runs[0]), weights(runs[1]))
    assert [run.training.table.shape[0] for run in runs] == [GRAPH.num_nodes - len(GRAPH.test)] * 2
    # The test can fail: where test rows are seen, the same garbage does change the weights.
    seen = [fit(graph.with_(setting="transductive"), settings()) for graph in (clean, poisoned)]
    assert not identical(weights(seen[0]), weights(seen[1]))


def test_test_labels_have_no_influence_at_all():
    labels = GRAPH.labels.copy()
    labels[GRAPH.test] = 1 - labels[GRAPH.test]
    runs = [fit(graph, settings(train__epochs=5)) for graph in (GRAPH, GRAPH.with_(labels=labels))]
    assert identical(weights(runs[0]), weights(runs[1]))
    assert runs[0].best.epoch == runs[1].best.epoch
    assert runs[0].best.test_score == pytest.approx(1 - runs[1].best.test_score)


def test_validation_labels_choose_an_epoch_but_never_train():
    labels = GRAPH.labels.copy()
    labels[GRAPH.val] = 1 - labels[GRAPH.val]
    ends = []
    for graph in (GRAPH, GRAPH.with_(labels=labels)):
        training = BilevelTraining(graph, settings(train__patience=100))
        for _ in training.epochs():
            last = weights(training)  # of the last epoch, before the one to keep is put in place
        ends.append(last)
    assert identical(*ends)


# Where features live -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", ["row", "none"])
def test_memory_mapped_features_give_the_same_weights(tmp_path: Path, normalize: str):
    np.save(tmp_path / "x.npy", GRAPH.features)
    mapped = GRAPH.with_(features=np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert isinstance(mapped.features, np.memmap)
    config = settings(train__normalize=normalize)
    assert identical(weights(finished(mapped, config)), weights(finished(GRAPH, config)))


def test_sparse_features_give_the_same_weights_up_to_rounding():
    features = np.where(GRAPH.features > 0, GRAPH.features, 0)
    config = settings(train__epochs=1, train__warmup_epochs=1, train__batch_size=1000)
    runs = [weights(finished(GRAPH.with_(features=stored), config)) for stored in (features, sp.csr_matrix(features))]
    for name, dense in runs[0].items():
        assert torch.allclose(dense.float(), runs[1][name].float(), atol=2e-3), name


# Odd input -----------------------------------------------------------------------------------------------------------


def odd_graphs() -> dict[str, Graph]:
    x, edges, y = np.array(GRAPH.features), GRAPH.edges, GRAPH.labels
    zero_rows = x.copy()
    zero_rows[::3] = 0
    lonely = edges[:, (edges > 9).all(axis=0)]  # nodes 0 to 9 have no edge
    three = np.concatenate([y[:-1], [2]])  # the third class has one node, which is in no training set
    rest = np.setdiff1d(np.arange(40), GRAPH.train)
    return {
        "smaller than one batch": HAND_MADE,
        "all-zero rows": GRAPH.with_(features=zero_rows),
        "sparse all-zero rows": GRAPH.with_(features=sp.csr_matrix(zero_rows)),
        "nothing but zeros": GRAPH.with_(features=sp.csr_matrix(x.shape, dtype=np.float32)),
        "constant features": GRAPH.with_(features=np.ones_like(x)),
        "isolated nodes": GRAPH.with_(edges=lonely),
        "no validation set": GRAPH.with_(val=None),
        "no test set": GRAPH.with_(test=None),
        "a class absent from training": GRAPH.with_(
            labels=three, train=np.setdiff1d(GRAPH.train, [39]), val=rest[:10], test=rest[10:]
        ),
        "two nodes and one edge": Graph([[1.0, 0.0], [0.0, 1.0]], [[0], [1]], [0, 1], train=[0], test=[1]),
        "one label": GRAPH.with_(train=GRAPH.train[:1]),
        "labels on no edge": GRAPH.with_(edges=lonely, train=np.arange(10), val=[20], test=[30]),
        "one class": GRAPH.with_(labels=np.zeros(40, dtype=int), class_names=("only",)),
        "one feature": GRAPH.with_(features=x[:, :1]),
    }


@pytest.mark.parametrize("normalize", ["row", "none"])
@pytest.mark.parametrize("name", list(odd_graphs()))
def test_odd_graphs_simply_work(name: str, normalize: str):
    graph = odd_graphs()[name]
    run = fit(graph, settings(train__normalize=normalize))
    assert finite(run)
    assert run.deployed().predict_proba(graph.features).shape == (graph.num_nodes, graph.num_classes)


@pytest.mark.parametrize("negatives", ["in_batch", "degree", "uniform", "none"])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 1000])
def test_any_batch_size_works(batch_size: int, negatives: str):
    config = settings(train__batch_size=batch_size, objective__negatives=negatives, train__max_batches=4)
    assert finite(finished(HAND_MADE, config))


def test_a_sampled_subgraph_of_a_single_pair_works(monkeypatch: pytest.MonkeyPatch):
    training = BilevelTraining(GRAPH, settings(train__warmup_epochs=0))
    sample = training.sample_subgraph

    def one_pair() -> tuple[np.ndarray, Tensor]:
        return np.array([5]), sample()[1]

    monkeypatch.setattr(training, "sample_subgraph", one_pair)
    assert [record.edges_kept for record in training.epochs()] == [1, 1]
    assert finite(training)


@pytest.mark.parametrize("objective", ["share", "ratio", "masked_smoothness"])
def test_a_sparsifier_that_drops_everything_stops_nothing(objective: str, monkeypatch: pytest.MonkeyPatch):
    training = BilevelTraining(GRAPH, settings(sparsifier__objective=objective, sparsifier__pretrain_epochs=0))
    plain = training.sparsifier.keep_probability
    monkeypatch.setattr(training.sparsifier, "keep_probability", lambda: 0 * plain())
    records = list(training.epochs())
    assert [record.edges_kept for record in records[2:]] == [0, 0]
    assert np.isnan(records[-1].homophily)
    assert np.isnan(records[-1].pseudo_homophily)
    assert finite(training)


def test_without_validation_the_whole_schedule_runs_and_its_end_is_kept():
    run = fit(GRAPH.with_(val=None), settings(train__epochs=5, train__patience=1))
    assert run.outcome.epochs == 7
    assert run.best.epoch == 6
    assert np.isnan(run.best.val_score)


def test_no_training_label_is_refused():
    with pytest.raises(GsscError, match="no training labels"):
        BilevelTraining(GRAPH.with_(train=None), settings())


@pytest.mark.parametrize("tasks", [1, 3])
def test_multilabel_targets_with_missing_entries_train(tasks: int):
    rng = np.random.default_rng(0)
    targets = (rng.random((40, tasks)) > 0.5).astype(float)
    targets[rng.random((40, tasks)) > 0.7] = np.nan
    targets[GRAPH.train[0]] = np.nan
    graph = GRAPH.with_(labels=targets, class_names=None)
    for objective in ("share", "ratio"):
        run = fit(graph, settings(sparsifier__objective=objective, train__epochs=3))
        assert finite(run)
        assert 0 <= run.best.val_score <= 1
        assert 0 <= run.best.pseudo_homophily <= 1
        assert run.deployed().predict(graph.features).shape == (40, tasks)


def test_a_single_multilabel_task_still_has_negatives():
    """The softmax of a single task is always one, so with it the negative term would have no gradient."""
    rng = np.random.default_rng(0)
    graph = GRAPH.with_(labels=(rng.random((40, 1)) > 0.5).astype(float), class_names=None)
    gradients = []
    for weight in (0.0, 1.0):
        config = settings(objective__negative_weight=weight, train__warmup_epochs=1, train__epochs=0)
        gradients.append(weights(finished(graph, config))["model.first.weight"])
    assert not torch.equal(gradients[0], gradients[1])


def test_large_features_do_not_break_the_sparsifier():
    graph = GRAPH.with_(features=1e3 * GRAPH.features)
    training = BilevelTraining(graph, settings(sparsifier__alpha=0.0))
    training.sparsifier.pretrain(training.sparsifier_optimizer)
    assert finite(training)


def test_features_around_zero_survive_the_default_normalisation():
    """Standardised features sum to nearly nothing; dividing by that sum blows some rows up and turns others round."""
    graph = csbm(nodes=80, classes=2, features=32, degree=4, per_class=6, signal=3.0)
    training = BilevelTraining(graph, settings(train__normalize=ContrastConfig().train.normalize))
    rows = training.table.all()
    assert rows.abs().max() <= graph.features.max() + 1e-6
    assert ((rows * torch.from_numpy(graph.features)).sum(1) > 0).all()


# Other devices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_matrix])
def test_ordinary_torch_operations_train_the_same_model_up_to_rounding(stored: Any):
    graph = GRAPH.with_(features=stored(np.abs(GRAPH.features)))
    config = settings(train__normalize="row", train__epochs=1, train__warmup_epochs=1, consolidate__epochs=2)
    fast, plain = BilevelTraining(graph, config), BilevelTraining(graph, config, plain=True)
    assert not isinstance(plain.table.all(), SparseRows)
    for _ in fast.epochs():
        pass
    for _ in plain.epochs():
        pass
    assert torch.allclose(fast.predict_all(), plain.predict_all(), atol=2e-2)
    assert np.allclose(fast.edge_trust()[1], plain.edge_trust()[1], atol=1e-2)


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "meta"])
def test_a_device_that_is_not_there_is_refused_in_one_line(device: str):
    with pytest.raises(GsscError, match=f"^train.device is '{device}', which cannot be used here .*; use cpu$"):
        BilevelTraining(GRAPH, settings(train__device=device))
