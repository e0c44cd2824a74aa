"""What every model that passes messages must do: sparse rows, edge weights, learning, its own paper's settings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from gssc.features import SparseRows
from gssc.models.base import NodeModel, TrainingGraph
from gssc.models.registry import model_entry
from gssc.tasks import Classes

TASK = Classes(3)

NAMES = ["gcn", "gat", "sage", "sgc", "appnp", "dagnn", "h2gcn", "sign", "glognn"]

# 0 - 1, 0 - 2, 1 - 2, 2 - 3, 3 - 4, and 5 alone
UNDIRECTED = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 2, 3, 4]])


def both_directions(edges: torch.Tensor) -> torch.Tensor:
    return torch.cat([edges, edges.flip(0)], dim=1)


def features(nodes: int = 6, width: int = 5) -> torch.Tensor:
    values = np.random.default_rng(0).random((nodes, width)).astype(np.float32)
    values[values < 0.4] = 0
    return torch.from_numpy(values)


def built(name: str, **settings: object) -> NodeModel:
    torch.manual_seed(0)
    kind = model_entry(name).load()
    model: NodeModel = kind(5, 3, **settings)
    return model.eval()


@pytest.mark.parametrize("name", ["sgc", "appnp", "dagnn", "sign", "glognn"])
def test_without_hops_the_edges_are_not_used(name: str) -> None:
    model, rows = built(name, hops=0), features()
    torch.testing.assert_close(
        model(rows, both_directions(UNDIRECTED)), model(rows, both_directions(UNDIRECTED[:, :1]))
    )


@pytest.mark.parametrize("name", NAMES)
class TestEveryModel:
    def test_gives_one_row_of_logits_per_node(self, name: str) -> None:
        assert built(name)(features(), both_directions(UNDIRECTED)).shape == (6, 3)

    def test_looks_at_the_edges(self, name: str) -> None:
        model, rows = built(name), features()
        whole = model(rows, both_directions(UNDIRECTED))
        assert not torch.allclose(whole, model(rows, both_directions(UNDIRECTED[:, :3])))

    def test_sparse_rows_give_what_dense_rows_give(self, name: str) -> None:
        model, rows, edges = built(name), features(), both_directions(UNDIRECTED)
        sparse = SparseRows(sp.csr_matrix(rows.numpy()))
        torch.testing.assert_close(model(sparse, edges), model(rows, edges))

    def test_weights_of_one_change_nothing(self, name: str) -> None:
        model, rows, edges = built(name), features(), both_directions(UNDIRECTED)
        torch.testing.assert_close(model(rows, edges, torch.ones(10)), model(rows, edges))

    @pytest.mark.parametrize("dropped", [[0], [3], [1, 4], [0, 1, 2, 3, 4]])
    def test_a_weight_of_zero_is_no_edge(self, name: str, dropped: list[int]) -> None:
        model, rows = built(name), features()
        weight = torch.ones(5)
        weight[dropped] = 0
        without = both_directions(UNDIRECTED[:, weight > 0])
        torch.testing.assert_close(
            model(rows, both_directions(UNDIRECTED), weight.repeat(2)), model(rows, without), atol=1e-6, rtol=1e-5
        )

    def test_fractional_weights_with_and_without_a_dropped_edge(self, name: str) -> None:
        model, rows = built(name), features()
        weight = torch.tensor([0.3, 0.0, 0.9, 0.5, 0.7])
        kept = weight > 0
        torch.testing.assert_close(
            model(rows, both_directions(UNDIRECTED), weight.repeat(2)),
            model(rows, both_directions(UNDIRECTED[:, kept]), weight[kept].repeat(2)),
            atol=1e-6,
            rtol=1e-5,
        )

    def test_the_gradient_by_the_weights_is_that_of_finite_differences(self, name: str) -> None:
        # In double precision the differences are exact enough to compare; layers that round to single are cast too.
        model, rows = built(name).double(), features().double()
        edges, weight = both_directions(UNDIRECTED), torch.tensor([0.3, 0.6, 0.9, 0.5, 0.7], dtype=torch.float64)
        generator = torch.Generator().manual_seed(1)
        mix = torch.randn(6, 3, generator=generator, dtype=torch.float64)

        def value(each: torch.Tensor) -> torch.Tensor:
            return (model(rows, edges, each.repeat(2)) * mix).sum()

        leaf = weight.clone().requires_grad_()
        value(leaf).backward()
        assert leaf.grad is not None
        step = 1e-5
        for place in range(5):
            more, less = weight.clone(), weight.clone()
            more[place] += step
            less[place] -= step
            with torch.no_grad():
                slope = float(value(more) - value(less)) / (2 * step)
            assert float(leaf.grad[place]) == pytest.approx(slope, rel=1e-3, abs=1e-6)

    def test_gradients_stay_finite_where_edges_weigh_nothing(self, name: str) -> None:
        model = built(name)
        weight = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0], requires_grad=True)  # 3 and 4 lose all their edges
        model(features(), both_directions(UNDIRECTED), weight.repeat(2)).square().sum().backward()
        assert weight.grad is not None
        assert weight.grad.isfinite().all()
        assert weight.grad[:3].abs().min() > 0
        for parameter in model.parameters():
            assert parameter.grad is not None
            assert parameter.grad.isfinite().all()

    def test_dropped_weights_do_not_outlive_an_epoch(self, name: str) -> None:
        """Results are remembered by graph: a weight written in place must be seen."""
        model, rows, edges = built(name), features(), both_directions(UNDIRECTED)
        weight = torch.ones(10)
        before = model(rows, edges, weight)
        weight[[0, 5]] = 0
        after = model(rows, edges, weight)
        assert not torch.allclose(before, after)
        torch.testing.assert_close(after, model(rows, edges, weight.clone()))

    def test_no_edges_at_all(self, name: str) -> None:
        assert built(name)(features(), torch.empty(2, 0, dtype=torch.int64)).isfinite().all()

    def test_learns_a_graph_by_heart(self, name: str) -> None:
        kind = model_entry(name).load()
        rng = np.random.default_rng(0)
        labels = torch.arange(30) % 3
        rows = F.one_hot(labels, 3).float() + torch.from_numpy(rng.normal(0, 0.5, (30, 3)).astype(np.float32))
        pairs = [(i, i + 3) for i in range(27)]  # neighbours share a class
        edges = both_directions(torch.tensor(pairs).T)
        torch.manual_seed(0)
        settings = {key: 0.0 if "dropout" in key else value for key, value in kind.recipe.model.items()}
        model = kind(3, 3, **settings)
        optimizer = torch.optim.Adam(model.parameter_groups(0.0), lr=0.05)
        for _ in range(60):
            model.train()
            for loss in model.losses(TrainingGraph(rows, edges, None, labels, torch.arange(12), TASK), rng):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        predicted = model.eval()(rows, edges).argmax(1)
        assert (predicted == labels).float().mean() > 0.85

    def test_recipes_fit_the_class(self, name: str) -> None:
        kind = model_entry(name).load()
        for recipe in [kind.recipe, *kind.recipes.values()]:
            model = kind(5, 3, **recipe.model)
            assert model(features(), both_directions(UNDIRECTED)).shape == (6, 3)
            assert recipe.normalize in ("auto", "row", "none")

    def test_every_parameter_is_in_one_group(self, name: str) -> None:
        model = built(name)
        grouped = [id(p) for group in model.parameter_groups(5e-4) for p in group["params"]]
        assert sorted(grouped) == sorted(id(p) for p in model.parameters())

    def test_training_drops_and_prediction_does_not(self, name: str) -> None:
        kind = model_entry(name).load()
        settings = {**kind.recipe.model, "dropout": 0.5}
        model, rows, edges = kind(5, 3, **settings), features(), both_directions(UNDIRECTED)
        model.train()
        assert not torch.equal(model(rows, edges), model(rows, edges))
        model.eval()
        assert torch.equal(model(rows, edges), model(rows, edges))


class TestMLP:
    def test_never_looks_at_edges(self) -> None:
        model, rows = built("mlp"), features()
        assert not model.passes_messages
        assert not model.learns_from_edges
        assert torch.equal(model(rows, both_directions(UNDIRECTED)), model(rows))

    def test_is_two_linear_maps(self) -> None:
        model, rows = built("mlp", hidden=2), features()
        first, second = model.first, model.second
        by_hand = F.relu(rows @ first.weight + first.bias) @ second.weight.T + second.bias
        torch.testing.assert_close(model(rows), by_hand)


class TestAgainstPyTorchGeometric:
    """The same weights in PyTorch Geometric's layers give the same logits."""

    rows, edges = features(), both_directions(UNDIRECTED)
    weight = torch.tensor([0.3, 0.6, 0.9, 0.5, 0.7]).repeat(2)

    def test_gcn(self) -> None:
        conv, model = pytest.importorskip("torch_geometric.nn").GCNConv, built("gcn", hidden=4)
        first, second = conv(5, 4), conv(4, 3)
        copy_into(first.lin.weight, model.first.weight.T, second.lin.weight, model.second.weight)
        copy_into(first.bias, model.first_bias, second.bias, model.second_bias)
        theirs = second(F.relu(first(self.rows, self.edges, self.weight)), self.edges, self.weight)
        torch.testing.assert_close(model(self.rows, self.edges, self.weight), theirs)

    def test_gat(self) -> None:
        conv, model = pytest.importorskip("torch_geometric.nn").GATConv, built("gat", hidden=4, heads=2)
        first, second = conv(5, 4, heads=2), conv(8, 3)
        copy_into(first.lin.weight, model.first.weight.T, second.lin.weight, model.second.weight)
        copy_into(first.att_src[0], model.first_attention.source, first.att_dst[0], model.first_attention.target)
        copy_into(second.att_src[0], model.second_attention.source, second.att_dst[0], model.second_attention.target)
        theirs = second(F.elu(first(self.rows, self.edges)), self.edges)
        torch.testing.assert_close(model(self.rows, self.edges), theirs)

    def test_sage(self) -> None:
        conv, model = pytest.importorskip("torch_geometric.nn").SAGEConv, built("sage", hidden=4)
        first, second = conv(5, 4), conv(4, 3)
        own, near = model.first.weight.T.chunk(2)
        copy_into(first.lin_r.weight, own, first.lin_l.weight, near, first.lin_l.bias, model.first_bias)
        copy_into(second.lin_r.weight, model.second_own.weight, second.lin_l.weight, model.second_near.weight)
        copy_into(second.lin_l.bias, model.second_own.bias)
        theirs = second(F.relu(first(self.rows, self.edges)), self.edges)
        torch.testing.assert_close(model(self.rows, self.edges), theirs)

    def test_sgc(self) -> None:
        theirs, model = pytest.importorskip("torch_geometric.nn").SGConv(5, 3, K=2), built("sgc", hops=2)
        copy_into(theirs.lin.weight, model.linear.weight.T, theirs.lin.bias, model.bias)
        torch.testing.assert_close(
            model(self.rows, self.edges, self.weight), theirs(self.rows, self.edges, self.weight)
        )

    def test_appnp(self) -> None:
        theirs, model = pytest.importorskip("torch_geometric.nn").APPNP(10, 0.1), built("appnp", hidden=4)
        own = F.relu(self.rows @ model.first.weight) @ model.second.weight.T
        torch.testing.assert_close(
            model(self.rows, self.edges, self.weight), theirs(own, self.edges, self.weight), atol=1e-6, rtol=1e-5
        )


def copy_into(*pairs: torch.Tensor) -> None:
    """Copy the values of every second tensor into the one before it."""
    with torch.no_grad():
        for theirs, ours in zip(pairs[::2], pairs[1::2], strict=True):
            theirs.copy_(ours)


class TestByDenseMatrices:
    """What PyTorch Geometric lacks, written out with dense matrices."""

    rows, edges = features(), both_directions(UNDIRECTED)

    @pytest.fixture
    def adjacency(self) -> torch.Tensor:
        matrix = torch.zeros(6, 6)
        matrix[self.edges[0], self.edges[1]] = 1
        return matrix

    def test_dagnn(self, adjacency: torch.Tensor) -> None:
        model = built("dagnn", hidden=4, hops=2)
        start = model.second(F.relu(self.rows @ model.first.weight + model.first.bias))
        hat = symmetric(adjacency + torch.eye(6))
        parts = [start, hat @ start, hat @ hat @ start]
        by_hand = sum(torch.sigmoid(part @ model.score.weight.T + model.score.bias) * part for part in parts)
        torch.testing.assert_close(model(self.rows, self.edges), by_hand)

    def test_sign(self, adjacency: torch.Tensor) -> None:
        model = built("sign", hidden=4, hops=2)
        hat = symmetric(adjacency + torch.eye(6))
        maps = model.first.weight.split(4, dim=1)
        parts = [self.rows @ maps[0], hat @ self.rows @ maps[1], hat @ hat @ self.rows @ maps[2]]
        hidden = torch.cat(parts, dim=1) + model.first_bias
        by_hand = torch.where(hidden > 0, hidden, 0.25 * hidden) @ model.second.weight.T + model.second.bias
        torch.testing.assert_close(model(self.rows, self.edges), by_hand)

    def test_h2gcn(self, adjacency: torch.Tensor) -> None:
        model = built("h2gcn", hidden=4)
        two_steps = ((adjacency @ adjacency > 0) & (adjacency == 0)).float().fill_diagonal_(0)
        near, far = symmetric(adjacency), symmetric(two_steps)
        seen = F.relu(self.rows @ model.first.weight)
        once = torch.cat([near @ seen, far @ seen], dim=1)
        twice = torch.cat([near @ once, far @ once], dim=1)
        by_hand = torch.cat([seen, once, twice], dim=1) @ model.last.weight.T
        torch.testing.assert_close(model(self.rows, self.edges), by_hand)

    def test_glognn(self, adjacency: torch.Tensor) -> None:
        """The N x N coefficients by their own formula, and that they minimise what they should."""
        model = built("glognn", hidden=4, layers=2, hops=2, own=0.2, shrink=0.3, local=0.7).double()
        model.hop_weights.data = torch.tensor([0.5, -0.4], dtype=torch.float64)
        rows, hat = self.rows.double(), symmetric(adjacency + torch.eye(6)).double()
        local = 0.5 * hat - 0.4 * hat @ hat
        start = model.second(F.relu(rows @ model.first.weight + model.first.bias))

        def cost(z: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
            fit = (now - 0.8 * z @ now - 0.2 * start).square().sum()
            return fit + 0.3 * z.square().sum() + 0.7 * (z - local).square().sum()

        now = start
        for _ in range(2):
            gram = 0.64 * now @ now.T + torch.eye(6, dtype=torch.float64)
            left = 0.8 * now @ now.T + 0.7 * local - 0.16 * start @ now.T
            coefficients = (left @ gram.inverse()).detach().requires_grad_()
            (slope,) = torch.autograd.grad(cost(coefficients, now.detach()), coefficients)
            assert slope.abs().max() < 1e-10
            now = 0.8 * coefficients @ now + 0.2 * start
        torch.testing.assert_close(model(rows, self.edges, torch.ones(10, dtype=torch.float64)), now)


def symmetric(matrix: torch.Tensor) -> torch.Tensor:
    scale = matrix.sum(1).clamp(min=1).rsqrt()
    return scale[:, None] * matrix * scale
