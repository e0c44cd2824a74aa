"""Every loss against arithmetic done by hand on the path 0 - 1 - 2 - 3, and the sign of every gradient."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from torch import Tensor

from gssc.tasks import Classes, MultiLabel
from gssc.train import losses

TASK = Classes(2)

# The path 0 - 1 - 2 - 3, each edge in one direction: B = 3 pairs, C = 2 classes.
SOURCES = torch.tensor([0, 1, 2])
TARGETS = torch.tensor([1, 2, 3])
Y = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 4.0], [0.0, 2.0]])  # y of nodes 0..3
Z = torch.tensor([[0.0, 0.0], [1.0, 3.0], [2.0, 2.0], [0.0, 0.0]])  # z of nodes 0..3
ENDPOINTS = Y[torch.stack([SOURCES, TARGETS])]  # [2, 3, 2]
MIXED = Z[torch.stack([TARGETS, SOURCES])]  # the point i->j at beta = 1 is the neighbour j


def test_smoothness_pulls_both_ends_to_the_mixed_point():
    # pair (0, 1): mean((2-1)^2, (0-3)^2) = 5;   back: mean((1-0)^2, (1-0)^2) = 1;  together 6
    # pair (1, 2): mean((1-2)^2, (1-2)^2) = 1;   back: mean((0-1)^2, (4-3)^2) = 1;  together 2
    # pair (2, 3): mean((0-0)^2, (4-0)^2) = 8;   back: mean((0-2)^2, (2-2)^2) = 2;  together 10
    assert losses.pair_smoothness(TASK, ENDPOINTS, MIXED, None).tolist() == [6, 2, 10]


def test_smoothness_pushes_both_ends_from_one_negative_by_probabilities():
    negatives = Z[torch.tensor([3, 3, 1])]
    # With two classes the softmax of (a, b) is (p, 1 - p), p = 1 / (1 + e^(b - a)), and the mean squared error
    # of two such vectors is the square of the difference of their p.
    p = {0: 1 / (1 + exp(-2)), 1: 1 / 2, 2: 1 / (1 + exp(4)), 3: 1 / (1 + exp(2))}  # of y
    flat, tilted = 1 / 2, 1 / (1 + exp(2))  # of z_3 = (0, 0) and z_1 = (1, 3)
    push = [
        (p[0] - flat) ** 2 + (p[1] - flat) ** 2,
        (p[1] - flat) ** 2 + (p[2] - flat) ** 2,
        (p[2] - tilted) ** 2 + (p[3] - tilted) ** 2,
    ]
    for weight in (1.0, 0.5):
        expected = [pull - weight * away for pull, away in zip([6, 2, 10], push, strict=True)]
        found = losses.pair_smoothness(TASK, ENDPOINTS, MIXED, negatives, weight)
        assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_the_negative_term_is_bounded_however_large_the_logits():
    far = torch.full((1, 2), 0.0)
    for size in (1e1, 1e3, 1e5):
        ends = torch.tensor([[[size, -size]], [[size, -size]]])
        # Probabilities differ by at most 1 each, so either end pushes by at most 1.
        assert losses.pair_smoothness(TASK, ends, ends, far).item() >= -2


def test_no_weight_on_the_negatives_is_no_negatives():
    assert torch.equal(
        losses.pair_smoothness(TASK, ENDPOINTS, MIXED, Z[SOURCES], negative_weight=0),
        losses.pair_smoothness(TASK, ENDPOINTS, MIXED, None),
    )


def test_smoothness_gradient_moves_the_ends_to_the_mixed_point_and_from_the_negative():
    ends = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]], requires_grad=True)
    losses.pair_smoothness(TASK, ends, torch.zeros(2, 1, 2), None).sum().backward()
    assert (ends.grad[:, 0, 0] > 0).all()  # downhill lowers the first logit, to the mixed point at zero
    ends.grad = None
    losses.pair_smoothness(TASK, ends, ends.detach(), torch.zeros(1, 2)).sum().backward()
    assert (ends.grad[:, 0, 0] < 0).all()  # downhill raises it, away from the flat negative


# Classification, Eq. 12 -----------------------------------------------------------------------------------------


def test_classification_by_hand():
    labels = torch.tensor([0, -1, -1, 1])[torch.stack([SOURCES, TARGETS])]
    # Labelled ends: 0 as a source of (0, 1), class 0; 3 as a target of (2, 3), class 1.
    # y: CE of (2, 0) for class 0 = log(1 + e^-2); CE of (0, 2) for class 1 = log(1 + e^-2)
    # neighbour side: z_1 = (1, 3) for class 0 = log(1 + e^2); z_2 = (2, 2) for class 1 = log 2
    # Mean over the two labelled ends, twice (a pair has two ends):
    expected = 2 * ((2 * log(1 + exp(-2))) / 2 + (log(1 + exp(2)) + log(2)) / 2)
    assert losses.classification(TASK, ENDPOINTS, MIXED, labels).item() == pytest.approx(expected, rel=1e-6)


def test_classification_weighs_classes():
    labels = torch.tensor([0, -1, -1, 1])[torch.stack([SOURCES, TARGETS])]
    weight = torch.tensor([3.0, 1.0])
    # As above, with the end of class 0 counted three times in each mean.
    expected = 2 * (log(1 + exp(-2)) + (3 * log(1 + exp(2)) + log(2)) / 4)
    assert losses.classification(TASK, ENDPOINTS, MIXED, labels, weight).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("labels", [torch.full((2, 3), -1), torch.full((2, 3, 2), float("nan"))])
def test_no_label_in_the_batch_is_no_loss_and_no_gradient(labels: Tensor):
    ends, mixed = ENDPOINTS.clone().requires_grad_(), MIXED.clone().requires_grad_()
    loss = losses.classification(TASK, ends, mixed, labels)
    loss.backward()
    assert loss.item() == 0
    assert not ends.grad.any()


def test_multilabel_classification_skips_missing_entries():
    nan = float("nan")
    # Pair (0, 1) alone; node 0 has targets (1, missing), node 1 has (missing, 0).
    labels = torch.tensor([[[1.0, nan]], [[nan, 0.0]]])
    # y: y_0[0] = 2 against 1: log(1 + e^-2);  y_1[1] = 1 against 0: log(1 + e)
    # neighbour side: of node 0 it is z_1[0] = 1 against 1: log(1 + e^-1);  of node 1 it is z_0[1] = 0 against 0: log 2
    expected = 2 * ((log(1 + exp(-2)) + log(1 + exp(1))) / 2 + (log(1 + exp(-1)) + log(2)) / 2)
    loss = losses.classification(MultiLabel(2), ENDPOINTS[:, :1], MIXED[:, :1], labels)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_missing_multilabel_entries_give_no_gradient():
    nan = float("nan")
    ends = ENDPOINTS[:, :1].clone().requires_grad_()
    losses.classification(MultiLabel(2), ends, MIXED[:, :1], torch.tensor([[[1.0, nan]], [[nan, 0.0]]])).backward()
    assert ends.grad[0, 0, 0] < 0  # a positive target: downhill raises the logit
    assert ends.grad[1, 0, 1] > 0
    assert ends.grad[0, 0, 1] == 0
    assert ends.grad[1, 0, 0] == 0


def test_class_weights_are_labelled_nodes_over_labelled_endpoints():
    labels = torch.tensor([0, 1, 1, -1])
    # Endpoints of the path: 0 | 1, 1 | 2, 2 | 3. Class 0: one node, one endpoint: 1. Class 1: two nodes, four: 1/2.
    # Scaled to a mean of one: 1 / 0.75 and 0.5 / 0.75.
    weights = losses.endpoint_class_weights(labels, SOURCES, TARGETS, 2)
    assert weights.tolist() == pytest.approx([4 / 3, 2 / 3])


def test_a_class_without_labelled_endpoints_weighs_nothing():
    # Class 2 has no node; node 3 of class 1 is on no edge given.
    weights = losses.endpoint_class_weights(torch.tensor([0, -1, -1, 1]), SOURCES[:1], TARGETS[:1], 3)
    assert weights.tolist() == [3, 0, 0]
    nothing_labelled = losses.endpoint_class_weights(torch.full((4,), -1), SOURCES, TARGETS, 3)
    assert nothing_labelled.tolist() == [1, 1, 1]


def test_class_centers_by_hand():
    labels = torch.tensor([0, 1, -1, -1])
    # Predicted: node 0 as 0; node 1 (1, 1) is a tie, argmax takes 0; nodes 2 and 3 as 1.
    # Class 0: predicted centre ((2, 0) + (1, 1)) / 2 = (1.5, 0.5), labelled centre (2, 0): mean(0.25, 0.25) = 0.25
    # Class 1: predicted centre ((0, 4) + (0, 2)) / 2 = (0, 3), labelled centre (1, 1): mean(1, 4) = 2.5
    assert losses.class_centers(Y, labels).item() == pytest.approx(2.75)


def test_class_centers_leave_out_classes_that_lack_either_side():
    # Everything is predicted as class 0 and only class 1 has a label: nothing to compare.
    logits = torch.tensor([[3.0, 0.0], [2.0, 0.0]], requires_grad=True)
    loss = losses.class_centers(logits, torch.tensor([1, -1]))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


# The sparsifier's objectives, Eq. 14 and 16 ---------------------------------------------------------------------

AGREE = torch.tensor([1.0, 0.0, 1.0, 0.0])


def test_homophily_share_by_hand():
    # Kept: 0, 1, 2; of these 0 and 2 agree.
    assert losses.homophily_share(torch.tensor([1.0, 1.0, 1.0, 0.0]), AGREE).item() == pytest.approx(2 / 3)


def test_homophily_share_raises_agreeing_and_lowers_disagreeing_edges():
    weights = torch.tensor([1.0, 1.0, 1.0, 0.0], requires_grad=True)
    losses.homophily_share(weights, AGREE).backward()
    # d/dw_e of sum(w a) / sum(w) is (a_e - 2/3) / 3: (1/9, -2/9, 1/9, -2/9); dropped edges get a gradient as well.
    assert weights.grad.tolist() == pytest.approx([1 / 9, -2 / 9, 1 / 9, -2 / 9])


def test_homophily_share_of_nothing_kept_is_zero_and_calls_agreeing_edges_back():
    weights = torch.zeros(4, requires_grad=True)
    share = losses.homophily_share(weights, AGREE)
    share.backward()
    assert share.item() == 0
    assert weights.grad.tolist() == AGREE.tolist()


def test_homophily_ratio_raises_agreeing_and_lowers_disagreeing_kept_edges():
    weights = torch.tensor([1.0, 1.0, 1.0, 0.0], requires_grad=True)
    ratio = losses.homophily_ratio(weights, AGREE)
    ratio.backward()
    # Means of kept weights are 1 and 1. d/dw_1 = 1 / 1; d/dw_0 = d/dw_2 = -1 / 2; the dropped edge has none.
    assert ratio.item() == 1
    assert weights.grad.tolist() == pytest.approx([-0.5, 1, -0.5, 0])


@pytest.mark.parametrize("agree", [torch.ones(4), torch.zeros(4)])
@pytest.mark.parametrize("weights", [torch.ones(4), torch.zeros(4)])
def test_homophily_ratio_of_one_kind_of_edge_has_no_effect(agree: Tensor, weights: Tensor):
    weights = weights.clone().requires_grad_()
    ratio = losses.homophily_ratio(weights, agree)
    ratio.backward()
    assert ratio.item() == 0
    assert not weights.grad.any()


def test_homophily_ratio_takes_partial_agreement():
    # Multi-label: the edges agree on 3/4 and 1/4 of the tasks; weights w give
    # ((w_0/4 + 3 w_1/4) / 1) / ((3 w_0/4 + w_1/4) / 1), at ones 1; d/dw_0 = 1/4 - 3/4 = -1/2, d/dw_1 = +1/2.
    weights = torch.ones(2, requires_grad=True)
    losses.homophily_ratio(weights, torch.tensor([0.75, 0.25])).backward()
    assert weights.grad.tolist() == pytest.approx([-0.5, 0.5])


def test_masked_smoothness_by_hand_pushes_every_costly_edge_down():
    weights = torch.tensor([1.0, 1.0, 1.0, 0.0], requires_grad=True)
    pair_losses = torch.tensor([6.0, 2.0, 10.0, 1.0])
    loss = losses.masked_smoothness(weights, pair_losses)
    loss.backward()
    assert loss.item() == (6 + 2 + 10) / 4
    assert weights.grad.tolist() == [1.5, 0.5, 2.5, 0.25]  # all positive: downhill empties the edge set
