"""Full-batch training on labelled nodes: the loop of the models that GSSC is compared with."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.evaluate.metrics import accuracy
from gssc.features import FeatureTable
from gssc.graph import Graph


def both_directions(edges: np.ndarray) -> Tensor:
    """Undirected edges [2, E] as the directed ones [2, 2E] message passing wants."""
    return torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))


def fit_supervised(
    graph: Graph,
    build: Callable[[int, int], nn.Module],
    *,
    epochs: int = 300,
    patience: int = 100,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    normalize: str = "row",
    seed: int = 0,
) -> tuple[nn.Module, float]:
    """Train ``build(inputs, classes)`` by cross entropy; keep the best validation epoch. Returns it and the seconds."""
    torch.manual_seed(seed)
    rows = FeatureTable(graph.features, normalize).all()
    edge_index = both_directions(graph.edges)
    labels, train = torch.from_numpy(graph.labels), torch.from_numpy(graph.train)
    model = build(graph.num_features, graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    best, best_weights, since = -1.0, copy.deepcopy(model.state_dict()), 0
    started = time.perf_counter()
    for _ in range(epochs):
        model.train()
        loss = F.cross_entropy(model(rows, edge_index)[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(rows, edge_index).numpy()
        score = accuracy(scores[graph.val], graph.labels[graph.val])
        since += 1
        if score > best or len(graph.val) == 0:
            best, best_weights, since = score, copy.deepcopy(model.state_dict()), 0
        if since >= patience:
            break
    model.load_state_dict(best_weights)
    return model, time.perf_counter() - started
