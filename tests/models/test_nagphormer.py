"""NAGphormer: tokens against powers of the adjacency, zero weights, gradients, batches, positions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from gssc.features import SparseRows
from gssc.models.base import TrainingGraph
from gssc.models.nagphormer import NAGphormer, laplacian_positions
from gssc.tasks import Classes

TASK = Classes(2)

PATH = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])  # 0 - 1 - 2 - 3
ROWS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])


def small(**settings: float) -> NAGphormer:
    torch.manual_seed(0)
    model = NAGphormer(3, 2, **{"hidden": 4, "heads": 2, "hops": 2, **settings})  # type: ignore[arg-type]
    for parameter in model.parameters():  # far from the small start, so that differences show
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


def smoothed() -> torch.Tensor:
    plain = torch.eye(4)
    plain[PATH[0], PATH[1]] = 1
    scale = plain.sum(1) ** -0.5
    return scale.unsqueeze(1) * plain * scale


def test_tokens_are_projected_powers() -> None:
    model = small()
    tokens = model.tokens(ROWS, PATH, None)
    for hop in range(3):
        expected = model.first(torch.linalg.matrix_power(smoothed(), hop) @ ROWS)
        torch.testing.assert_close(tokens[:, hop], expected)


def test_an_edge_of_weight_zero_is_no_edge() -> None:
    weights = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    for positions in (0, 1):
        model = small(positions=positions)
        without = model(ROWS, PATH[:, weights > 0])
        torch.testing.assert_close(model(ROWS, PATH, weights), without, rtol=0, atol=1e-6)
        assert not torch.allclose(without, model(ROWS, PATH))


def test_weights_have_a_gradient() -> None:
    weights = torch.full((6,), 0.5, requires_grad=True)
    small()(ROWS, PATH, weights).square().sum().backward()
    assert weights.grad is not None
    assert (weights.grad != 0).all()


def test_a_prediction_needs_only_the_tokens_of_its_node() -> None:
    model = small()
    chosen = torch.tensor([2, 0])
    tokens = model.tokens(ROWS, PATH, None, chosen)
    torch.testing.assert_close(model.classify(tokens), model(ROWS, PATH)[chosen])


def test_predicting_in_batches_changes_nothing() -> None:
    torch.testing.assert_close(small(batch_size=3)(ROWS, PATH), small()(ROWS, PATH))


def test_batches_cover_every_training_node_once() -> None:
    model = small(batch_size=2, dropout=0.0, attention_dropout=0.0)
    labels, train = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1, 3])
    losses = list(model.losses(TrainingGraph(ROWS, PATH, None, labels, train, TASK), np.random.default_rng(0)))
    whole = torch.nn.functional.cross_entropy(model(ROWS, PATH)[train], labels[train], reduction="sum")
    assert len(losses) == 2
    torch.testing.assert_close(2 * losses[0] + losses[1], whole)


def test_feature_values_are_dropped_in_training_only() -> None:
    model = small(input_dropout=0.5)
    plain = small().tokens(ROWS, PATH, None)
    assert torch.equal(model.tokens(ROWS, PATH, None), plain)
    torch.manual_seed(0)
    assert not torch.equal(model.train().tokens(ROWS, PATH, None), plain)


def test_sparse_rows_give_the_same() -> None:
    model = small()
    torch.testing.assert_close(model(SparseRows(sp.csr_matrix(ROWS.numpy())), PATH), model(ROWS, PATH))


def test_positions_of_a_path_by_hand() -> None:
    """Second eigenvector of 0 - 1 - 2 (eigenvalue 1): one end up, the other down, the middle zero."""
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    found = laplacian_positions(path, None, 3, 1)[:, 0]
    torch.testing.assert_close(found.abs(), torch.tensor([0.5**0.5, 0.0, 0.5**0.5]))
    assert torch.isclose(found.sum(), torch.zeros(()), atol=1e-6)


def test_positions_of_a_larger_graph_solve_the_same_equation() -> None:
    count = 100
    nodes = torch.arange(count - 1)
    path = torch.cat([torch.stack([nodes, nodes + 1]), torch.stack([nodes + 1, nodes])], dim=1)
    found = laplacian_positions(path, None, count, 2)
    # A path's eigenvectors are cosines that cross zero once more each time.
    crossings = (found[1:] * found[:-1] < 0).sum(0)
    assert crossings.tolist() == [1, 2]
    assert laplacian_positions(path, None, count, 2) is found


def test_more_positions_than_nodes_are_zeros() -> None:
    pair = torch.tensor([[0, 1], [1, 0]])
    assert torch.equal(laplacian_positions(pair, None, 2, 3)[:, 1:], torch.zeros(2, 2))
