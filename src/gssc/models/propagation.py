"""Message passing along weighted edges, normalised once per graph and fast on a CPU.

PyTorch Geometric gathers one row per edge and scatters it again. With edges sorted by target, the same sum is an
``embedding_bag``: on Cora and Squirrel 8 to 100 times faster, and the rows of all edges are never held at once. The
tests compare the results with PyTorch Geometric's layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gssc.models.dropout import drop
from gssc.models.recent import Recent


class Routes:
    """Edges sorted by target (and, for gradients, by source), so that the messages to a node are contiguous.

    Args:
        source: node that sends each message, [P].
        target: node that receives it, [P].
        num_nodes: number of nodes N.
        heads: number of copies of these edges; head h of node n is then node ``n * heads + h``.
    """

    def __init__(self, source: Tensor, target: Tensor, num_nodes: int, heads: int = 1):
        self._ends, self._heads = (source, target), heads
        if heads > 1:
            source, target = ((end.unsqueeze(1) * heads + torch.arange(heads)).flatten() for end in (source, target))
        self.source, self.target, self.num_nodes = source, target, num_nodes * heads
        self._forth = _sorted_by(self.target, self.source, self.num_nodes)
        self._back: tuple[Tensor, Tensor, Tensor] | None = None

    def forth(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the order of the edges by target, their sources in that order, and offsets per target, [N + 1]."""
        return self._forth

    def back(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same as :meth:`forth` with source and target exchanged."""
        if self._back is None:
            self._back = _sorted_by(self.source, self.target, self.num_nodes)
        return self._back

    def at_sources(self, x: Tensor) -> Tensor:
        """Return the row of the source of every edge, [P, k]."""
        return self._at(0, x)

    def at_targets(self, x: Tensor) -> Tensor:
        """Return the row of the target of every edge, [P, k]."""
        return self._at(1, x)

    def _at(self, end: int, x: Tensor) -> Tensor:
        # All heads of a node are contiguous: gathering one long row is faster than several short ones.
        return x.reshape(-1, self._heads * x.shape[1]).index_select(0, self._ends[end]).view(-1, x.shape[1])

    def total(self, weight: Tensor) -> Tensor:
        """Return the sum of the weights [P] of the edges to each node, [N]."""
        return weight.new_zeros(self.num_nodes).index_add(0, self.target, weight)


def _sorted_by(key: Tensor, other: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    order = torch.argsort(key, stable=True)
    starts = key.new_zeros(num_nodes + 1)
    torch.cumsum(torch.bincount(key, minlength=num_nodes), 0, out=starts[1:])
    return order, other.index_select(0, order), starts


class _Spread(torch.autograd.Function):
    """Weighted sum over edges. Its gradients are a sum over the reversed edges and a product of two rows per edge."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, routes: Routes) -> Tensor:
        ctx.routes = routes
        ctx.save_for_backward(x, weight)
        return _summed(routes.forth(), weight, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        to_x = _summed(ctx.routes.back(), weight, grad) if ctx.needs_input_grad[0] else None
        to_weight = None
        if ctx.needs_input_grad[1]:
            to_weight = (ctx.routes.at_targets(grad) * ctx.routes.at_sources(x)).sum(1)
        return to_x, to_weight, None


def _summed(edges: tuple[Tensor, Tensor, Tensor], weight: Tensor, x: Tensor) -> Tensor:
    order, other, starts = edges
    if len(order) == 0:
        return torch.zeros_like(x)
    weights = weight.index_select(0, order)
    return F.embedding_bag(
        other, x.contiguous(), starts, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


@dataclass
class Messages:
    """Weighted edges; ``messages(x)`` is the product of the weighted adjacency with x [N, k]."""

    routes: Routes
    weight: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        result: Tensor = _Spread.apply(x, self.weight, self.routes)
        return result

    def with_dropout(self, share: float, training: bool) -> Messages:
        """Return the messages with a random share of the edges dropped and the rest scaled up."""
        return Messages(self.routes, drop(self.weight, share, training)) if training and share else self


_routes: Recent[Routes] = Recent()
_messages: Recent[Messages] = Recent()


def routes_of(edge_index: Tensor, num_nodes: int, loops: bool, heads: int = 1) -> Routes:
    """Return the sorted routes of a graph, cached; with ``loops``, one self-loop per node follows the edges.

    With several heads, the routes are those of as many copies of the graph.
    """

    def build() -> Routes:
        source, target = edge_index
        if loops:
            nodes = torch.arange(num_nodes)
            source, target = torch.cat([source, nodes]), torch.cat([target, nodes])
        return Routes(source.contiguous(), target.contiguous(), num_nodes, heads)

    return _routes.get((edge_index,), (num_nodes, loops, heads), build)


def with_loop_weights(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
    """Return the weights of all edges (default ones), followed by those of the self-loops."""
    if edge_weight is None:
        return torch.ones(edge_index.shape[1] + num_nodes)
    return torch.cat([edge_weight, edge_weight.new_ones(num_nodes)])


def normalized(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, loops: bool = True) -> Messages:
    r"""Return the normalised adjacency of GCN, :math:`D^{-1/2} (A + I) D^{-1/2}`; without ``loops``, that of A."""

    def build() -> Messages:
        routes = routes_of(edge_index, num_nodes, loops)
        weight = _weights(edge_index, edge_weight, num_nodes, loops)
        scale = _power(routes.total(weight), -0.5)
        return Messages(routes, weight * scale.index_select(0, routes.source) * scale.index_select(0, routes.target))

    return _remembered("normalized", edge_index, edge_weight, num_nodes, loops, build)


def averaged(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Messages:
    """Return the messages that compute the weighted mean over neighbours; zero for a node without any."""

    def build() -> Messages:
        routes = routes_of(edge_index, num_nodes, False)
        weight = _weights(edge_index, edge_weight, num_nodes, False)
        return Messages(routes, weight * _power(routes.total(weight), -1.0).index_select(0, routes.target))

    return _remembered("averaged", edge_index, edge_weight, num_nodes, False, build)


def _weights(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, loops: bool) -> Tensor:
    if loops:
        return with_loop_weights(edge_index, edge_weight, num_nodes)
    return torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight


def _power(totals: Tensor, power: float) -> Tensor:
    # The power is infinite for a node without edges, and its gradient would be NaN even if it were masked afterwards.
    some = totals > 0
    return torch.where(some, torch.where(some, totals, 1.0) ** power, 0.0)


def _remembered(
    kind: str,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    loops: bool,
    build: Callable[[], Messages],
) -> Messages:
    if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
        return build()
    return _messages.get((edge_index, edge_weight), (kind, num_nodes, loops), build)
