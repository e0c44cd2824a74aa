"""Pairs of nodes exactly two steps apart, for models that use two-hop neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.errors import GsscError

MOST_PATHS = 300_000_000  # at worst one pair per path, about 10 GB; Squirrel has 16 million paths


def two_hop_pairs(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the pairs at distance two in both directions, [2, Q], and their weights, [Q].

    The weight of a pair is the mean, over its two-step paths, of the product of the two edge weights: one if all
    weights are one. Edges of weight zero are treated as absent.
    """
    present = slice(None) if edge_weight is None else edge_weight.detach() > 0
    source, target = (end[present].numpy().copy() for end in edge_index)
    steps = sp.csr_matrix((np.ones(len(source), np.float32), (target, source)), (num_nodes, num_nodes))
    count = int((np.diff(steps.indptr).astype(np.float64) ** 2).sum())
    if count > MOST_PATHS:
        raise GsscError(
            f"the graph has {count:,} paths of two steps, and pairs two steps apart are kept in memory: at most "
            f"{MOST_PATHS:,} are allowed; use a model of direct neighbours only, or drop edges of the largest hubs"
        )
    paths = steps @ steps
    paths = paths - paths.multiply(steps)
    paths = sp.csr_matrix(paths - sp.diags(paths.diagonal()))
    paths.eliminate_zeros()
    paths.sort_indices()
    ends = np.repeat(np.arange(num_nodes), np.diff(paths.indptr))
    pairs = torch.from_numpy(np.stack([paths.indices.astype(np.int64), ends]))
    if edge_weight is None:
        return pairs, torch.ones(paths.nnz)
    return pairs, _MeanPath.apply(edge_weight[present], steps, source, target, paths)


class _MeanPath(torch.autograd.Function):
    """Mean weight of the paths of each pair; two sparse products in each of the forward and backward passes."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, steps: sp.csr_matrix, source: np.ndarray, target: np.ndarray, paths: sp.csr_matrix
    ) -> Tensor:
        weighted = sp.csr_matrix((weight.detach().numpy(), (target, source)), steps.shape)
        ctx.weighted, ctx.ends, ctx.paths = weighted, (target, source), paths
        inverse = sp.csr_matrix((1 / paths.data, paths.indices, paths.indptr), paths.shape)
        means = sp.csr_matrix((weighted @ weighted).multiply(inverse))
        means.sort_indices()
        return torch.from_numpy(means.data).to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        paths, weighted = ctx.paths, ctx.weighted
        shared = sp.csr_matrix((grad.numpy() / paths.data, paths.indices, paths.indptr), paths.shape)
        both = shared @ weighted.T + weighted.T @ shared  # an edge may be the first or the second step of a path
        to_weight = np.asarray(both.tocsr()[ctx.ends]).reshape(-1)
        return torch.from_numpy(to_weight).to(grad.dtype), None, None, None, None
