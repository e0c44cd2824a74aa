"""The losses of the paper as pure functions of tensors that return a number, or one number per pair.

Shapes: B pairs (i, j) in a batch, C classes. A leading axis of 2 holds both directions of a pair: index 0 is the
source i, index 1 the target j.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gssc.errors import GsscError
from gssc.tasks import Task


def pair_smoothness(
    task: Task,
    endpoint_logits: Tensor,
    mixed_logits: Tensor,
    negative_logits: Tensor | None,
    negative_weight: float = 1.0,
) -> Tensor:
    """Return l_ij of Eq. 9 for every pair of a batch, in the sampled form of Eq. 11; D is the mean squared error.

    The negative term compares probabilities, as in the released program: taken from logits, as Eq. 11 is written, it
    has no lower bound, and training diverges.

    Args:
        task: the prediction task.
        endpoint_logits: y of both ends, [2, B, C].
        mixed_logits: z of the points i->j and j->i, [2, B, C].
        negative_logits: z of one sampled node per pair, [B, C]; None for no negatives.
        negative_weight: weight of the negative term.

    Returns:
        One value per pair, [B].
    """
    pull = (endpoint_logits - mixed_logits).square().mean(-1).sum(0)
    if negative_logits is None or negative_weight == 0:
        return pull
    # Classes before pairs: torch's softmax is many times slower along a short last axis.
    ends, negatives = (task.probabilities(logits.mT, dim=-2) for logits in (endpoint_logits, negative_logits))
    return pull - negative_weight * (ends - negatives).square().mean(-2).sum(0)


def classification(
    task: Task, endpoint_logits: Tensor, mixed_logits: Tensor, labels: Tensor, class_weight: Tensor | None = None
) -> Tensor:
    """Return Eq. 12: cross entropy of labelled endpoints on y, and of the neighbour side z with the endpoint's label.

    The neighbour side is the mixed point, as in the released program; with beta = 1 it is the neighbour itself, as in
    the text. As in the released program, means are over labelled ends, where the text divides by the batch size: a
    batch with few labelled ends then has the same weight as one with many.

    Args:
        task: the prediction task.
        endpoint_logits: y of both ends, [2, B, C].
        mixed_logits: z of the neighbour side of each end, [2, B, C].
        labels: class of each end, -1 where unknown, [2, B]; or multi-label targets, NaN where missing, [2, B, C].
        class_weight: weight of each class, [C]; ignored for multi-label targets.
    """
    return 2 * (task.loss(endpoint_logits, labels, class_weight) + task.loss(mixed_logits, labels, class_weight))


def endpoint_class_weights(labels: Tensor, sources: Tensor, targets: Tensor, num_classes: int) -> Tensor:
    """Return the weight of each class, its labelled nodes over its labelled edge endpoints, scaled to a mean of one.

    Training visits labelled nodes once per edge, so classes of high-degree nodes would otherwise have more weight.
    """
    nodes = torch.bincount(labels[labels >= 0], minlength=num_classes).float()
    ends = torch.cat([labels[sources], labels[targets]])
    endpoints = torch.bincount(ends[ends >= 0], minlength=num_classes).float()
    return endpoint_weights(nodes, endpoints)


def endpoint_weights(nodes: Tensor, endpoints: Tensor) -> Tensor:
    """Return labelled nodes over labelled endpoints of each class, [C], scaled to a mean of one."""
    nodes, endpoints = nodes.float(), endpoints.float()
    weights = torch.where(endpoints > 0, nodes / endpoints.clamp(min=1), 0)
    total = weights.sum()
    return len(nodes) * weights / total if total > 0 else torch.ones(len(nodes))


def class_centers(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the loss that pulls together, per class, the mean logits of labelled and of predicted nodes.

    Args:
        logits: y of a set of nodes, [n, C].
        labels: their classes, -1 where unknown, [n].
    """
    num_classes = logits.shape[1]
    predicted = F.one_hot(logits.detach().argmax(1), num_classes).to(logits.dtype)
    labelled = F.one_hot(labels.clamp(min=0), num_classes).to(logits.dtype) * (labels >= 0).unsqueeze(1)
    predicted_center = predicted.T @ logits / predicted.sum(0).clamp(min=1).unsqueeze(1)
    labelled_center = labelled.T @ logits / labelled.sum(0).clamp(min=1).unsqueeze(1)
    both = (predicted.sum(0) > 0) & (labelled.sum(0) > 0)
    return (predicted_center - labelled_center)[both].square().mean(1).sum()


def homophily_share(weights: Tensor, agree: Tensor) -> Tensor:
    """Return Eq. 16: the share of kept edges whose two ends have the same pseudo-label; to be maximised.

    Args:
        weights: sampled edge weights g', one where kept and zero where dropped, [E], with straight-through gradient.
        agree: agreement of the two pseudo-labels in [0, 1], [E].
    """
    return (weights * agree).sum() / weights.sum().clamp(min=1)


def homophily_ratio(weights: Tensor, agree: Tensor) -> Tensor:
    """Return the mean weight of disagreeing kept edges over that of agreeing ones; to be minimised.

    It has the same aim as Eq. 16, with equal weight for the two kinds of edges, however rare one of them is. Only kept
    edges get a gradient, and the value itself is always one (zero if one kind is missing): only the gradient matters.
    """
    kept = weights.detach() > 0.5
    disagreeing, agreeing = kept * (1 - agree), kept * agree
    if disagreeing.sum() == 0 or agreeing.sum() == 0:
        return weights.sum() * 0
    return ((weights * disagreeing).sum() / disagreeing.sum()) / ((weights * agreeing).sum() / agreeing.sum())


def masked_smoothness(weights: Tensor, pair_losses: Tensor) -> Tensor:
    """Return Eq. 14: the smoothness loss multiplied by g'; included because the paper shows that it fails.

    Dropping an edge with positive loss always lowers it, so minimising it drives the edge set towards the empty one, as
    far as the sparsifier allows: alpha keeps a share of every edge, and the sigmoid of the product of two similar rows
    hardly falls below one half. Bounded negatives can make the loss of a good edge negative.
    """
    return (weights * pair_losses).mean()


def sparsifier_loss(objective: str, weights: Tensor, agreement: Tensor, pair_losses: Tensor | None = None) -> Tensor:
    """Return the loss of psi: the released program's ratio, the share of Eq. 16, or Eq. 14, which empties the graph.

    Args:
        objective: ``ratio``, ``share`` or ``masked_smoothness``.
        weights: g' of each pair, with gradient.
        agreement: whether the pair's pseudo-labels agree.
        pair_losses: l_ij of each pair, for Eq. 14.
    """
    if objective == "share":
        return -homophily_share(weights, agreement)
    if objective == "masked_smoothness":
        if pair_losses is None:
            raise GsscError(
                "sparsifier.objective masked_smoothness (Eq. 14) is for str_contrast: other models have no l_ij"
            )
        return masked_smoothness(weights, pair_losses)
    return homophily_ratio(weights, agreement)
