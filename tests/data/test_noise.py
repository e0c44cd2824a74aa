"""Noise: what it may change, how much, and never the validation and test labels."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gssc.data.noise import DEFAULT_KINDS, NOISE, NoiseSpec, add_noise, parse_noise
from gssc.data.noise_features import gaussian, mask
from gssc.data.noise_labels import asymmetric, instance, symmetric, uniform
from gssc.data.noise_structure import RELEASED, add, as_distributed, dice, random, remove
from gssc.errors import GsscError
from gssc.graph import Graph

LABEL_KINDS = list(NOISE["label"])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def square(**changes: object) -> Graph:
    """Four nodes in a ring, neighbours 0-1 and 2-3 of one class; pairs (0, 2) and (1, 3) are free."""
    values = {"labels": [0, 0, 1, 1], "train": [0, 2], "val": [1], "test": [3], "setting": "inductive", "split": "mine"}
    return Graph(np.eye(4) + 1, [[0, 1, 2, 0], [1, 2, 3, 3]], **{**values, **changes})


def many(classes: int = 4, train: int = 6000, seed: int = 0) -> Graph:
    nodes = train + 1000
    return Graph(
        rng(seed).standard_normal((nodes, 5)),
        np.stack([np.arange(nodes - 1), np.arange(1, nodes)]),
        labels=rng(seed).integers(0, classes, nodes),
        train=np.arange(train),
        test=np.arange(train, nodes),
        class_names=[f"c{index}" for index in range(classes)],
    )


def pairs(edges: np.ndarray) -> set[tuple[int, int]]:
    return {(int(source), int(target)) for source, target in edges.T}


# Labels


@pytest.mark.parametrize(
    ("make", "expected"), [(symmetric, 0.4), (asymmetric, 0.4), (uniform, 0.4 * 3 / 4), (instance, 0.4)]
)
def test_realised_rate_of_labels(make, expected: float) -> None:
    result = make(many(), 0.4, rng(1))
    assert result.realised_rate == pytest.approx(expected, abs=4 * (0.4 * 0.6 / 6000) ** 0.5)
    assert result.realised_rate == len(result.nodes) / 6000
    assert (result.old != result.new).all()


def test_where_labels_go() -> None:
    graph = many()
    shift = {kind: NOISE["label"][kind].make(graph, 1.0, rng(2)) for kind in LABEL_KINDS}
    steps = {kind: np.bincount((made.new - made.old) % 4, minlength=4) for kind, made in shift.items()}
    assert steps["asymmetric"].tolist() == [0, 6000, 0, 0]
    assert steps["symmetric"][0] == steps["instance"][0] == 0
    assert shift["symmetric"].realised_rate == shift["instance"].realised_rate == 1
    for kind, expected in (("symmetric", 2000), ("uniform", 1500)):
        assert np.abs(steps[kind][1:] - expected).max() < 5 * expected**0.5


def test_asymmetric_by_hand() -> None:
    result = asymmetric(square(), 1.0, rng())
    assert result.graph.labels.tolist() == [1, 0, 0, 1]  # of classes 0 and 1, of the training nodes 0 and 2
    assert (result.nodes.tolist(), result.old.tolist(), result.new.tolist()) == ([0, 2], [0, 1], [1, 0])


def test_equal_rows_go_to_the_same_class_and_other_rows_elsewhere() -> None:
    """Without scaling to length 1, the projection of a long row would decide its class with certainty."""
    rows = np.repeat(np.eye(2), 4000, axis=0)
    graph = Graph(rows, [[0], [1]], labels=np.zeros(8000, dtype=int), train=np.arange(8000), class_names="abcd")
    flipped = instance(graph, 1.0, rng(3)).graph.labels
    first, second = np.bincount(flipped[:4000], minlength=4), np.bincount(flipped[4000:], minlength=4)
    assert np.abs(first - second).max() > 500  # equal shares would differ by about 50
    again = instance(graph.with_(features=rows * 1000), 1.0, rng(3))
    np.testing.assert_array_equal(flipped, again.graph.labels)
    sparse = instance(graph.with_(features=sp.csr_matrix(rows)), 1.0, rng(3))
    np.testing.assert_array_equal(flipped, sparse.graph.labels)


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.97, 1.0])
def test_instance_rate_holds_at_the_ends(rate: float) -> None:
    realised = instance(many(), rate, rng(4)).realised_rate
    assert realised == pytest.approx(rate, abs=5 * (rate * (1 - rate) / 6000) ** 0.5)


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_a_higher_rate_flips_the_same_nodes_and_more(kind: str) -> None:
    make = NOISE["label"][kind].make
    low, high = (make(many(), rate, rng(5)) for rate in (0.2, 0.5))
    assert np.isin(low.nodes, high.nodes).mean() > (0.95 if kind == "instance" else 0.9999)
    assert len(high.nodes) > 2 * len(low.nodes)


@given(
    st.lists(st.tuples(st.integers(-1, 3), st.sampled_from(["train", "val", "test", ""])), min_size=2, max_size=40),
    st.sampled_from(LABEL_KINDS),
    st.floats(0, 1),
    st.integers(0, 2**32),
)
def test_only_training_labels_ever_change(nodes: list, kind: str, rate: float, seed: int) -> None:
    labels = np.array([label for label, _ in nodes])
    parts = {
        part: [node for node, (label, place) in enumerate(nodes) if place == part and (label >= 0 or part == "test")]
        for part in ("train", "val", "test")
    }
    graph = Graph(np.ones((len(nodes), 2)), [[0], [1]], labels=labels, class_names="abcd", **parts)
    if not parts["train"]:
        with pytest.raises(GsscError, match="no training labels"):
            add_noise(graph, label=NoiseSpec(kind, rate), seed=seed)
        return
    noisy, report = add_noise(graph, label=NoiseSpec(kind, rate), seed=seed)
    others = np.setdiff1d(np.arange(len(nodes)), parts["train"])
    assert (noisy.labels[others] == labels[others]).all()
    assert (noisy.labels[labels < 0] == -1).all()
    assert (noisy.labels[parts["train"]] >= 0).all()
    assert noisy.num_classes == 4
    assert report["label"]["changed"] == (noisy.labels != labels).sum()
    assert (graph.labels == labels).all()  # what came in is as it was


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_what_has_no_labels_to_flip(kind: str) -> None:
    targets = np.array([[0.0, 1], [1, 0], [1, 1], [0, 0]])
    with pytest.raises(GsscError, match="one class per node.*2 binary targets"):
        add_noise(square(labels=targets), label=f"{kind}:0.1")
    with pytest.raises(GsscError, match="only one class"):
        add_noise(square(labels=[0, 0, 0, 0]), label=f"{kind}:0.1")


# Structure


def test_structure_by_hand() -> None:
    clean = pairs(square().edges)
    free = {(0, 2), (1, 3)}
    half = random(square(), 0.5, rng())
    assert pairs(half.added) == free
    assert len(pairs(half.removed)) == 2
    assert pairs(half.removed) < clean
    assert pairs(half.graph.edges) == clean - pairs(half.removed) | free
    assert half.realised_rate == 0.5
    assert pairs(add(square(), 0.5, rng()).graph.edges) == clean | free
    less = remove(square(), 0.75, rng())
    assert len(pairs(less.graph.edges)) == 1
    assert (less.added.shape, less.realised_rate) == ((2, 0), 0.75)


def test_dice_by_hand() -> None:
    graph = square()
    result = dice(graph, 0.75, rng())  # three changes: one edge within a class goes, two between classes come
    assert pairs(result.removed) < {(0, 1), (2, 3)}
    assert pairs(result.added) == {(0, 2), (1, 3)}
    assert result.realised_rate == 0.75
    unknown = dice(graph.with_(labels=[0, 0, 1, -1], test=None), 0.5, rng())
    assert pairs(unknown.removed) == {(0, 1)}
    assert pairs(unknown.added) == {(0, 2)}  # node 3 has no class
    with pytest.raises(GsscError, match="needs labels"):
        dice(Graph(np.eye(3), [[0], [1]]), 0.5, rng())
    with pytest.raises(GsscError, match="binary targets"):
        dice(square(labels=np.eye(4)), 0.5, rng())


@given(
    st.sets(st.sampled_from(list(combinations(range(7), 2))), min_size=1, max_size=15),
    st.lists(st.integers(-1, 2), min_size=7, max_size=7),
    st.sampled_from(list(NOISE["structure"])),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_any_structure_noise(edges: set, labels: list[int], kind: str, rate: float, seed: int) -> None:
    graph = Graph(np.eye(7), np.array(sorted(edges)).T, labels=labels)
    count = round(rate * len(edges))
    fewer = (len(edges) - round((0.65 - rate / 2) * len(edges)) if rate else 0, int(rate * len(edges) + 1e-9))
    spec = NoiseSpec(kind, rate)
    free = [pair for pair in combinations(range(7), 2) if pair not in edges]
    within = [pair for pair in edges if labels[pair[0]] == labels[pair[1]] >= 0]
    between = [(one, two) for one, two in free if labels[one] != labels[two] and min(labels[one], labels[two]) >= 0]
    possible = {
        "random": count <= len(free),
        "add": count <= len(free),
        "remove": count < len(edges),
        "dice": max(labels) >= 0 and count // 2 <= len(within) and count - count // 2 <= len(between),
        "as-distributed": fewer[1] <= len(free) and fewer[0] < len(edges) + fewer[1],
    }
    if not possible[kind]:
        with pytest.raises(GsscError, match=r"use a lower rate|use random noise"):
            add_noise(graph, structure=spec, seed=seed)
        return
    noisy, report = add_noise(graph, structure=spec, seed=seed)
    made = NOISE["structure"][kind].make(graph, rate, rng(seed))
    clean, removed, added = pairs(graph.edges), pairs(made.removed), pairs(made.added)
    assert removed <= clean
    assert not added & clean
    assert pairs(made.graph.edges) == clean - removed | added
    assert made.graph.num_edges == len(clean) - len(removed) + len(added)
    counts = {"random": (1, 1), "add": (0, 1), "remove": (1, 0)}
    if kind == "dice":
        assert (len(removed), len(added)) == (count // 2, count - count // 2)
        assert removed <= set(within)
        assert added <= set(between)
    elif kind == "as-distributed":
        assert (len(removed), len(added)) == fewer
    else:
        assert (len(removed), len(added)) == tuple(count * part for part in counts[kind])
    assert (report["structure"]["removed"], report["structure"]["added"]) == (len(removed), len(added))
    assert report["structure"]["edges_before"] == len(clean)
    assert noisy.num_edges == made.graph.num_edges


def test_as_distributed_by_hand() -> None:
    ring = Graph(np.eye(20), np.stack([np.arange(20), np.roll(np.arange(20), 1)]))
    for rate, removed, added in ((0.0, 0, 0), (0.1, 8, 2), (0.2, 9, 4), (0.3, 10, 6), (1.0, 17, 20)):
        result = as_distributed(ring, rate, rng())
        assert (result.removed.shape[1], result.added.shape[1]) == (removed, added)
        assert result.realised_rate == added / 20


@pytest.mark.parametrize(("name", "edges"), [("cora", 5278), ("citeseer", 4552)])
def test_as_distributed_has_the_counts_of_the_released_files(name: str, edges: int) -> None:
    path = np.stack([np.arange(edges), np.arange(1, edges + 1)])
    graph = Graph(np.ones((edges + 1, 1)), path, name=name)
    kept = {"cora": (60, 56, 50), "citeseer": (58, 55, 50)}[name]
    added = {"cora": (527, 1055, 1583), "citeseer": (467, 935, 1402)}[name]
    assert list(RELEASED[name]) == [0.1, 0.2, 0.3]
    for rate, percent, count in zip(RELEASED[name], kept, added, strict=True):
        noisy, report = add_noise(graph, structure=f"as-distributed:{rate}")
        assert round(100 * (1 - report["structure"]["removed"] / edges)) == percent
        assert report["structure"]["added"] == count
        assert noisy.num_edges == edges - report["structure"]["removed"] + count


@pytest.mark.parametrize("make", [add, dice])
def test_every_free_pair_is_drawn_equally_often(make) -> None:
    graph = Graph(np.eye(6), [[0, 1, 2, 0], [1, 2, 3, 5]], labels=[0, 1, 0, 1, 2, 2])
    seen: dict[tuple[int, int], int] = {}
    for seed in range(1200):
        for pair in pairs(make(graph, 0.25, rng(seed)).added):
            seen[pair] = seen.get(pair, 0) + 1
    free = [pair for pair in combinations(range(6), 2) if pair not in pairs(graph.edges)]
    if make is dice:
        free = [(one, two) for one, two in free if graph.labels[one] != graph.labels[two]]
    assert sorted(seen) == free
    assert np.abs(np.array(list(seen.values())) - 1200 / len(free)).max() < 5 * (1200 / len(free)) ** 0.5


def test_not_enough_edges_or_pairs() -> None:
    with pytest.raises(GsscError, match="cannot add 3 edges: only 2 pairs of nodes without an edge"):
        add(square(), 0.75, rng())
    with pytest.raises(GsscError, match="would remove all 4 edges"):
        remove(square(), 1.0, rng())
    other = square(labels=[0, 1, 0, 1])
    with pytest.raises(GsscError, match="cannot remove 1 edge: there are only 0 within classes"):
        dice(other, 0.5, rng())
    with pytest.raises(GsscError, match="only 0 pairs of nodes of two classes"):
        dice(other, 0.25, rng())


def test_a_large_graph_stays_in_proportion() -> None:
    nodes, count = 40_000, 250_000  # all pairs would be 800 million
    ends = rng(0).integers(0, nodes, (2, count))
    graph = Graph(np.ones((nodes, 1)), ends, labels=np.arange(nodes) % 5)
    for kind in NOISE["structure"]:
        noisy, report = add_noise(graph, structure=NoiseSpec(kind, 0.2), seed=1)
        changed = report["structure"]["removed"] + report["structure"]["added"]
        share = {"random": 0.4, "as-distributed": 0.45 + 0.2}.get(kind, 0.2)
        assert changed == pytest.approx(share * graph.num_edges, abs=1)
        assert noisy.num_edges == graph.num_edges + report["structure"]["added"] - report["structure"]["removed"]


# Features


def test_mask_is_the_same_on_dense_and_sparse() -> None:
    dense = np.where(rng(1).random((300, 20)) < 0.3, 2.0, 0.0).astype(np.float32)
    graph = Graph(dense, [[0], [1]])
    mine = mask(graph, 0.4, rng(2))
    theirs = mask(graph.with_(features=sp.csr_matrix(dense)), 0.4, rng(2))
    assert sp.issparse(theirs.graph.features)
    np.testing.assert_array_equal(mine.graph.features, theirs.graph.features.toarray())
    lost = (dense != 0) & (mine.graph.features == 0)
    np.testing.assert_array_equal(mine.changed, lost)
    assert mine.realised_rate == theirs.realised_rate == lost.sum() / (dense != 0).sum()
    assert mine.realised_rate == pytest.approx(0.4, abs=0.05)
    np.testing.assert_array_equal(graph.features, dense)
    assert (mask(graph, 1.0, rng()).graph.features == 0).all()
    assert mask(graph.with_(features=sp.csr_matrix((300, 20))), 0.5, rng()).realised_rate == 0


def test_gaussian_has_the_scale_of_the_features() -> None:
    dense = np.zeros((400, 10), dtype=np.float32)
    dense[:, 0] = 10  # a tenth of the values are 10: standard deviation 10 * sqrt(0.1 * 0.9) = 3
    graph = Graph(dense, [[0], [1]])
    blurred = gaussian(graph, 0.5, rng(1))
    assert (blurred.graph.features - dense).std() == pytest.approx(1.5, rel=0.05)
    assert blurred.realised_rate == pytest.approx(0.5, rel=0.05)
    assert blurred.changed.all()
    sparse = gaussian(graph.with_(features=sp.csr_matrix(dense)), 0.5, rng(1))
    assert sparse.graph.features.nnz == 400  # the zeros stay
    assert (sparse.graph.features.data - 10).std() == pytest.approx(1.5, rel=0.1)
    assert not gaussian(graph, 0.0, rng()).changed.any()
    with pytest.raises(GsscError, match="no scale"):
        gaussian(graph.with_(features=np.ones((400, 10))), 0.5, rng())


# By name


@given(st.sampled_from([(on, kind) for on, kinds in NOISE.items() for kind in kinds]), st.floats(0, 1))
def test_str_is_what_parse_reads(name: tuple[str, str], rate: float) -> None:
    on, kind = name
    spec = NoiseSpec(kind, rate)
    assert parse_noise(str(spec), on) == spec
    assert parse_noise(spec, on) is spec
    assert parse_noise(f" {rate} ", on) == parse_noise(rate, on) == NoiseSpec(DEFAULT_KINDS[on], rate)
    assert parse_noise(str(NoiseSpec()), on) == NoiseSpec("none", 0.0)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        spec = parse_noise(text)
    except GsscError:
        return
    assert spec.kind in (*NOISE["label"], "none")
    assert 0 <= spec.rate <= 1


@pytest.mark.parametrize(
    ("text", "on", "message"),
    [
        ("symetric:0.4", "label", "did you mean 'symmetric'"),
        ("symetric", "label", "did you mean 'symmetric'"),
        ("symmetric", "label", "write symmetric:0.2"),
        ("symmetric:x", "label", "rate 'x' in 'symmetric:x' is not a number"),
        ("1.5", "structure", "rate 1.5 of random is out of range"),
        ("mask:nan", "features", "out of range"),
        ("none:0.1", "label", "'none' has no rate"),
        ("dice:0.1", "label", "dice is noise on structure, not on label: use one of symmetric"),
        ("0.1", "lable", "did you mean 'label'"),
    ],
)
def test_errors_of_the_parser(text: str, on: str, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        parse_noise(text, on)


def test_streams_do_not_touch_each_other() -> None:
    graph = many(train=500)
    alone = {
        on: add_noise(graph, **{on: kind}, seed=7)[0] for on, kind in (("label", "instance:0.3"), ("features", 0.2))
    }
    alone["structure"] = add_noise(graph, structure="dice:0.1", seed=7)[0]
    noisy, report = add_noise(graph, label="instance:0.3", structure="dice:0.1", features=0.2, seed=7)
    np.testing.assert_array_equal(noisy.labels, alone["label"].labels)
    np.testing.assert_array_equal(noisy.edges, alone["structure"].edges)
    np.testing.assert_array_equal(noisy.features, alone["features"].features)
    assert list(report) == ["label", "structure", "features"]
    assert json.loads(json.dumps(report)) == report
    other, _ = add_noise(graph, label="instance:0.3", seed=8)
    assert (other.labels != noisy.labels).any()


def test_the_rest_of_the_graph_stays() -> None:
    graph = square(class_names=None)
    noisy, _ = add_noise(graph, label="asymmetric:1", structure="0.25", features="gaussian:0.1", seed=3)
    assert (noisy.split, noisy.setting, noisy.num_classes) == ("mine", "inductive", 2)
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(getattr(noisy, part), getattr(graph, part))
    same, report = add_noise(graph)
    assert same is graph
    assert report == {}
    with pytest.raises(GsscError, match="seed -1"):
        add_noise(graph, label="0.1", seed=-1)


def test_a_class_that_loses_its_last_label_still_counts() -> None:
    graph = Graph(np.eye(4), [[0], [1]], labels=[0, 1, 2, 0], train=[0, 1, 2])
    noisy, report = add_noise(graph, label="asymmetric:1.0")
    assert noisy.labels.tolist() == [1, 2, 0, 0]
    assert noisy.num_classes == 3
    lone = Graph(np.eye(3), [[0], [1]], labels=[0, 0, 1], train=[2])
    assert add_noise(lone, label="symmetric:1")[0].num_classes == 2
    assert report["label"] == {
        "kind": "asymmetric", "rate": 1.0, "realised_rate": 1.0, "seed": 0, "changed": 3, "training_labels": 3,
    }  # fmt: skip


def test_every_kind_says_what_it_does() -> None:
    for on, kinds in NOISE.items():
        assert DEFAULT_KINDS[on] in kinds
        for entry in kinds.values():
            assert entry.summary
            assert entry.make.__doc__
