"""Full-batch training on labelled nodes: the loop of the models that GSSC is compared with, with any sparsifier."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gssc.config import RivalConfig
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.features import FeatureTable, Rows
from gssc.graph import Graph
from gssc.models.base import NodeModel, TrainingGraph
from gssc.models.registry import model_entry
from gssc.sparsify.base import WEIGHT_DECAY
from gssc.sparsify.registry import sparsifier_class
from gssc.train import losses
from gssc.train.checkpoint import State, module_state
from gssc.train.optimize import adam, descend
from gssc.train.process import computing
from gssc.train.registry import training_way
from gssc.train.training import Judge, NeedsGraph, Outcome, Step, Training, deployed_mlp, scored


class SupervisedTraining(Training):
    """One training of one model with one sparsifier.

    Args:
        graph: the problem. Training uses only :meth:`~gssc.graph.Graph.training_view` of it.
        config: all settings; ``config.model.name`` is the model, see :mod:`gssc.models.registry`.
    """

    config: RivalConfig

    def __init__(self, graph: Graph, config: RivalConfig):
        super().__init__(graph, config)
        self.name, self.sparsifier_settings = config.model.name, config.sparsifier
        self.way = training_way(self.name, self.sparsifier_settings.name)
        kind: type[NodeModel] = model_entry(self.name).load()
        if not self.task.has_classes and kind.losses is not NodeModel.losses:
            raise GsscError(f"{self.name} is trained on one class per node; {graph.name} has multi-label targets")
        with computing(config.train.threads):
            self._build(kind)

    def _build(self, kind: type[NodeModel]) -> None:
        graph, config, seen = self.graph, self.config, self.seen
        table = FeatureTable(seen.features, config.train.normalize)
        if config.train.normalize == "auto" and table.scaling.normalize == "row":
            # Rows divided by their sums are so short that decay outweighs their gradient if there are many classes.
            table = FeatureTable(seen.features, table.scaling.lengthened(table.features))
        self.rows, self.scaling = table.all(), table.scaling
        self.edges = torch.from_numpy(seen.edges)
        self.labels, self.train = torch.from_numpy(seen.labels), torch.from_numpy(seen.train)
        if not self.task.has_classes:
            self.labels = self.labels.float()
        val, self.held_out = self._validation_nodes(seen.val)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            self.model = kind(graph.num_features, graph.num_classes, **config.model.arguments())
            started = time.perf_counter()
            self.sparsifier = sparsifier_class(self.sparsifier_settings.name)(
                self.rows, self.edges, self.sparsifier_settings, self.rng
            )
            self.seconds += time.perf_counter() - started
            self.torch_state = torch.get_rng_state()
        groups = self.model.parameter_groups(config.train.weight_decay)
        self.optimizer = torch.optim.Adam(groups, lr=config.train.lr, fused=True)
        learned = list(self.sparsifier.parameters())
        self.sparsifier_optimizer = adam(learned, self.sparsifier_settings.lr, WEIGHT_DECAY) if learned else None
        self.judged_sparsifier: State = {}  # its weights when the scores of the latest epoch were computed
        self.every_edge = both_directions(self.sparsifier.edges)
        self._settled: tuple[Tensor, Tensor | None] | None = None
        self.judge = Judge(self.task, seen.labels, self.sparsifier.edges.numpy(), seen.train, val, seen.test)

    def _validation_nodes(self, val: np.ndarray) -> tuple[np.ndarray, Tensor]:
        """Return the nodes that select the epoch, and those for a sparsifier that learns from held-out labels."""
        if self.way != "validation":
            return val, torch.empty(0, dtype=torch.int64)
        if len(val) < 2:
            raise GsscError(
                f"{self.sparsifier_settings.name} learns from half of the validation labels and {self.graph.name} has "
                f"{len(val)}: give it a validation set or use another sparsifier"
            )
        shuffled = self.rng.permutation(val)
        return np.sort(shuffled[::2]), torch.from_numpy(np.sort(shuffled[1::2]))

    # The loop ---------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """Update the model on a sampled subgraph, then the sparsifier, from the current state."""
        if self.epoch == 0:
            with self._own_random_numbers():
                self.sparsifier.pretrain(self.sparsifier_optimizer)
        while self.epoch < self.config.train.epochs and not self.best.patience_is_over():
            with self._own_random_numbers():
                weights = self.sample_subgraph()
                loss, gradient = self.update_model(weights)
                scores = self.predict(self.rows, self.edges)
                self.judged_sparsifier = module_state(self.sparsifier)
                self.update_sparsifier(weights, gradient, scores)
            yield Step(
                "supervised", scores, np.flatnonzero(weights.detach().numpy() > 0), {"classification_loss": loss}
            )

    @contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        """Use this training's own state of torch's random generator within the context."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.torch_state)
            yield
            self.torch_state = torch.get_rng_state()

    def sample_subgraph(self) -> Tensor:
        """Return a weight for every edge of the sparsifier; all ones in the warm-up of a homophily objective."""
        if self.way == "homophily" and self.epoch < self.config.train.warmup_epochs:
            return torch.ones(self.sparsifier.edges.shape[1])
        return self.sparsifier.sample(self.rng)

    def update_model(self, weights: Tensor) -> tuple[float, Tensor]:
        """Take the steps of one epoch; return the mean loss and its gradient with respect to the edge weights."""
        self.model.train()
        leaf = weights.detach().requires_grad_(self.way == "loss")
        graph = TrainingGraph(self.rows, *self.messages(leaf), self.labels, self.train, self.task)
        steps, total = 0, 0.0
        for loss in self.model.losses(graph, self.rng):
            # The weights are a leaf, so that several steps per epoch can share one sample of the subgraph.
            descend(loss, self.optimizer)
            steps, total = steps + 1, total + loss.item()
        return total / max(steps, 1), leaf.grad / steps if leaf.grad is not None else torch.zeros_like(weights)

    def update_sparsifier(self, weights: Tensor, gradient: Tensor, scores: Tensor) -> None:
        """Take one step of psi, by the objective of this sparsifier under this model."""
        if self.way is None or self.sparsifier_optimizer is None or not weights.requires_grad:
            return
        if self.way == "homophily":
            agreement = self.task.agreement(scores, *self.sparsifier.edges)
            loss = losses.sparsifier_loss(self.sparsifier_settings.objective, weights, agreement)
        elif self.way == "validation":
            edge_index, edge_weight = self.messages(weights)
            logits = self.model(self.rows, edge_index, edge_weight)
            loss = self.task.loss(logits[self.held_out], self.labels[self.held_out])
        else:
            loss = (weights * gradient).sum()  # its gradient with respect to psi is that of the classifier's loss
        own = self.sparsifier.own_loss()
        descend(loss if own is None else loss + own, self.sparsifier_optimizer)

    def messages(self, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return directed edges and their weights; dropped edges are left out if no gradient is needed."""
        if weights.requires_grad:
            return self.every_edge, weights.repeat(2)
        kept = weights > 0
        if kept.all():
            return self.every_edge, None
        return both_directions(self.sparsifier.edges[:, kept]), None

    @torch.no_grad()
    def predict(self, rows: Rows, edges: Tensor) -> Tensor:
        """Return the logits of every node of a graph, [N, C]."""
        self.model.eval()
        if not self.model.passes_messages:
            return self.model(rows, self.every_edge, None)
        return self.model(rows, *self.settled(rows, edges))

    def settled(self, rows: Rows, edges: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return directed edges and weights for prediction; computed once if the sparsifier does not change."""
        if not self.sparsifier.trains and rows is self.rows and self._settled is not None:
            return self._settled
        names = torch.from_numpy(self.seen_nodes) if rows is not self.rows else torch.arange(len(self.seen_nodes))
        trusted, weights = self.sparsifier.settle(rows, edges, names)
        kept = weights > 0
        edge_index = both_directions(trusted[:, kept])
        weights = weights[kept]
        found = (edge_index, None if bool((weights == 1).all()) else weights.repeat(2))
        if rows is self.rows:
            self._settled = found
        return found

    # State and result -------------------------------------------------------------------------------------------

    counters = (*Training.counters, "torch_state")

    def components(self) -> dict[str, Any]:
        """Return every part that changes in training."""
        parts = {"model": self.model, "sparsifier": self.sparsifier, "optimizer": self.optimizer}
        return {**parts, **({"sparsifier_optimizer": self.sparsifier_optimizer} if self.sparsifier_optimizer else {})}

    def kept_weights(self) -> State:
        """Return the weights of the model, and of the sparsifier at the time the model was scored."""
        return {"model": self.model.state_dict(), "sparsifier": self.judged_sparsifier}

    def restore_best(self, weights: State) -> None:
        """Load the kept weights."""
        self.model.load_state_dict(weights["model"])
        self.sparsifier.load_state_dict(weights["sparsifier"])

    def outcome(self) -> Outcome:
        """Return the result: scores of every node in the graph's setting, by the kept weights."""
        graph = self.graph
        if graph.setting == "transductive":
            rows, edges = self.rows, self.edges
        else:
            rows = FeatureTable(graph.features, self.scaling).all()
            edges = torch.from_numpy(graph.evaluation_edges())
        scores = self.predict(rows, edges).numpy()
        with torch.no_grad():
            trusted = self.sparsifier.settle(self.rows, self.edges, torch.arange(len(self.seen_nodes)))[1]
        return Outcome(
            kept=scored(self.kept(), self.task, graph, scores),
            scores=scores,
            seconds=self.seconds,
            epochs=self.epoch,
            edges_kept=int((trusted > 0).sum()),
            edges_total=self.edges.shape[1],
        )

    def deployed(self) -> DeployedModel:
        """Return the model as a plain MLP. Raises NeedsGraph if it is not one."""
        if self.model.passes_messages:
            raise NeedsGraph(f"{self.name} passes messages: it needs the graph to predict and cannot be deployed alone")
        layers = self.model.folded_layers()
        if layers is None:
            raise NeedsGraph(f"{self.name} needs no graph to predict, but it cannot be written as a plain MLP")
        return deployed_mlp(self.graph, layers, self.model.activation, self.scaling)

    @torch.no_grad()
    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the sparsifier and the keep probability of each, which is one without a sparsifier."""
        return self.seen_nodes[self.sparsifier.edges.numpy()], self.sparsifier.keep_probability().numpy()


def both_directions(edges: Tensor) -> Tensor:
    """Return undirected edges [2, E] as directed ones [2, 2E] for message passing."""
    return torch.cat([edges, edges.flip(0)], dim=1)
