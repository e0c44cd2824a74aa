"""LinkDist: class weights and losses by hand, dropped edges, batches, the contrastive variant."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from gssc.features import SparseRows
from gssc.models.base import TrainingGraph
from gssc.models.link_dist import LinkDist, class_weights, labelled_loss
from gssc.tasks import Classes

TASK = Classes(2)

PATH = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])  # 0 - 1 - 2 - 3
ROWS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
LABELS, TRAIN = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def small(**settings: float) -> LinkDist:
    torch.manual_seed(0)
    return LinkDist(3, 2, **{"hidden": 5, "dropout": 0.0, **settings})  # type: ignore[arg-type]


def test_class_weights_of_a_path_by_hand() -> None:
    # Class 0 is known at one node with two ends among the directed pairs, class 1 at one node with four.
    known = torch.tensor([0, 1, -1, -1])
    weights = class_weights(known, PATH.numpy(), 2)
    torch.testing.assert_close(weights, 2 * torch.tensor([1 / 2, 1 / 4]) / (3 / 4))


def test_a_class_without_an_end_weighs_one() -> None:
    weights = class_weights(torch.tensor([0, -1, -1, 1]), np.array([[0, 1], [1, 0]]), 3)
    assert weights.tolist() == [3.0, 1.0, 1.0]
    assert class_weights(torch.tensor([-1, -1]), np.array([[0], [1]]), 2).tolist() == [1.0, 1.0]


def test_the_loss_of_unlabelled_rows_is_zero_with_a_gradient() -> None:
    logits = torch.randn(2, 3, requires_grad=True)
    loss = labelled_loss(logits, torch.tensor([-1, -1]))
    loss.backward()
    assert loss == 0
    assert logits.grad is not None


def test_edge_loss_by_hand() -> None:
    heads = [(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])), (torch.zeros(1, 2), torch.tensor([[3.0, 0.0]]))]
    loss = small().edge_loss(heads, [torch.tensor([0]), torch.tensor([-1])], torch.ones(2), alpha=0.5)
    distilled = 0.5 * ((1 - 3) ** 2 / 2 + 2**2 / 2)  # own of one end against neighbour of the other, both ways
    taught = F.cross_entropy(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    taught += F.cross_entropy(torch.tensor([[3.0, 0.0]]), torch.tensor([0]))
    assert torch.isclose(loss, distilled + taught)


def test_dropped_edges_take_no_part() -> None:
    model = small()
    weights = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    weighed = [loss.item() for loss in model.losses(TrainingGraph(ROWS, PATH, weights, LABELS, TRAIN, TASK), rng())]
    left_out = [
        loss.item()
        for loss in model.losses(TrainingGraph(ROWS, PATH[:, weights > 0], None, LABELS, TRAIN, TASK), rng())
    ]
    every = [loss.item() for loss in model.losses(TrainingGraph(ROWS, PATH, None, LABELS, TRAIN, TASK), rng())]
    assert weighed == left_out != every


def test_without_edges_there_is_nothing_to_learn() -> None:
    assert list(small().losses(TrainingGraph(ROWS, PATH, torch.zeros(6), LABELS, TRAIN, TASK), rng())) == []


def test_one_loss_per_batch_of_edges() -> None:
    assert len(list(small(batch_size=3).losses(TrainingGraph(ROWS, PATH, None, LABELS, TRAIN, TASK), rng()))) == 2


def test_prediction_is_the_first_head_and_needs_no_edges() -> None:
    model = small().eval()
    assert torch.equal(model(ROWS, PATH), model(ROWS, PATH[:, :0]))
    with torch.no_grad():
        model.neighbour.linear.weight.add_(1)
    assert torch.equal(model(ROWS), model.own(model.middle(model.first(ROWS), rng()), rng()))


@pytest.mark.parametrize("contrast", [False, True])
def test_sparse_rows_give_the_same(contrast: bool) -> None:
    sparse = SparseRows(sp.csr_matrix(ROWS.numpy()))
    dense_losses = list(small(contrast=contrast).losses(TrainingGraph(ROWS, PATH, None, LABELS, TRAIN, TASK), rng()))
    sparse_losses = list(small(contrast=contrast).losses(TrainingGraph(sparse, PATH, None, LABELS, TRAIN, TASK), rng()))
    torch.testing.assert_close(sparse_losses, dense_losses)


def test_contrast_pushes_a_random_node_away() -> None:
    """Nothing labelled: what is left is minus half the distances of probabilities."""
    ends = [(torch.tensor([[5.0, 0.0]]), torch.tensor([[5.0, 0.0]]))] * 2
    unknown = [torch.tensor([-1])] * 3
    same = small().contrast_loss([*ends, ends[0]], unknown, torch.ones(2), 0.0, 0.0)
    other = small().contrast_loss([*ends, (torch.tensor([[0.0, 5.0]]),) * 2], unknown, torch.ones(2), 0.0, 0.0)
    share = torch.tensor([5.0, 0.0]).softmax(0)
    assert same == 0
    assert torch.isclose(other, -0.5 * 4 * (share[0] - share[1]) ** 2)


@pytest.mark.parametrize("contrast", [False, True])
def test_an_unlabelled_node_follows_its_neighbours(contrast: bool) -> None:
    """Two cliques of four with one label each; features are one-hot, so only edges can tell the others' class."""
    clique = [(i, j) for i in range(4) for j in range(4) if i != j]
    edges = torch.tensor(clique + [(i + 4, j + 4) for i, j in clique]).T
    rows, labels = torch.eye(8), torch.tensor([0] * 4 + [1] * 4)
    torch.manual_seed(0)
    model = LinkDist(8, 2, hidden=16, dropout=0.0, contrast=contrast)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = rng()
    for _ in range(60):
        for loss in model.losses(TrainingGraph(rows, edges, None, labels, torch.tensor([0, 4]), TASK), generator):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    assert model(rows).argmax(1).tolist() == labels.tolist()
