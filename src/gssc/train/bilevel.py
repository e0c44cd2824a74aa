"""Algorithm 1: alternate between the classifier on a sampled subgraph and the sparsifier on its homophily."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gssc.config import Config, SparsifierConfig, TrainConfig
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.evaluate.metrics import edge_homophily, log_loss, quality
from gssc.features import FeatureTable
from gssc.graph import Graph
from gssc.models.str_contrast import STRContrast
from gssc.sparsify.str_sparse import STRSparse, sample_edges
from gssc.train import losses
from gssc.train.averaging import AveragedModel
from gssc.train.batches import EdgeBatches
from gssc.train.checkpoint import (
    State,
    module_state,
    optimizer_state,
    restore_optimizer,
    restore_rng,
    rng_state,
)
from gssc.train.memory import reuse_freed_memory
from gssc.train.selection import BestEpoch, Epoch


class BilevelTraining:
    """One run of GSSC on one graph, an epoch at a time.

    Args:
        graph: the problem. Training sees only :meth:`~gssc.graph.Graph.training_view` of it.
        config: all settings.
    """

    def __init__(self, graph: Graph, config: Config):
        config.check()
        self.graph, self.config = graph, config
        if len(graph.train) == 0:
            raise GsscError(
                f"graph {graph.name!r} has no training labels; give some nodes a label and a place in train"
            )
        seen, self.seen_nodes = graph.training_view()
        torch.set_num_threads(config.train.threads)
        reuse_freed_memory()
        self.rng = np.random.Generator(np.random.SFC64(config.train.seed))

        self.all_rows = FeatureTable(graph.features, config.train.normalize)
        self.table = self.all_rows if seen is graph else FeatureTable(seen.features, config.train.normalize)
        self.labels = training_labels(seen)
        self.edges = torch.from_numpy(seen.edges)
        self.pairs = np.concatenate([seen.edges, seen.edges[::-1]], axis=1)  # both directions, [2, P]
        self.batches = EdgeBatches(
            self.table,
            self.labels,
            config.train.batch_size,
            config.objective.negatives,
            config.train.max_batches,
        )

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            self.model = STRContrast(graph.num_features, graph.num_classes, config.model)
            self.sparsifier = STRSparse(graph.num_features, config.sparsifier)
        self.averaged = AveragedModel(self.model, config.train.average)
        self.optimizer = adam(self.model.parameter_groups(config.train.mix_lr), config.train)
        self.sparsifier_optimizer = adam(self.sparsifier.parameters(), config.sparsifier)

        self.epoch = 0
        self.pretrained = False
        self.seconds = 0.0
        self.best = BestEpoch(config.train.select, config.train.patience, validation=len(graph.val) > 0)

    def epochs(self) -> Iterator[Epoch]:
        """Algorithm 1, from wherever this run stands to its end."""
        if not self.pretrained:
            self.pretrain_sparsifier()
        while not self.finished():
            started = time.perf_counter()
            self.set_learning_rate()
            kept, weights = self.sample_subgraph()  # Eq. 5 and 6
            means, pair_losses = self.update_classifier(kept)  # Eq. 13 and 17
            center_loss = self.update_centers()
            logits = self.predict_all()
            agreement, sparsifier_loss = self.update_sparsifier(weights, logits, pair_losses)  # Eq. 16 and 18
            self.seconds += time.perf_counter() - started
            scores = logits.numpy()
            record = Epoch(
                epoch=self.epoch,
                phase="warm-up" if self.warming_up() else "alternate",
                smoothness_loss=means[0],
                classification_loss=means[1],
                center_loss=center_loss,
                sparsifier_loss=sparsifier_loss,
                train_accuracy=self.judge(scores, self.graph.train),
                val_accuracy=self.judge(scores, self.graph.val),
                val_loss=log_loss(scores[self.graph.val], self.graph.labels[self.graph.val]),
                test_accuracy=self.judge(scores, self.graph.test),
                edges_kept=len(kept),
                homophily=edge_homophily(self.graph.labels, self.seen_nodes[self.pairs[:, kept]]),
                pseudo_homophily=float(agreement[kept].mean()) if len(kept) else float("nan"),
                seconds=self.seconds,
            )
            if self.best.judge(record):
                self.best.weights = {
                    "averaged": module_state(self.averaged.model),
                    "sparsifier": module_state(self.sparsifier),
                }
            self.epoch += 1
            if self.epoch == self.config.train.warmup_epochs:
                self.best.epochs_since = 0
            yield record

    def pretrain_sparsifier(self) -> None:
        """Teach the sparsifier to keep every edge, so that it starts from the graph as given."""
        self.pretrained = True
        if self.config.sparsifier.name == "none":
            return
        started = time.perf_counter()
        for _ in range(self.config.sparsifier.pretrain_epochs):
            loss = -self.keep_probability().clamp(min=1e-6).log().mean()
            descend(loss, self.sparsifier_optimizer)
        self.seconds += time.perf_counter() - started

    def sample_subgraph(self) -> tuple[np.ndarray, Tensor | None]:
        """g' of Eq. 6: which pairs to train on, and their weights with gradient; every pair while warming up."""
        if self.warming_up() or self.config.sparsifier.name == "none":
            return np.arange(self.pairs.shape[1]), None
        settings = self.config.sparsifier
        probability = self.keep_probability().repeat(2)
        weights = sample_edges(probability, settings.temperature, settings.noise, self.rng)
        return np.flatnonzero(weights.detach().numpy() > 0.5), weights

    def keep_probability(self) -> Tensor:
        """M of every undirected edge of the training graph, [E]."""
        return self.sparsifier.keep_probability(self.table.all(), self.edges)

    def update_classifier(self, kept: np.ndarray) -> tuple[np.ndarray, Tensor]:
        """One pass over the sampled subgraph; returns the mean losses and l_ij of every pair."""
        objective = self.config.objective
        pairs = self.pairs[:, kept]
        class_weight = None
        if objective.class_weights == "endpoints" and not self.graph.is_multilabel:
            ends = torch.from_numpy(pairs)
            class_weight = losses.endpoint_class_weights(self.labels, ends[0], ends[1], self.graph.num_classes)
        total, count = np.zeros(2), 0
        pair_losses = torch.zeros(self.pairs.shape[1])
        for batch in self.batches.epoch(pairs, self.rng):
            out = self.model(batch, self.rng)
            smoothness = losses.pair_smoothness(
                out.endpoints,
                out.mixed,
                out.negatives,
                objective.negative_weight,
                objective.bounded,
                self.graph.is_multilabel,
            )
            classification = losses.classification(out.endpoints, out.mixed, batch.labels, class_weight)
            descend(objective.smoothness_weight * smoothness.mean() + classification, self.optimizer)
            self.averaged.follow()
            pair_losses[kept[batch.index]] = smoothness.detach()
            total += (smoothness.detach().mean().item(), classification.item())
            count += 1
        return total / max(count, 1), pair_losses

    def update_centers(self) -> float:
        """The released program's extra step: labelled and predicted class centres towards each other."""
        weight, most = self.config.objective.center_weight, self.config.objective.center_nodes
        if weight == 0 or self.graph.is_multilabel:
            return 0.0
        if self.table.shape[0] <= most:
            rows, labels = self.table.all(), self.labels
        else:
            labelled = self.rng.permutation(np.flatnonzero(self.labels.numpy() >= 0))[: most // 2]
            drawn = self.rng.integers(0, self.table.shape[0], most - len(labelled))
            nodes = np.union1d(labelled, drawn)
            rows, labels = self.table.rows(nodes), self.labels[torch.from_numpy(nodes)]
        if len(labels) < 2:
            return 0.0
        loss = weight * losses.class_centers(self.model.node_logits(rows, self.rng), labels)
        descend(loss, self.optimizer)
        return loss.item()

    @torch.no_grad()
    def predict_all(self) -> Tensor:
        """y of every node of the graph, unseen ones included, [N, C]."""
        return torch.cat([self.averaged.model.predict(rows) for rows in self.all_rows.blocks()])

    def update_sparsifier(self, weights: Tensor | None, logits: Tensor, pair_losses: Tensor) -> tuple[Tensor, float]:
        """One step of psi; returns the agreement of every pair's pseudo-labels, and the loss."""
        ends = torch.from_numpy(self.pairs)
        seen = logits[torch.from_numpy(self.seen_nodes)]
        agreement = losses.pseudo_label_agreement(seen, ends[0], ends[1], self.graph.is_multilabel)
        if weights is None:
            return agreement, 0.0
        objective = self.config.sparsifier.objective
        if objective == "share":
            loss = -losses.homophily_share(weights, agreement)
        elif objective == "ratio":
            loss = losses.homophily_ratio(weights, agreement)
        else:
            loss = losses.masked_smoothness(weights, pair_losses)
        descend(loss, self.sparsifier_optimizer)
        return agreement, loss.item()

    # The schedule -----------------------------------------------------------------------------------------------

    def warming_up(self) -> bool:
        """Whether the sparsifier still waits for the classifier to have something to say."""
        return self.epoch < self.config.train.warmup_epochs

    def finished(self) -> bool:
        """Whether the schedule is over; a warm-up that stopped getting better hands over to the next phase."""
        train = self.config.train
        if self.warming_up() and self.best.patience_is_over():
            self.epoch = train.warmup_epochs
            self.best.epochs_since = 0
        if self.epoch >= train.warmup_epochs + train.epochs:
            return True
        return not self.warming_up() and self.best.patience_is_over()

    def set_learning_rate(self) -> None:
        """Cosine decay to a hundredth over the whole schedule, if asked for."""
        train = self.config.train
        factor = 1.0
        if train.schedule == "cosine":
            progress = self.epoch / (train.warmup_epochs + train.epochs)
            factor = 0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2
        self.optimizer.param_groups[0]["lr"] = factor * train.lr

    def judge(self, scores: np.ndarray, nodes: np.ndarray) -> float:
        """Accuracy (ROC-AUC for multi-label targets) on these nodes."""
        return quality(scores[nodes], self.graph.labels[nodes])

    # What comes out ---------------------------------------------------------------------------------------------

    def restore_best(self) -> None:
        """Put the best epoch's weights in place."""
        self.averaged.model.load_state_dict(self.best.weights["averaged"])
        self.sparsifier.load_state_dict(self.best.weights["sparsifier"])

    def deployed(self) -> DeployedModel:
        """The model as it stands, with batch norm folded in, ready to serve."""
        graph = self.graph
        names = graph.class_names or tuple(str(index) for index in range(graph.num_classes))
        return DeployedModel(
            layers=self.averaged.model.folded_layers(),
            class_names=list(names),
            activation=self.config.model.activation,
            normalize=self.config.train.normalize,
            task="multilabel" if graph.is_multilabel else "multiclass",
            feature_names=list(graph.feature_names) if graph.feature_names else None,
        )

    def seen_edges(self) -> np.ndarray:
        """The undirected edges that were trained on, by node ids of the graph, [2, E]."""
        return self.seen_nodes[self.edges.numpy()]

    @torch.no_grad()
    def edge_trust(self) -> np.ndarray:
        """The keep probability of each of :meth:`seen_edges`, [E]; one without a sparsifier."""
        if self.config.sparsifier.name == "none":
            return np.ones(self.edges.shape[1], dtype=np.float32)
        return self.keep_probability().numpy()

    def state(self) -> tuple[State, dict[str, Any]]:
        """Everything needed to go on from here, as tensors and JSON-able notes."""
        tensors = {
            "model": module_state(self.model),
            "averaged": module_state(self.averaged.model),
            "sparsifier": module_state(self.sparsifier),
            "optimizer": optimizer_state(self.optimizer),
            "sparsifier_optimizer": optimizer_state(self.sparsifier_optimizer),
            **{f"best_{group}": named for group, named in self.best.weights.items()},
        }
        notes = {
            "epoch": self.epoch,
            "steps": self.averaged.steps,
            "pretrained": self.pretrained,
            "seconds": self.seconds,
            "epochs_since_best": self.best.epochs_since,
            "best": asdict(self.best.record) if self.best.record else None,
            "rng": rng_state(self.rng),
        }
        return tensors, notes

    def restore(self, tensors: State, notes: dict[str, Any]) -> None:
        """Take up a state of :meth:`state`."""
        self.model.load_state_dict(tensors["model"])
        self.averaged.model.load_state_dict(tensors["averaged"])
        self.averaged.steps = notes["steps"]
        self.sparsifier.load_state_dict(tensors["sparsifier"])
        restore_optimizer(self.optimizer, tensors.get("optimizer", {}))
        restore_optimizer(self.sparsifier_optimizer, tensors.get("sparsifier_optimizer", {}))
        self.best.weights = {name[5:]: named for name, named in tensors.items() if name.startswith("best_")}
        self.best.record = Epoch(**notes["best"]) if notes["best"] else None
        self.best.epochs_since = notes["epochs_since_best"]
        self.epoch, self.pretrained, self.seconds = notes["epoch"], notes["pretrained"], notes["seconds"]
        restore_rng(self.rng, notes["rng"])


def fit(graph: Graph, config: Config | None = None, on_epoch: Callable[[Epoch], None] | None = None) -> BilevelTraining:
    """Train GSSC on a graph and return the finished run with its best weights in place.

    >>> from gssc.data import load_dataset
    >>> config = Config()
    >>> config.train.warmup_epochs = config.train.epochs = config.sparsifier.pretrain_epochs = 2
    >>> run = fit(load_dataset("csbm", nodes=60, degree=4), config)
    >>> run.deployed().predict(run.graph.features).shape
    (60,)
    """
    training = BilevelTraining(graph, config or Config())
    for record in training.epochs():
        if on_epoch:
            on_epoch(record)
    training.restore_best()
    return training


def training_labels(graph: Graph) -> Tensor:
    """The labels training may see: those of train nodes; -1 or NaN everywhere else."""
    labels = torch.full(graph.labels.shape, float("nan") if graph.is_multilabel else -1)
    train = torch.from_numpy(graph.train)
    labels[train] = torch.from_numpy(graph.labels).to(labels.dtype)[train]
    return labels


def adam(parameters: Any, settings: TrainConfig | SparsifierConfig) -> torch.optim.Adam:
    """The paper's optimiser; the fused form is twice as fast on a CPU and equal up to rounding."""
    return torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)


def descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """One step down the gradient."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
