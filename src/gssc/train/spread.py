"""Label spreading over a graph: no gradient updates; alpha is selected by the validation score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gssc.config import RivalConfig
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.features import FeatureTable
from gssc.graph import Graph
from gssc.models.registry import model_entry
from gssc.sparsify.registry import sparsifier_class
from gssc.train.checkpoint import State
from gssc.train.process import computing
from gssc.train.registry import training_way
from gssc.train.training import Judge, NeedsGraph, Outcome, Step, Training, scored, training_labels


class SpreadTraining(Training):
    """Spreads training labels with several alphas on the training view, and with the best one on the whole graph.

    Each alpha is one step. Alpha is selected on the edges that the sparsifier samples; prediction uses the edges of
    its ``settle``. In the inductive setting test nodes are added after alpha is selected; in cold-start they have no
    edges, and get the class frequencies of the training labels.

    Args:
        graph: the problem, with one class per node.
        config: all settings. ``config.model.alpha``, unless 0, is used without selection.
    """

    config: RivalConfig
    counters = (*Training.counters, "alpha")

    def __init__(self, graph: Graph, config: RivalConfig):
        super().__init__(graph, config)
        settings = config.sparsifier
        training_way(config.model.name, settings.name)  # raises for a sparsifier that has to be trained
        if not self.task.has_classes:
            raise GsscError(f"{config.model.name} spreads one class per node; {graph.name} has multi-label targets")
        self.kind = model_entry(config.model.name).load()
        self.arguments = config.model.arguments()
        fixed = self.arguments.pop("alpha")
        usual, rest = self.kind().alpha, self.kind.alphas if len(graph.val) else ()
        # Ties are broken in favour of the first alpha.
        self.alphas = (fixed,) if fixed else (usual, *(alpha for alpha in rest if alpha != usual))
        self.alpha = self.alphas[0]  # of the latest step
        with computing(config.train.threads), torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            table = FeatureTable(self.seen.features, config.train.normalize)
            self.rows, self.scaling = table.all(), table.scaling
            edges = torch.from_numpy(self.seen.edges)
            self.sparsifier = sparsifier_class(settings.name)(self.rows, edges, settings, self.rng)
            self.sampled = self.sparsifier.sample(self.rng).detach()
        weighed = self.sparsifier.edges.numpy()
        parts = self.seen.train, self.seen.val, self.seen.test
        self.judge = Judge(self.task, self.seen.labels, weighed, *parts, logits=False)

    def steps(self) -> Iterator[Step]:
        """Yield one step per alpha."""
        matrix = adjacency(self.sparsifier.edges, self.sampled, self.seen.num_nodes)
        known, kept = training_labels(self.seen).numpy(), np.flatnonzero(self.sampled.numpy() > 0)
        for alpha in self.alphas[self.epoch :]:
            self.alpha = alpha
            scores = self.kind(alpha=self.alpha, **self.arguments).scores(matrix, known, self.task.width)
            yield Step("spread", torch.from_numpy(scores), kept)

    def components(self) -> dict[str, Any]:
        """Return no components: the counters are the whole state."""
        return {}

    def kept_weights(self) -> State:
        """Return the alpha of the latest step."""
        return {"alpha": self.alpha}

    def restore_best(self, weights: State) -> None:
        """Set the kept alpha."""
        self.alpha = weights["alpha"]

    def outcome(self) -> Outcome:
        """Return the result of spreading with the selected alpha over the whole graph, in its setting."""
        graph, seen = self.graph, self.seen
        edges, weights = self.sparsifier.settle(self.rows, torch.from_numpy(seen.edges), torch.arange(seen.num_nodes))
        everywhere = adjacency(edges, weights, seen.num_nodes)
        if graph.setting != "transductive":
            rows = FeatureTable(graph.features, self.scaling).all()
            joined = torch.from_numpy(graph.evaluation_edges())
            whole = self.sparsifier.settle(rows, joined, torch.from_numpy(self.seen_nodes))
            everywhere = adjacency(*whole, graph.num_nodes)
        known = training_labels(graph).numpy()
        scores = self.kind(alpha=self.alpha, **self.arguments).scores(everywhere, known, self.task.width)
        return Outcome(
            kept=scored(self.kept(), self.task, graph, scores),
            scores=scores,
            seconds=self.seconds,
            epochs=0,
            edges_kept=int((weights > 0).sum()),
            edges_total=seen.num_edges,
        )

    def deployed(self) -> DeployedModel:
        """Raise NeedsGraph: there is no model without the graph."""
        raise NeedsGraph("label_spreading consists of labels and edges only: it cannot be deployed without the graph")

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the sparsifier and the keep probability of each, which is one without a sparsifier."""
        return self.seen_nodes[self.sparsifier.edges.numpy()], self.sparsifier.keep_probability().numpy()


def adjacency(edges: Tensor, weights: Tensor, num_nodes: int) -> sp.csr_matrix:
    """Return the symmetric matrix of undirected edges [2, E], without entries for edges of weight zero."""
    source, target = edges[:, weights > 0].numpy()
    values = weights[weights > 0].numpy().astype(np.float64)
    shape = (num_nodes, num_nodes)
    one_way = sp.coo_matrix((values, (source, target)), shape=shape)
    return (one_way + one_way.T).tocsr()
