"""SGFormer: attention against its definition, zero weights, gradients of weights, mixing, decay groups."""

from __future__ import annotations

import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.features import SparseRows
from gssc.models.sgformer import SGFormer, attend

PATH = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])  # 0 - 1 - 2 - 3
ROWS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])


def small(**settings: object) -> SGFormer:
    torch.manual_seed(0)
    return SGFormer(3, 2, hidden=5, **settings).eval()  # type: ignore[arg-type]


def test_attention_is_that_of_the_full_matrix() -> None:
    generator = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(4, 5, generator=generator) for _ in range(3))
    pairs = torch.eye(4) + (query / query.norm()) @ (key / key.norm()).T / 4
    torch.testing.assert_close(attend(query, key, value), (pairs / pairs.sum(1, keepdim=True)) @ value)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_an_edge_of_weight_zero_is_no_edge(layers: int) -> None:
    model = small(layers=layers)
    weights = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    without = model(ROWS, PATH[:, weights > 0])
    torch.testing.assert_close(model(ROWS, PATH, weights), without, rtol=0, atol=1e-6)
    assert not torch.allclose(without, model(ROWS, PATH))


def test_weights_have_a_gradient() -> None:
    weights = torch.full((6,), 0.5, requires_grad=True)
    small()(ROWS, PATH, weights).square().sum().backward()
    assert weights.grad is not None
    assert (weights.grad != 0).all()


def test_graph_weight_zero_leaves_attention_alone() -> None:
    model = small(graph_weight=0.0)
    assert torch.equal(model(ROWS, PATH), model(ROWS, PATH[:, :0]))
    assert torch.equal(model(ROWS, PATH), model.last(model.attention(ROWS)))


def test_one_convolution_by_hand() -> None:
    """Graph weight one and identity maps: a row of the normalised adjacency times the features."""
    model = small(graph_weight=1.0, layers=1)
    with torch.no_grad():
        model.convolutions.first.copy_(torch.eye(3, 5))
        model.last.weight.copy_(torch.eye(2, 5))
        model.last.bias.zero_()
    expected = ROWS[0, :2] / 2 + ROWS[1, :2] / (2 * 3) ** 0.5
    torch.testing.assert_close(model(ROWS, PATH)[0], expected)


def test_sparse_rows_give_the_same() -> None:
    model = small(residual=True, activate=True, norm=True)
    torch.testing.assert_close(model(SparseRows(sp.csr_matrix(ROWS.numpy())), PATH), model(ROWS, PATH))


def test_residual_and_activation_change_the_attention_branch() -> None:
    def attended(**settings: object) -> Tensor:
        return small(**settings).attention(ROWS)

    plain = attended()
    assert not torch.equal(plain, attended(residual=True))
    assert (attended(activate=True) >= 0).all()


def test_the_attention_branch_has_its_own_weight_decay() -> None:
    model = small(attention_weight_decay=0.5)
    attention, rest = model.parameter_groups(0.1)
    assert (attention["weight_decay"], rest["weight_decay"]) == (0.5, 0.1)
    assert len(attention["params"]) + len(rest["params"]) == len(list(model.parameters()))
    assert small().parameter_groups(0.1)[0]["weight_decay"] == 0.1


@pytest.mark.parametrize("name", sorted(SGFormer.recipes))
def test_every_recipe_builds(name: str) -> None:
    assert SGFormer(3, 2, **SGFormer.recipes[name].model)(ROWS, PATH).shape == (4, 2)
