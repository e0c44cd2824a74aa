from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse as sp

from gssc.data import structure_features as module
from gssc.data.structure_features import structure_features
from gssc.errors import GsscError
from gssc.graph import Graph


def test_a_path_of_three_by_hand() -> None:
    # D^-1/2 A D^-1/2 of 0 - 1 - 2 has eigenvalues 1, 0, -1 with vectors (1, sqrt 2, 1)/2, (1, 0, -1)/sqrt 2.
    features, names = structure_features(np.array([[0, 1], [1, 2]]), 3)
    assert names == ("log degree", "neighbours' log degree", "position 1", "position 2")
    np.testing.assert_allclose(features[:, 0], np.log([2, 3, 2]), rtol=1e-6)
    np.testing.assert_allclose(features[:, 1], np.log([3, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose(features[:, 2], np.sqrt(3) * np.array([0.5, np.sqrt(0.5), 0.5]), rtol=1e-5)
    np.testing.assert_allclose(features[:, 3], np.sqrt(1.5) * np.array([1, 0, -1]), atol=1e-5)


def test_a_heavy_edge_pulls_its_ends_together() -> None:
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    light, heavy = (structure_features(edges, 4, np.array([1, w, 1.0]))[0][:, 3] for w in (0.1, 10.0))
    assert abs(light[1] - light[2]) > abs(heavy[1] - heavy[2])


def test_isolated_nodes_are_zero() -> None:
    features, _ = structure_features(np.array([[0], [1]]), 4, positions=1)
    assert features[2:].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_iteration_and_full_decomposition_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    network = networkx.random_partition_graph([40, 40, 40], 0.5, 0.02, seed=1)
    edges = np.sort(np.array(network.edges).T, axis=0)
    full, _ = structure_features(edges, 120, positions=3)
    monkeypatch.setattr(module, "_DENSE_UP_TO", 10)
    iterated, _ = structure_features(edges, 120, positions=3)
    np.testing.assert_allclose(iterated, full, atol=1e-3)
    np.testing.assert_array_equal(iterated, structure_features(edges, 120, positions=3)[0])
    blocks = full[:, 3:].reshape(3, 40, 2).mean(axis=1)  # the three communities lie apart
    assert min(np.linalg.norm(blocks[i] - blocks[j]) for i in range(3) for j in range(i)) > 1


def test_a_graph_without_features() -> None:
    graph = Graph(None, [[0, 1, 2], [1, 2, 3]], labels=[0, 1, -1, -1, -1], train=[0, 1])
    assert graph.num_nodes == 5
    assert graph.feature_names is not None
    assert graph.feature_names[:2] == ("log degree", "neighbours' log degree")
    assert graph.num_features == 2 + 4
    assert Graph(None, [[0, 1], [1, 2]]).num_nodes == 3
    assert Graph(None, [("a", "b")], node_ids=["a", "b", "c"]).num_nodes == 3
    assert Graph(None, sp.eye(4, k=1)).num_nodes == 4
    network = networkx.path_graph(["x", "y", "z"])
    assert Graph.from_networkx(network, features=None).num_features == 4
    with pytest.raises(GsscError, match="no edges"):
        Graph(None, [])
