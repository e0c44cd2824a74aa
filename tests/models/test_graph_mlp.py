"""Graph-MLP: the contrastive loss by hand and against autograd, powers between a few nodes, batches, no edges later."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from gssc.features import SparseRows
from gssc.models.base import TrainingGraph
from gssc.models.graph_mlp import GraphMLP, neighbour_contrast, powers_among, smoothed_adjacency
from gssc.tasks import Classes

TASK = Classes(2)

PATH = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])  # 0 - 1 - 2 - 3
ROWS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def small(**settings: float) -> GraphMLP:
    torch.manual_seed(0)
    return GraphMLP(3, 2, hidden=5, **settings)


def by_definition(embedded: Tensor, closeness: np.ndarray, tau: float) -> Tensor:
    unit = F.normalize(embedded, dim=1)
    pairs = torch.exp(tau * (unit @ unit.T) * (1 - torch.eye(len(unit))))
    return -((pairs * torch.tensor(closeness)).sum(1) / pairs.sum(1)).log().mean()


def test_two_nodes_by_hand() -> None:
    # Orthogonal embeddings: every exponential is one, so the loss is -log(row sum of closeness / 2).
    closeness = sp.coo_matrix(np.array([[0.5, 0.5], [0.5, 0.25]], dtype=np.float32))
    loss = neighbour_contrast(torch.eye(2), closeness, tau=2.0)
    assert torch.isclose(loss, -torch.tensor([0.5, 0.375]).log().mean())


def test_the_gradient_is_that_of_the_definition() -> None:
    closeness = powers_among(smoothed_adjacency(PATH, None, 4), np.arange(4), 2)
    embedded = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    ours, plain = embedded.clone().requires_grad_(), embedded.clone().requires_grad_()
    value = neighbour_contrast(ours, closeness, tau=1.5)
    expected = by_definition(plain, closeness.toarray(), tau=1.5)
    (3 * value).backward()
    (3 * expected).backward()
    assert torch.isclose(value, expected)
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad, plain.grad)


def test_without_a_gradient_the_value_is_the_same() -> None:
    closeness = powers_among(smoothed_adjacency(PATH, None, 4), np.arange(4), 2)
    embedded = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    assert torch.isclose(
        neighbour_contrast(embedded, closeness, 2.0), by_definition(embedded, closeness.toarray(), 2.0)
    )


def test_the_adjacency_of_a_path_by_hand() -> None:
    found = smoothed_adjacency(PATH, None, 4).toarray()
    assert np.isclose(found[0, 0], 1 / 2)  # degree 1 and its loop
    assert np.isclose(found[0, 1], 1 / np.sqrt(2 * 3))
    assert np.isclose(found[1, 2], 1 / 3)
    assert found[0, 2] == 0


def test_an_edge_of_weight_zero_is_no_edge() -> None:
    weights = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    without = PATH[:, weights > 0]
    weighed, left_out = smoothed_adjacency(PATH, weights, 4), smoothed_adjacency(without, None, 4)
    assert np.array_equal(weighed.toarray(), left_out.toarray())
    assert weighed.nnz == left_out.nnz


def test_powers_between_some_nodes_are_entries_of_the_whole_power() -> None:
    adjacency = smoothed_adjacency(PATH, None, 4)
    nodes = np.array([3, 1])
    for order in (1, 2, 3, 4):
        whole = np.linalg.matrix_power(adjacency.toarray(), order)
        np.testing.assert_allclose(powers_among(adjacency, nodes, order).toarray(), whole[nodes][:, nodes], rtol=1e-5)


def test_a_batch_has_each_node_once_and_labelled_ones_first() -> None:
    model = small(batch_size=6)
    labelled, nodes = model.draw_batch(np.array([4, 2]), 10, rng())
    assert labelled.tolist() == [4, 2]
    assert nodes[:2].tolist() == [4, 2]
    assert len(nodes) == len(set(nodes.tolist())) == 6


def test_many_labels_fill_half_of_a_batch() -> None:
    labelled, nodes = small(batch_size=6).draw_batch(np.arange(9), 10, rng())
    assert (len(labelled), len(nodes)) == (3, 6)
    assert set(nodes[:3].tolist()) == set(labelled.tolist())


def test_a_small_graph_is_one_batch() -> None:
    _, nodes = small(batch_size=100).draw_batch(np.array([1]), 4, rng())
    assert sorted(nodes.tolist()) == [0, 1, 2, 3]


def test_edges_matter_to_the_loss_and_not_to_the_prediction() -> None:
    model = small(dropout=0.0)
    labels, train = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 3])
    (all_edges,) = model.losses(TrainingGraph(ROWS, PATH, None, labels, train, TASK), rng())
    (one_edge,) = model.losses(TrainingGraph(ROWS, PATH[:, [0, 3]], None, labels, train, TASK), rng())
    assert not torch.isclose(all_edges, one_edge)
    assert torch.equal(model(ROWS, PATH), model(ROWS, PATH[:, :0]))


def test_sparse_rows_give_the_same() -> None:
    model = small(dropout=0.0)
    labels, train = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 3])
    sparse = SparseRows(sp.csr_matrix(ROWS.numpy()))
    torch.testing.assert_close(model(sparse, PATH), model(ROWS, PATH))
    (dense_loss,) = model.losses(TrainingGraph(ROWS, PATH, None, labels, train, TASK), rng())
    (sparse_loss,) = model.losses(TrainingGraph(sparse, PATH, None, labels, train, TASK), rng())
    torch.testing.assert_close(sparse_loss, dense_loss)


def test_an_unlabelled_node_follows_its_neighbours() -> None:
    """Two cliques of four with one label each; features are one-hot, so only edges can tell the others' class."""
    clique = [(i, j) for i in range(4) for j in range(4) if i != j]
    edges = torch.tensor(clique + [(i + 4, j + 4) for i, j in clique]).T
    rows, labels = torch.eye(8), torch.tensor([0] * 4 + [1] * 4)
    torch.manual_seed(0)
    model = GraphMLP(8, 2, hidden=16, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = rng()
    for _ in range(60):
        for loss in model.losses(TrainingGraph(rows, edges, None, labels, torch.tensor([0, 4]), TASK), generator):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert model(rows, edges).argmax(1).tolist() == labels.tolist()
