"""Messages along edges, by hand on four nodes and against PyTorch Geometric."""

from __future__ import annotations

import pytest
import torch

from gssc.models.propagation import averaged, normalized, routes_of

# 0 - 1 - 2, and 3 alone
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
ROWS = torch.tensor([[1.0, 0.0], [0.0, 2.0], [4.0, 0.0], [0.0, 8.0]])


def dense(messages: object, nodes: int = 4) -> torch.Tensor:
    return messages(torch.eye(nodes))  # type: ignore[operator]


def test_normalised_by_hand() -> None:
    # Degrees with self-loops: 2, 3, 2, 1.
    a, b = 1 / 2, 1 / 6**0.5
    expected = torch.tensor([[a, b, 0, 0], [b, 1 / 3, b, 0], [0, b, a, 0], [0, 0, 0, 1]])
    torch.testing.assert_close(dense(normalized(EDGES, None, 4)), expected)


def test_normalised_without_loops_by_hand() -> None:
    c = 1 / 2**0.5
    expected = torch.tensor([[0, c, 0, 0], [c, 0, c, 0], [0, c, 0, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(dense(normalized(EDGES, None, 4, loops=False)), expected)


def test_the_mean_divides_by_the_total_weight() -> None:
    weight = torch.tensor([0.5, 1.0, 1.0, 1.5])  # to node 1 come 0.5 from 0 and 1.5 from 2
    expected = torch.tensor([[0.0, 2.0], [0.25 * 1 + 0.75 * 4, 0.0], [0.0, 2.0], [0.0, 0.0]])
    torch.testing.assert_close(averaged(EDGES, weight, 4)(ROWS), expected)


def test_messages_go_from_the_first_row_of_the_edges_to_the_second() -> None:
    one_way = torch.tensor([[0], [1]])
    torch.testing.assert_close(averaged(one_way, None, 4)(ROWS)[1], ROWS[0])
    assert averaged(one_way, None, 4)(ROWS)[0].abs().sum() == 0


def test_heads_are_copies_of_the_graph() -> None:
    routes = routes_of(EDGES, 4, loops=False, heads=2)
    assert routes.num_nodes == 8
    assert routes.source.tolist() == [0, 1, 2, 3, 2, 3, 4, 5]
    assert routes.target.tolist() == [2, 3, 0, 1, 4, 5, 2, 3]


@pytest.mark.parametrize("loops", [True, False])
def test_gradients_by_rows_and_weights(loops: bool) -> None:
    weight = torch.tensor([0.5, 0.3, 0.9, 1.5], dtype=torch.float64, requires_grad=True)
    rows = ROWS.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda w, x: normalized(EDGES, w, 4, loops)(x), (weight, rows))
    assert torch.autograd.gradcheck(lambda w, x: averaged(EDGES, w, 4)(x), (weight, rows))


def test_the_same_graph_is_normalised_once() -> None:
    edges, weight = EDGES.clone(), torch.ones(4)
    assert normalized(edges, None, 4) is normalized(edges, None, 4)
    assert normalized(edges, weight, 4) is normalized(edges, weight, 4)
    assert normalized(edges, weight, 4) is not normalized(edges, None, 4)
    assert normalized(edges.clone(), None, 4) is not normalized(edges, None, 4)
    assert normalized(edges, None, 5).routes.num_nodes == 5


def test_weights_with_gradient_are_normalised_anew() -> None:
    weight = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        remembered = normalized(EDGES, weight, 4)
    assert not remembered.weight.requires_grad
    for _ in range(2):  # a graph of gradients serves one backward pass
        normalized(EDGES, weight, 4)(ROWS).sum().backward()
    assert weight.grad is not None


def test_dropped_edges_are_scaled_up() -> None:
    torch.manual_seed(0)
    messages = normalized(EDGES, None, 4)
    dropped = messages.with_dropout(0.5, training=True).weight
    assert set((dropped / messages.weight).tolist()) == {0.0, 2.0}
    assert messages.with_dropout(0.5, training=False) is messages


def test_normalisation_is_pytorch_geometrics() -> None:
    gcn_norm = pytest.importorskip("torch_geometric.nn.conv.gcn_conv").gcn_norm
    weight = torch.tensor([0.5, 0.5, 0.9, 0.9])
    theirs_index, theirs = gcn_norm(EDGES, weight, 4)
    ours = normalized(EDGES, weight, 4)
    assert torch.equal(torch.stack([ours.routes.source, ours.routes.target]), theirs_index)
    torch.testing.assert_close(ours.weight, theirs)
