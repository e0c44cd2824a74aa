"""Label spreading over a graph: no epochs, one choice (alpha) made by validation accuracy."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.config import SparsifierConfig
from gssc.errors import GsscError
from gssc.evaluate.metrics import accuracy
from gssc.features import FeatureTable
from gssc.graph import Graph
from gssc.models.base import Recipe
from gssc.models.registry import model_entry
from gssc.sparsify.registry import sparsifier_class
from gssc.train.outcome import Outcome
from gssc.train.pairing import training_way
from gssc.train.supervised import OnEpoch


def fit_model(
    name: str,
    graph: Graph,
    sparsifier: SparsifierConfig | None = None,
    seed: int = 0,
    recipe: Recipe | None = None,
    on_epoch: OnEpoch | None = None,
    max_epochs: int = 0,
) -> Outcome:
    """Spread training labels with several alphas on what training may see, and with the best one on the whole graph.

    Args:
        name: of the model, see :mod:`gssc.models.registry`.
        graph: the problem. In the inductive setting test nodes join once alpha is chosen; in cold-start they have no
            edges, and get the shares of the classes among the training labels.
        sparsifier: settings of a sparsifier that needs no training; none if left out. Alpha is chosen on the edges it
            samples, prediction uses those it settles on.
        seed: of the sparsifier; spreading itself leaves nothing to chance.
        recipe: its ``model`` may hold ``alpha``, which is then not chosen.
        on_epoch, max_epochs: without effect, as there are no epochs.
    """
    settings = sparsifier or SparsifierConfig(name="none")
    training_way(name, settings.name)  # refuses a sparsifier that would have to learn
    if graph.is_multilabel:
        raise GsscError(f"{name} spreads one class a node; {graph.name} has multi-label targets")
    kind = model_entry(name).load()
    arguments = dict((recipe or kind.recipe).model)
    chosen = arguments.pop("alpha", None)
    alphas = kind.alphas if chosen is None else (chosen,)
    seen, seen_nodes = graph.training_view()
    rng = np.random.Generator(np.random.SFC64(seed))

    started = time.perf_counter()
    rows = FeatureTable(seen.features, "row").all()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        edges = torch.from_numpy(seen.edges)
        picker = sparsifier_class(settings.name)(rows, edges, settings, rng)
        sampled = adjacency(picker.edges, picker.sample(rng).detach(), seen.num_nodes)
        trusted, kept = picker.settle(rows, edges, torch.arange(seen.num_nodes))
        everywhere = adjacency(trusted, kept, seen.num_nodes)
        if graph.setting != "transductive":
            table = FeatureTable(graph.features, "row")
            whole = picker.settle(table.all(), torch.from_numpy(graph.evaluation_edges()), torch.from_numpy(seen_nodes))
            everywhere = adjacency(*whole, graph.num_nodes)

    known = training_labels(seen)
    found = {alpha: kind(alpha=alpha, **arguments).scores(sampled, known, graph.num_classes) for alpha in alphas}
    merits = {alpha: accuracy(scores[seen.val], seen.labels[seen.val]) for alpha, scores in found.items()}
    best = max(alphas, key=lambda alpha: (np.nan_to_num(merits[alpha]), alpha == kind().alpha))
    scores = kind(alpha=best, **arguments).scores(everywhere, training_labels(graph), graph.num_classes)
    return Outcome(
        scores=scores,
        val_accuracy=merits[best],
        test_accuracy=accuracy(scores[graph.test], graph.labels[graph.test]),
        seconds=time.perf_counter() - started,
        epochs=0,
        edges_kept=int((kept > 0).sum()),
        edges_total=seen.num_edges,
    )


def settings_of(name: str, dataset: str, split: str, sparsifier: SparsifierConfig, seed: int) -> dict[str, Any]:
    """Everything but data and code that determines the result, as plain values."""
    return {"alphas": model_entry(name).load().alphas, "sparsifier": asdict(sparsifier), "seed": seed}


def training_labels(graph: Graph) -> np.ndarray:
    """Labels of training nodes, -1 everywhere else."""
    known = np.full(graph.num_nodes, -1)
    known[graph.train] = graph.labels[graph.train]
    return known


def adjacency(edges: Tensor, weights: Tensor, num_nodes: int) -> sp.csr_matrix:
    """The symmetric matrix of undirected edges [2, E]; edges of weight zero leave no entry."""
    source, target = edges[:, weights > 0].numpy()
    values = weights[weights > 0].numpy().astype(np.float64)
    shape = (num_nodes, num_nodes)
    one_way = sp.coo_matrix((values, (source, target)), shape=shape)
    return (one_way + one_way.T).tocsr()
