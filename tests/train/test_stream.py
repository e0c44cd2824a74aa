"""Streamed training: equal to training in memory on equal batches, resumable, bounded in memory, chosen by size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gssc.config import ContrastConfig
from gssc.data import csbm
from gssc.data.build import build_graph
from gssc.data.graph_stream import InMemoryStream, NodeFacts
from gssc.data.synthetic import CsbmStream
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.learner.learner import LearnerTraining
from gssc.learner.settings import Config
from gssc.learner.streamed import StreamedLearner, fitted
from gssc.result import fit, make_training
from gssc.run import Run
from gssc.run_graph import fingerprint
from gssc.sparsify.registry import sparsifier_settings
from gssc.train.bilevel import BilevelTraining
from gssc.train.checkpoint import load_checkpoint, save_checkpoint
from gssc.train.stream import StreamedTraining
from gssc.trust.streamed import NodeSketches

GRAPH = csbm(nodes=200, classes=3, features=6, degree=6, per_class=10, signal=4.0)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    folder = tmp_path_factory.mktemp("disk")
    build_graph(InMemoryStream(GRAPH), folder / "g.graph")
    return Graph.load(folder / "g.graph")


def pair_settings(sparsifier: str = "none", **train: Any) -> ContrastConfig:
    config = ContrastConfig(sparsifier=sparsifier_settings(sparsifier)())
    config.model.hidden, config.train.batch_size, config.train.normalize = 8, 64, "standard"
    config.train.warmup_epochs, config.train.epochs = 0, 3
    for name, value in train.items():
        setattr(config.train, name, value)
    return config


def learner_settings(**teachers: Any) -> Config:
    config = Config()
    config.model.hidden, config.train.memory = 8, 0.0
    config.teachers.pair_epochs, config.teachers.pair_batches = 1, 3
    for name, value in teachers.items():
        setattr(config.teachers, name, value)
    return config


def weights(training: BilevelTraining) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in training.model.state_dict().items()}


def identical(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def finished(training: Any) -> Any:
    for _ in training.epochs():
        pass
    return training


# The same result on the same batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mix_at", ["first", "output"])
def test_streamed_and_in_memory_steps_are_the_same_on_the_same_batches(on_disk: Graph, mix_at: str) -> None:
    config = pair_settings()
    config.model.mix_at = mix_at  # type: ignore[assignment]
    memory, streamed = BilevelTraining(GRAPH, config), StreamedTraining(on_disk, config)
    streamed.prepare()
    assert identical(weights(memory), weights(streamed))
    start = weights(memory)
    of_memory = memory._weight_of_classes(memory.pairs)
    assert of_memory is not None
    assert streamed.class_weight is not None
    assert torch.equal(of_memory, streamed.class_weight)
    chosen = [np.random.default_rng(7).permutation(memory.pairs.shape[1])[part * 64 :][:64] for part in range(6)]
    for training in (memory, streamed):
        batches = (training.batches.batch(memory.pairs, index, np.random.default_rng(1)) for index in chosen)
        training.descend_on(batches, of_memory)
        training.update_centers()
    assert not identical(weights(memory), start)
    assert identical(weights(memory), weights(streamed))
    predicted = streamed.predict(np.arange(GRAPH.num_nodes))
    assert torch.allclose(memory.predict_all(), predicted, atol=1e-6)


@pytest.mark.parametrize("mix_at", ["first", "output"])
def test_a_pass_trains_on_every_pair_once(on_disk: Graph, mix_at: str) -> None:
    config = pair_settings(epochs=2)
    config.model.mix_at = mix_at  # type: ignore[assignment]
    training = StreamedTraining(on_disk, config)
    records = list(training.epochs())
    assert [record.edges_kept for record in records] == [2 * GRAPH.num_edges] * 2
    assert records[0].homophily == pytest.approx(GRAPH.homophily())
    assert training.position_numbers == [2, 0, 0]


def test_the_evidence_drops_pairs_by_their_keep_probability() -> None:
    drawn = np.random.default_rng(0).integers(0, GRAPH.num_nodes, (2, 300))
    noisy = GRAPH.with_(edges=np.concatenate([GRAPH.edges, drawn], axis=1))
    training = StreamedTraining(noisy, pair_settings("evidence", epochs=4))
    records = list(training.epochs())
    assert training.trust is not None
    keep = training.trust.keep_of(noisy.edges, training.dense_rows)
    expected = 2 * keep.sum()
    spread = np.sqrt(2 * (keep * (1 - keep)).sum())
    for record in records:
        assert abs(record.edges_kept - expected) < 5 * spread
        assert record.homophily > noisy.homophily() + 0.05
    warm = StreamedTraining(noisy, pair_settings("evidence", warmup_epochs=1, epochs=0))
    assert next(iter(warm.epochs())).edges_kept == 2 * noisy.num_edges


@pytest.mark.parametrize("sparsifier", ["none", "evidence"])
@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_edge_weights_multiply_the_keep_probabilities(tmp_path: Path, sparsifier: str, setting: str) -> None:
    rng = np.random.default_rng(0)
    weight = rng.choice([4.0, 1.0, 0.5], GRAPH.num_edges)
    build_graph(InMemoryStream(GRAPH.with_(edge_weight=weight)), tmp_path / "w.graph")
    graph = Graph.load(tmp_path / "w.graph").with_(setting=setting)
    config = learner_settings(pair_batches=30)
    config.sparsifier = sparsifier_settings(sparsifier)()
    training = StreamedLearner(graph, config)
    (record, *_) = training.epochs()
    seen = np.ones(GRAPH.num_nodes, dtype=bool)
    seen[GRAPH.test] = setting == "transductive"
    edges = GRAPH.edges[:, (visible := seen[GRAPH.edges].all(axis=0))]
    trust = np.ones(edges.shape[1]) if training.trust is None else training.trust.keep_of(edges, training.dense_rows)
    keep = trust * weight[visible] / 4
    spread = 2 * np.sqrt(30 * (keep * (1 - keep)).sum())
    assert abs(record.edges_kept - 30 * 2 * keep.sum()) < 5 * spread  # an edge counts in both directions, 30 passes
    assert training.edge_trust()[1].mean() == pytest.approx(trust.mean(), abs=0.05)  # a low weight is no wrong edge
    unweighed = StreamedTraining(graph, pair_settings())
    assert next(iter(unweighed.epochs())).edges_kept == 2 * edges.shape[1]  # models other than the default learner


def test_the_budget_of_pairs_does_not_grow_with_the_graph(on_disk: Graph) -> None:
    training = StreamedTraining(on_disk, pair_settings(max_batches=2, epochs=3))
    records = list(training.epochs())
    assert [record.edges_kept for record in records] == [128] * 3
    assert training.position_numbers == [0, 0, 6]


@pytest.mark.parametrize(("max_batches", "end"), [(0, [2, 0, 0]), (1, [0, 0, 2])])
def test_the_position_moves_past_batches_whose_pairs_are_all_dropped(max_batches: int, end: list[int]) -> None:
    """A batch is drawn the same way every time, so an epoch that started at a dropped one would not get past it."""
    training = StreamedTraining(GRAPH, pair_settings("evidence", epochs=2, max_batches=max_batches))
    training.prepare()
    assert training.trust is not None
    training.trust.keep = lambda sketches, rows, ends: np.zeros(ends.shape[1], np.float32)  # type: ignore[method-assign]
    finished(training)
    assert training.position_numbers == end


# Runs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 3])
def test_a_resumed_training_ends_with_the_same_weights(on_disk: Graph, tmp_path: Path, stop: int) -> None:
    whole = finished(StreamedLearner(on_disk, learner_settings()))
    stopped = StreamedLearner(on_disk, learner_settings())
    epochs = stopped.epochs()
    for _ in range(stop):
        next(epochs)
    epochs.close()  # type: ignore[attr-defined]
    save_checkpoint(tmp_path / "c.safetensors", stopped.state_dict())
    resumed = StreamedLearner(on_disk, learner_settings())
    resumed.load_state_dict(load_checkpoint(tmp_path / "c.safetensors"))
    assert identical(weights(whole), weights(finished(resumed)))


def test_size_decides_between_memory_and_stream(on_disk: Graph) -> None:
    config = learner_settings()
    assert type(make_training(on_disk, config)) is StreamedLearner
    assert type(make_training(GRAPH, config)) is LearnerTraining
    config.train.memory = 0.25
    training = make_training(on_disk, config)
    assert type(training) is LearnerTraining
    assert not training.graph.on_disk
    assert type(make_training(on_disk, pair_settings(memory=0.0))) is StreamedTraining


def test_a_run_on_a_graph_on_disk_is_deployed_like_any_other(on_disk: Graph, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", learner_settings(pair_epochs=3, pair_batches=10), on_disk)
    metrics = run.train()
    assert metrics["test_score"] > 0.85
    assert metrics["edges_total"] == GRAPH.num_edges
    assert metrics["graph"] == fingerprint(on_disk)
    assert run.result is not None
    model = run.result.deployed()
    predicted = model.predict_proba(np.asarray(on_disk.features)).argmax(axis=1)
    assert (predicted == run.result.scores[:].argmax(axis=1)).all()
    assert run.result.scores.shape == (200, 3)
    assert np.load(tmp_path / "run" / "edges.npz")["edge_index"].shape[1] == GRAPH.num_edges


def opinions_of(training: StreamedLearner, nodes: np.ndarray) -> np.ndarray:
    """The teacher's probabilities."""
    assert training.teacher is not None
    assert training.sketches is not None
    return training.teacher(training.sketches.of_nodes(nodes), training.dense_rows(nodes))


def test_the_teacher_is_better_than_rows_alone(on_disk: Graph) -> None:
    training = StreamedLearner(on_disk, learner_settings())
    training.prepare()
    assert training.teacher is not None
    opinions = opinions_of(training, GRAPH.test)
    assert (opinions.argmax(axis=1) == GRAPH.labels[GRAPH.test]).mean() > 0.9
    assert "regression on" in training.choices["teacher"]
    batch = next(training.epoch_batches(sparsify=False))
    assert batch.soft is not None
    assert batch.soft.shape == (len(batch.rows), 3)
    without = StreamedLearner(on_disk, learner_settings(linear=False))
    assert next(without.epoch_batches(sparsify=False)).soft is None


def test_balanced_classes_count_alike_in_the_teacher_and_in_the_loss(on_disk: Graph) -> None:
    """One label of class 0 among those of others: balanced, it counts as much as they do."""
    train = np.concatenate(
        [GRAPH.train[GRAPH.labels[GRAPH.train] > 0], GRAPH.train[GRAPH.labels[GRAPH.train] == 0][:1]]
    )
    of_teacher, of_loss = [], []
    for class_weight in ("none", "balanced"):
        config = learner_settings()
        config.train.class_weight = class_weight  # type: ignore[assignment]
        training = StreamedLearner(on_disk.with_(train=train), config)
        training.prepare()
        assert training.teacher is not None
        of_teacher.append(training.teacher.bias[0] - training.teacher.bias[1:].mean())
        assert training.class_weight is not None
        of_loss.append(training.class_weight[0] / training.class_weight[1])
    assert of_teacher[1] > of_teacher[0]
    assert of_loss[1] > 2 * of_loss[0]


@pytest.mark.parametrize("negatives", ["in_batch", "uniform"])
def test_a_batch_has_the_rows_and_soft_labels_of_its_kept_pairs(on_disk: Graph, negatives: str) -> None:
    training = StreamedLearner(on_disk, learner_settings())
    training.batches.negatives = negatives
    training.prepare()
    assert training.teacher is not None
    assert training.trust is not None
    training.trust.keep = lambda sketches, rows, ends: np.full(ends.shape[1], 0.5, np.float32)  # type: ignore[method-assign]
    batch = next(training.epoch_batches(sparsify=True))
    assert 2 <= len(batch) < training.settings.train.batch_size
    assert isinstance(batch.rows, torch.Tensor)
    roles = [batch.source, batch.target, *([] if batch.negative is None else [batch.negative])]
    assert torch.equal(torch.cat(roles).unique(), torch.arange(len(batch.rows)))  # none is of a dropped pair
    assert batch.soft is not None
    for place, nodes in zip((batch.source, batch.target), batch.ends, strict=True):
        rows = training.dense_rows(nodes)
        np.testing.assert_array_equal(batch.rows[place].numpy(), rows)
        np.testing.assert_allclose(batch.soft[place].numpy(), opinions_of(training, nodes), rtol=1e-5, atol=1e-7)


def test_after_the_pairs_single_rows_are_taught(on_disk: Graph) -> None:
    """Rows follow the pairs where there is a teacher, and the MLP agrees with it at the end."""
    training = StreamedLearner(on_disk, learner_settings(pair_epochs=2, pair_batches=4))
    records = list(training.epochs())
    assert [record.phase for record in records] == ["pairs"] * 2 + ["rows"] * 18
    losses = [record.classification_loss for record in records if record.phase == "rows"]
    assert losses[-1] < losses[0]
    assert training.teacher is not None
    nodes = np.arange(on_disk.num_nodes)
    opinions = opinions_of(training, nodes)
    assert (training.predict(nodes).numpy().argmax(axis=1) == opinions.argmax(axis=1)).mean() > 0.8
    without = StreamedLearner(on_disk, learner_settings(linear=False, pair_epochs=2))
    assert {record.phase for record in without.epochs()} == {"pairs"}


@pytest.mark.parametrize("setting", ["inductive", "cold-start"])
def test_unseen_rows_are_not_taught(on_disk: Graph, setting: str) -> None:
    training = StreamedLearner(on_disk.with_(setting=setting), learner_settings())
    training.prepare()
    assert training.sketches is not None
    asked: list[np.ndarray] = []
    of_nodes = training.sketches.of_nodes
    training.sketches.of_nodes = lambda nodes: (asked.append(nodes), of_nodes(nodes))[1]  # type: ignore[func-returns-value,method-assign]
    assert len(list(training.taught_rows())) == 3
    assert not np.isin(np.concatenate(asked), on_disk.test).any()


@pytest.mark.parametrize("setting", ["inductive", "cold-start"])
def test_test_nodes_and_their_edges_are_not_seen(on_disk: Graph, setting: str) -> None:
    graph = on_disk.with_(setting=setting)
    training = finished(StreamedLearner(graph, learner_settings()))
    seen, _ = GRAPH.with_(setting=setting).training_view()
    assert training.outcome().edges_total == seen.num_edges
    assert not np.isin(training.edge_trust()[0], graph.test).any()


# Odd input -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_streamed_is_refused(on_disk: Graph) -> None:
    with pytest.raises(GsscError, match="no sparsifier str_sparse"):
        StreamedTraining(on_disk, pair_settings("str_sparse"))
    targets = GRAPH.with_(labels=np.eye(3)[GRAPH.labels])
    with pytest.raises(GsscError, match="one class per node"):
        StreamedLearner(targets, learner_settings())
    assert np.isfinite(finished(StreamedTraining(targets, pair_settings())).outcome().val_score)


def odd_graphs() -> dict[str, Graph]:
    edges = GRAPH.edges
    return {
        "constant features": GRAPH.with_(features=np.ones((200, 6))),
        "nothing but zeros": GRAPH.with_(features=np.zeros((200, 6))),
        "one class": GRAPH.with_(labels=np.zeros(200, dtype=np.int64)),
        "isolated nodes": GRAPH.with_(edges=edges[:, (edges < 50).all(axis=0)]),
        "no validation": GRAPH.with_(val=None),
        "one label": GRAPH.with_(train=GRAPH.train[:1]),
        "one edge": GRAPH.with_(edges=[[0], [1]]),
        "two nodes": Graph([[1.0, 0.0], [0.0, 1.0]], [[0], [1]], [0, 1], train=[0], test=[1]),
        "one node to learn from": Graph(
            np.eye(3), [[0, 1], [1, 2]], [0, 1, 0], train=[0], test=[1, 2], setting="inductive"
        ),
    }


@pytest.mark.parametrize("odd", list(odd_graphs()))
def test_odd_graphs_train_to_finite_weights(odd: str, tmp_path: Path) -> None:
    build_graph(InMemoryStream(odd_graphs()[odd]), tmp_path / "odd.graph")
    graph = Graph.load(tmp_path / "odd.graph").with_(setting=odd_graphs()[odd].setting)
    training = finished(StreamedLearner(graph, learner_settings()))
    assert all(bool(value.isfinite().all()) for value in weights(training).values())
    assert np.isfinite(training.outcome().scores[:]).all()


def test_edges_that_are_all_dropped_leave_the_rows_to_learn_from(on_disk: Graph, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", learner_settings(pair_batches=10), on_disk)
    training = run.training
    assert isinstance(training, StreamedLearner)
    training.prepare()
    assert training.trust is not None
    training.trust._keep = lambda measured: np.zeros(len(measured), np.float32)  # type: ignore[method-assign]
    assert run.train()["edges_kept"] == 0
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["edges_kept"] for record in records if record["phase"] == "pairs"] == [0]
    assert training.kept().val_score > 0.8


def test_a_loss_that_is_not_finite_names_epoch_batch_and_checkpoint(on_disk: Graph, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", learner_settings(), on_disk)
    training = run.training
    assert isinstance(training, StreamedLearner)
    training.prepare()
    right, asked = training.teacher, []
    assert right is not None

    def teacher(sketches: NodeSketches, rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return right(sketches, rows) * (np.nan if len(asked) == 3 + 2 * 3 + 2 else 1)  # pairs, two epochs, second batch

    training.teacher = teacher
    with pytest.raises(GsscError, match=r"diverged in epoch 3, batch 1: .*last good checkpoint is .*before epoch \d"):
        run.train()


def test_a_graph_that_is_written_to_while_it_is_trained_on_ends_the_run(tmp_path: Path) -> None:
    build_graph(InMemoryStream(GRAPH), tmp_path / "g.graph")
    training = StreamedLearner(Graph.load(tmp_path / "g.graph"), learner_settings())
    epochs = training.epochs()
    next(epochs)
    features = np.load(tmp_path / "g.graph" / "features.npy", mmap_mode="r+")
    features[:] = -features
    features.flush()
    with pytest.raises(GsscError, match=r"features\.npy was changed while it was trained on"):
        next(epochs)


@pytest.mark.parametrize("name", ["features.npy", "edges.npy"])
def test_a_file_that_is_cut_short_while_it_is_trained_on_ends_the_run_with_one_line(tmp_path: Path, name: str) -> None:
    build_graph(CsbmStream(nodes=20_000, num_edges=100_000, features=32, val=500, test=500), tmp_path / "g.graph")
    command = [sys.executable, "-m", "gssc", "train", "--graph", "g.graph", "--train.memory", "0", "--out", "run"]
    with subprocess.Popen(
        [*command, "--teachers.pair_epochs", "1000"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        checkpoint, started = tmp_path / "run" / "checkpoint.safetensors", time.monotonic()
        while not checkpoint.exists() and process.poll() is None and time.monotonic() < started + 120:
            time.sleep(0.05)
        os.truncate(tmp_path / "g.graph" / name, 1000)
        shown = process.communicate(timeout=120)[1]
    assert process.returncode == 2, shown
    (line,) = [line for line in shown.splitlines() if line.startswith("error")]
    assert name in line
    assert "was c" in line  # changed or cut short
    assert "Traceback" not in shown
    load_checkpoint(checkpoint)


@pytest.mark.parametrize(("name", "value"), [("epoch", "x"), ("epoch", -1), ("position_numbers", ["a", 0, 0])])
def test_a_checkpoint_with_impossible_counters_is_refused(
    on_disk: Graph, tmp_path: Path, name: str, value: object
) -> None:
    run = Run(tmp_path / "run", learner_settings(), on_disk)
    run._save_checkpoint()
    run._unlock()
    state = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    state["training"]["counters"][name] = value
    save_checkpoint(tmp_path / "run" / "checkpoint.safetensors", state)
    with pytest.raises(GsscError, match=r"cannot resume .*--overwrite"):
        Run(tmp_path / "run", learner_settings(), on_disk, resume=True)


def test_two_classes_and_missing_classes_have_a_teacher() -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((40, 3)), np.repeat([0, 2], 20)
    inputs[labels == 2] += 2
    weight, bias = fitted(inputs, labels, 3, 1.0)
    assert ((inputs @ weight + bias).argmax(axis=1) == labels).mean() > 0.8
    assert bias[1] < -10
    weight, bias = fitted(inputs, np.ones(40, dtype=np.int64), 3, 1.0)
    assert (inputs @ weight + bias).argmax() % 3 == 1


def test_fit_streams_a_graph_on_disk(on_disk: Graph) -> None:
    result = fit(on_disk, learner_settings())
    assert isinstance(result.training, StreamedLearner)
    assert result.calibration is not None


# Memory --------------------------------------------------------------------------------------------------------------

ROWS, WIDTH, ROOM = 120_000, 1024, 120_000_000
LIMITED = """
import re, resource, sys
import numpy as np, sklearn.linear_model, torch
torch.set_num_threads(1)
from gssc.graph import Graph
from gssc.learner.settings import Config
from gssc.learner.streamed import StreamedLearner
graph, config = Graph.load(sys.argv[1]), Config()
config.model.hidden, config.teachers.pair_epochs, config.teachers.pair_batches = 64, 1, 6
for _ in StreamedLearner(Graph.load(sys.argv[3]), config).epochs():
    pass  # loads all libraries
taken = 1024 * int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1])
resource.setrlimit(resource.RLIMIT_DATA, (taken + int(sys.argv[2]),) * 2)
try:
    np.array(graph.features)
    sys.exit("the limit does not limit")
except MemoryError:
    pass
training = StreamedLearner(graph, config)
for _ in training.epochs():
    pass
print(training.outcome().test_score)
"""


class WideSource:
    """Wide rows: the same block again and again, so that they are made in no time."""

    name, width, weighted = "wide", WIDTH, False

    def signature(self) -> dict[str, Any]:
        return {}

    def rows(self, start: int) -> Iterator[np.ndarray]:
        block = np.random.default_rng(0).standard_normal((1000, WIDTH), dtype=np.float32)
        block[:, :64] += 2 * np.eye(2).repeat(32, axis=1)[np.arange(1000) % 2]
        for _ in range(ROWS // 1000):
            yield block

    def facts(self) -> NodeFacts:
        parts = np.split(np.arange(1000), [100, 500])
        return NodeFacts(np.arange(ROWS) % 2, ("0", "1"), *parts, split="first")

    def edges(self, start: int, node_ids: np.ndarray | None) -> Iterator[tuple[np.ndarray, None]]:
        drawn = CsbmStream(nodes=ROWS, num_edges=100_000, classes=2, val=10, test=10)
        yield from ((edges, None) for edges, _ in drawn.edges(start, None))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA counts maps of its own on Linux only")
def test_memory_stays_within_a_quarter_of_the_features(tmp_path: Path) -> None:
    about = build_graph(WideSource(), tmp_path / "wide.graph")
    assert about["files"]["features.npy"]["bytes"] > 4 * ROOM
    small = CsbmStream(nodes=600, num_edges=3000, features=600, classes=2, val=10, test=10)
    build_graph(small, tmp_path / "small.graph")
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "wide.graph"), str(ROOM), str(tmp_path / "small.graph")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr[-2000:]
    assert float(process.stdout) > 0.9
