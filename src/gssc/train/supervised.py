"""Full-batch training on labelled nodes: the loop of the models that GSSC is compared with, under any sparsifier."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gssc.config import SparsifierConfig
from gssc.errors import GsscError
from gssc.evaluate.metrics import accuracy, log_loss
from gssc.features import FeatureTable, Rows
from gssc.graph import Graph
from gssc.models.base import NodeModel, Recipe, TrainingGraph
from gssc.models.registry import model_entry
from gssc.sparsify.registry import sparsifier_class
from gssc.train.checkpoint import module_state
from gssc.train.losses import pseudo_label_agreement
from gssc.train.memory import reuse_freed_memory
from gssc.train.optimize import adam, descend
from gssc.train.outcome import Outcome
from gssc.train.pairing import training_way
from gssc.train.psi import homophily_loss
from gssc.train.selection import BestEpoch, Epoch

OnEpoch = Callable[[Epoch], None]


def fit_model(
    name: str,
    graph: Graph,
    sparsifier: SparsifierConfig | None = None,
    seed: int = 0,
    recipe: Recipe | None = None,
    on_epoch: OnEpoch | None = None,
    max_epochs: int = 0,
) -> Outcome:
    """Train a model of the registry by its own paper's settings, or by ``recipe``; 0 epochs are as many as it says."""
    recipe = (recipe or recipe_for(name, graph.name, graph.split)).at_most(max_epochs)
    return SupervisedTraining(name, graph, sparsifier, seed, recipe).fit(on_epoch)


class SupervisedTraining:
    """One training of one model under one sparsifier.

    Args:
        name: of the model, see :mod:`gssc.models.registry`.
        graph: the problem. Training sees only :meth:`~gssc.graph.Graph.training_view` of it.
        sparsifier: settings of the sparsifier; none if left out.
        seed: every random choice follows from it.
        recipe: settings of the model; those of its own paper if left out.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        sparsifier: SparsifierConfig | None = None,
        seed: int = 0,
        recipe: Recipe | None = None,
    ):
        settings = sparsifier or SparsifierConfig(name="none")
        if graph.is_multilabel:
            raise GsscError(f"{name} is trained on one class a node here; {graph.name} has multi-label targets")
        self.graph, self.seed, self.settings = graph, seed, settings
        self.way = training_way(name, settings.name)
        kind: type[NodeModel] = model_entry(name).load()
        self.recipe = recipe or recipe_for(name, graph.name, graph.split)
        self.rng = np.random.Generator(np.random.SFC64(seed))
        reuse_freed_memory()

        seen, seen_nodes = graph.training_view()
        self.seen_nodes = torch.from_numpy(seen_nodes)
        self.rows = FeatureTable(seen.features, self.recipe.normalize).all()
        self.edges = torch.from_numpy(seen.edges)
        self.labels, self.train = torch.from_numpy(seen.labels), torch.from_numpy(seen.train)
        self.val, self.held_out = self._validation_nodes(seen.val)

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = kind(graph.num_features, graph.num_classes, **self.recipe.model)
            started = time.perf_counter()
            self.sparsifier = sparsifier_class(settings.name)(self.rows, self.edges, settings, self.rng)
            self.preparing = time.perf_counter() - started
            self.torch_rng = torch.get_rng_state()
        groups = self.model.parameter_groups(self.recipe.weight_decay)
        self.optimizer = torch.optim.Adam(groups, lr=self.recipe.lr, fused=True)
        learned = list(self.sparsifier.parameters())
        self.sparsifier_optimizer = adam(learned, settings) if learned else None
        self.every_edge = both_directions(self.sparsifier.edges)
        self._settled: tuple[Tensor, Tensor | None] | None = None
        self.best = BestEpoch(self.recipe.select, self.recipe.patience, validation=len(self.val) > 0)

    def _validation_nodes(self, val: np.ndarray) -> tuple[np.ndarray, Tensor]:
        """Nodes that choose the epoch, and those a sparsifier learns from if it learns from held-out labels."""
        if self.way != "validation":
            return val, torch.empty(0, dtype=torch.int64)
        if len(val) < 2:
            raise GsscError(
                f"{self.settings.name} learns from half of the validation labels and {self.graph.name} has {len(val)}: "
                "give it a validation set or use another sparsifier"
            )
        shuffled = self.rng.permutation(val)
        return np.sort(shuffled[::2]), torch.from_numpy(np.sort(shuffled[1::2]))

    def fit(self, on_epoch: OnEpoch | None = None) -> Outcome:
        """Train to the end and say how it went."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.torch_rng)
            return self._fit(on_epoch)

    def _fit(self, on_epoch: OnEpoch | None) -> Outcome:
        started = time.perf_counter()
        self.sparsifier.pretrain(self.sparsifier_optimizer)
        epoch = -1
        for epoch in range(self.recipe.epochs):
            weights = self.sample_subgraph(epoch)
            gradient = self.update_model(weights)
            scores = self.predict(self.rows, self.edges)
            record = self.judge(epoch, scores)  # before the sparsifier moves on: what is kept is what was judged
            self.update_sparsifier(epoch, weights, gradient, scores)
            record.seconds = time.perf_counter() - started
            if on_epoch:
                on_epoch(record)
            if self.best.patience_is_over():
                break
        seconds = self.preparing + time.perf_counter() - started
        return self.outcome(seconds, epoch + 1)

    def sample_subgraph(self, epoch: int) -> Tensor:
        """A weight for every edge of the sparsifier; the full graph while a homophily objective has no guide yet."""
        if self.way == "homophily" and epoch < self.recipe.warmup:
            return torch.ones(self.sparsifier.edges.shape[1])
        return self.sparsifier.sample(self.rng)

    def update_model(self, weights: Tensor) -> Tensor:
        """The steps of one epoch; returns the mean gradient of the losses by the edge weights."""
        self.model.train()
        leaf = weights.detach().requires_grad_(self.way == "loss")
        graph = TrainingGraph(self.rows, *self.messages(leaf), self.labels, self.train)
        steps = 0
        for loss in self.model.losses(graph, self.rng):
            # The weights are a leaf, so that several steps an epoch can share one sample of the subgraph.
            descend(loss, self.optimizer)
            steps += 1
        return leaf.grad / steps if leaf.grad is not None else torch.zeros_like(weights)

    def update_sparsifier(self, epoch: int, weights: Tensor, gradient: Tensor, scores: Tensor) -> None:
        """One step of psi, by whatever this sparsifier follows under this model."""
        if self.way is None or self.sparsifier_optimizer is None or not weights.requires_grad:
            return
        if self.way == "homophily":
            first, second = self.sparsifier.edges
            agreement = pseudo_label_agreement(scores, first, second, multilabel=False)
            loss = homophily_loss(self.settings.objective, weights, agreement)
        elif self.way == "validation":
            edge_index, edge_weight = self.messages(weights)
            logits = self.model(self.rows, edge_index, edge_weight)
            loss = torch.nn.functional.cross_entropy(logits[self.held_out], self.labels[self.held_out])
        else:
            loss = (weights * gradient).sum()  # its gradient by psi is that of the classifier's loss
        own = self.sparsifier.own_loss()
        descend(loss if own is None else loss + own, self.sparsifier_optimizer)

    def messages(self, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """Directed edges and their weights; dropped edges are left out where no gradient is asked for."""
        if weights.requires_grad:
            return self.every_edge, weights.repeat(2)
        kept = weights > 0
        if kept.all():
            return self.every_edge, None
        return both_directions(self.sparsifier.edges[:, kept]), None

    @torch.no_grad()
    def predict(self, rows: Rows, edges: Tensor) -> Tensor:
        """Logits of every node of a graph, [N, C]."""
        self.model.eval()
        if not self.model.passes_messages:
            return self.model(rows, self.every_edge, None)
        return self.model(rows, *self.settled(rows, edges))

    def settled(self, rows: Rows, edges: Tensor) -> tuple[Tensor, Tensor | None]:
        """Directed edges and weights for prediction; worked out once where the sparsifier does not change."""
        if not self.sparsifier.trains and rows is self.rows and self._settled is not None:
            return self._settled
        names = self.seen_nodes if rows is not self.rows else torch.arange(len(self.seen_nodes))
        trusted, weights = self.sparsifier.settle(rows, edges, names)
        kept = weights > 0
        edge_index = both_directions(trusted[:, kept])
        weights = weights[kept]
        found = (edge_index, None if bool((weights == 1).all()) else weights.repeat(2))
        if rows is self.rows:
            self._settled = found
        return found

    def judge(self, epoch: int, scores: Tensor) -> Epoch:
        """Keep the weights if this epoch is the one to keep."""
        chosen, labels = scores[torch.from_numpy(self.val)].numpy(), self.labels.numpy()[self.val]
        record = Epoch(
            epoch=epoch,
            phase="supervised",
            val_accuracy=accuracy(chosen, labels),
            val_loss=log_loss(chosen, labels),
            edges_kept=self.every_edge.shape[1],
        )
        if self.best.judge(record):
            self.best.weights = {"model": module_state(self.model), "sparsifier": module_state(self.sparsifier)}
        return record

    def outcome(self, seconds: float, epochs: int) -> Outcome:
        """Put the best epoch back and ask it about every node, in the graph's setting."""
        graph, best = self.graph, self.best.record
        assert best is not None
        self.model.load_state_dict(self.best.weights["model"])
        self.sparsifier.load_state_dict(self.best.weights.get("sparsifier", {}))
        if graph.setting == "transductive":
            rows, edges = self.rows, self.edges
        else:
            rows = FeatureTable(graph.features, self.recipe.normalize).all()
            edges = torch.from_numpy(graph.evaluation_edges())
        scores = self.predict(rows, edges).numpy()
        with torch.no_grad():
            trusted = self.sparsifier.settle(self.rows, self.edges, torch.arange(len(self.seen_nodes)))[1]
        return Outcome(
            scores=scores,
            val_accuracy=best.val_accuracy,
            test_accuracy=accuracy(scores[graph.test], graph.labels[graph.test]),
            seconds=seconds,
            epochs=epochs,
            edges_kept=int((trusted > 0).sum()),
            edges_total=self.edges.shape[1],
        )


def both_directions(edges: Tensor) -> Tensor:
    """Undirected edges [2, E] as the directed ones [2, 2E] message passing wants."""
    return torch.cat([edges, edges.flip(0)], dim=1)


def recipe_for(name: str, dataset: str, split: str) -> Recipe:
    """The settings of a model's own paper for this data set and kind of split."""
    kind: type[NodeModel] = model_entry(name).load()
    for key in (f"{dataset}/{split_family(split)}", dataset):
        if key in kind.recipes:
            return kind.recipes[key]
    return kind.recipe


def split_family(split: str) -> str:
    """What kind of split this is: ``fixed-3`` is one of ``fixed``."""
    return re.sub(r"-\d+$", "", split)


def settings_of(name: str, dataset: str, split: str, sparsifier: SparsifierConfig, seed: int) -> dict[str, Any]:
    """Everything but data and code that determines the result, as plain values."""
    return {"recipe": asdict(recipe_for(name, dataset, split)), "sparsifier": asdict(sparsifier), "seed": seed}
