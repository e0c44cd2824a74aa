"""Trust in edges: wrong ones are found without labels, clean graphs lose little, given weights count."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from gssc.data import load_dataset
from gssc.data.noise import add_noise
from gssc.graph import Graph
from gssc.trust.edges import LEAST, EdgeTrust, edge_trust, noise_share, weighed
from gssc.trust.pairs import edge_numbers


def test_added_edges_are_found_and_the_rest_kept():
    clean = load_dataset("csbm", nodes=600, seed=0, homophily=0.9, signal=2.0, degree=10)
    noisy, _ = add_noise(clean, label="none", structure="0.3", features="none", seed=0)
    right = np.isin(edge_numbers(noisy.edges, 600), edge_numbers(clean.edges, 600))
    alike = noisy.labels[noisy.edges[0]] == noisy.labels[noisy.edges[1]]
    trust = edge_trust(noisy)
    assert roc_auc_score(right | alike, trust.keep) > 0.9
    assert trust.noise_share > edge_trust(clean).noise_share


def test_labels_are_not_read():
    graph = load_dataset("csbm", nodes=200, seed=0)
    other = graph.with_(labels=np.random.default_rng(0).permutation(graph.labels))
    assert np.array_equal(edge_trust(graph).keep, edge_trust(other).keep)


def test_a_handful_of_edges_is_believed():
    graph = Graph(np.eye(6), edges=[[0, 1, 2], [1, 2, 3]], labels=[0, 0, 1, 1, 0, 1], train=[0, 2])
    trust = edge_trust(graph)
    assert (trust.keep == 1).all()
    assert trust.noise_share == 0


def test_the_noise_share_by_hand():
    """Two of four edges lie below every quantile that is considered: a half, over the greatest quantile, a half."""
    assert noise_share(np.array([0.5, 0.5, 9, 9]), np.arange(11.0)) == 1.0
    assert noise_share(np.array([9.0, 9, 9, 9]), np.arange(11.0)) == 0.0


def test_given_weights_scale_the_keep_probabilities():
    trust = EdgeTrust(np.array([1.0, 0.8, 0.5], dtype=np.float32), 0.1, np.zeros(3))
    assert np.allclose(weighed(trust, np.array([2.0, 1.0, 0.0001])).keep, [1.0, 0.4, LEAST])
    assert weighed(trust, None) is trust


def test_one_large_weight_leaves_the_others_as_they_are():
    trust = EdgeTrust(np.full(100, 0.8, dtype=np.float32), 0.1, np.zeros(100))
    weight = np.ones(100)
    weight[0] = 1e4
    assert np.allclose(weighed(trust, weight).keep, 0.8)
