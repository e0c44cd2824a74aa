"""The pool of opinions, and who makes up the teacher."""

from __future__ import annotations

import numpy as np

from gssc.learner.jury import MANY, Jury
from gssc.learner.pool import KEPT, Pool, geometric_mean

NO_EDGES = np.empty((2, 0), dtype=np.int64), np.empty(0, dtype=np.float32)


def pool_of(count: int, classes: int = 2) -> tuple[Pool, np.ndarray]:
    truth = np.arange(count) % classes
    jury = Jury(truth, np.array([0, 1]), np.arange(2, count), classes)
    return Pool(jury, *NO_EDGES, count), truth


def opinion(truth: np.ndarray, wrong: np.ndarray, classes: int = 2) -> tuple[np.ndarray, ...]:
    """Ninety per cent for the true class, or for the next one where it is wrong."""
    view = np.full((len(truth), classes), 0.1 / (classes - 1), dtype=np.float32)
    view[np.arange(len(truth)), np.where(wrong, (truth + 1) % classes, truth)] = 0.9
    return (view,)


def test_opinions_that_err_on_different_nodes_come_together():
    """Each is wrong on a third of the nodes of its own; the copy of the first adds nothing, the other two do."""
    pool, truth = pool_of(MANY + 100, classes=3)
    part = np.arange(len(truth)) % 4
    for name, number in (("a", 0), ("copy of a", 0), ("b", 1), ("c", 2)):
        pool.add(name, opinion(truth, part == number, 3))
    team = set(pool.team(5))
    assert {"b", "c"} <= team
    assert pool.jury.score(pool.teacher(5)) == 1.0


def test_few_labels_weigh_opinions_by_the_likelihood_of_the_labels():
    pool, truth = pool_of(80)
    nodes = np.arange(80)
    pool.add("a", opinion(truth, nodes < 8))
    pool.add("b", opinion(truth, nodes < 9))
    pool.add("poor", opinion(truth, nodes < 60))
    weights = pool.weights()
    assert set(weights) == {"a", "b"}  # the poor one is too unlikely to count
    assert weights["b"] < weights["a"]  # one mistake more
    assert np.isclose(sum(weights.values()), 1, atol=1e-3)
    assert pool.jury.score(pool.teacher(5)) == pool.jury.score(pool.opinions["a"])


def test_a_lead_by_few_labels_is_shared():
    """They are wrong on different labels, nine and ten; by likelihood alone the first would have nearly all weight."""
    pool, truth = pool_of(80)
    nodes = np.arange(80)
    pool.add("a", opinion(truth, (nodes >= 2) & (nodes < 11)))
    pool.add("b", opinion(truth, (nodes >= 20) & (nodes < 30)))
    alone = np.exp(-len(pool.jury.truth) * (pool.jury.loss(pool.opinions["b"]) - pool.jury.loss(pool.opinions["a"])))
    weights = pool.weights()
    assert alone < 0.15
    assert 0.3 < weights["b"] < weights["a"]


def test_without_judging_labels_all_opinions_count_alike():
    jury = Jury(np.array([0, -1, -1]), np.array([0]), np.array([], dtype=np.int64), 2)
    pool = Pool(jury, *NO_EDGES, 3)
    for name, share in (("a", 0.9), ("b", 0.3)):
        pool.opinions[name] = (np.array([[share, 1 - share]] * 3, dtype=np.float32),)
    assert pool.weights() == {"a": 1.0, "b": 1.0}


def test_without_judging_labels_opinions_that_use_edges_count():
    pool = Pool(Jury(np.array([0, 1]), np.array([0, 1]), np.empty(0, dtype=np.int64), 2), *NO_EDGES, 2)
    for name in ("regression on rows", "regression on rows spread over all edges"):
        pool.add(name, opinion(np.array([0, 1]), np.array([False, False])))
    assert pool.weights() == {"regression on rows spread over all edges": 1.0}


def test_pruning_keeps_the_best_and_the_team():
    pool, truth = pool_of(MANY + 100)
    for number in range(KEPT + 5):
        pool.add(f"opinion {number}", opinion(truth, np.arange(len(truth)) < 5 * number))
    team = set(pool.team(5))
    pool.prune(5)
    assert team | {f"opinion {number}" for number in range(KEPT)} == set(pool.opinions)


def test_averaging_over_edges_moves_an_opinion_to_that_of_its_neighbours():
    truth = np.zeros(60, dtype=np.int64)
    jury = Jury(truth, np.array([0]), np.arange(1, 60), 2)
    edges = np.stack([np.zeros(59, dtype=np.int64), np.arange(1, 60)])
    pool = Pool(jury, edges, np.ones(59, dtype=np.float32), 60)
    view = np.tile(np.array([0.8, 0.2], dtype=np.float32), (60, 1))
    view[0] = 0.2, 0.8
    pool.add("rows", (view,))
    pool.add_spread("rows")
    over = [name for name in pool.opinions if " over " in name]
    assert over
    assert all(pool.opinions[name][0][0, 0] > pool.opinions["rows"][0][0, 0] for name in over)


def test_products_are_geometric_means():
    (view,) = geometric_mean([(np.array([[0.8, 0.2]]),), (np.array([[0.5, 0.5]]),)])
    assert np.allclose(view, [[2 / 3, 1 / 3]], atol=1e-5)


def test_its_state_goes_on():
    pool, truth = pool_of(80)
    pool.add("rows", opinion(truth, np.arange(80) < 8))
    other, _ = pool_of(80)
    other.load_state_dict(pool.state_dict())
    assert other.merits == pool.merits
