"""Algorithm 1: alternate between the classifier on a sampled subgraph and the sparsifier on its homophily."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gssc.config import Config
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.evaluate.metrics import edge_homophily, log_loss, quality
from gssc.features import FeatureTable
from gssc.graph import Graph
from gssc.models.str_contrast import STRContrast
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.registry import sparsifier_class
from gssc.train import losses
from gssc.train.averaging import AveragedModel
from gssc.train.batches import EdgeBatches
from gssc.train.checkpoint import State, module_state
from gssc.train.consensus import Consensus
from gssc.train.memory import reuse_freed_memory
from gssc.train.optimize import adam, descend, falling
from gssc.train.pairing import training_way
from gssc.train.psi import homophily_loss
from gssc.train.resume import restore_state, take_state
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
        self.seen_val, self.val_labels = seen.val, seen.labels[seen.val]
        self.class_weight: Tensor | None = None  # of each class, [C], beside the weights of the objective
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
            self.sparsifier = self._make_sparsifier(torch.from_numpy(seen.edges))
        edges = self.sparsifier.edges.numpy()
        self.pairs = np.concatenate([edges, edges[::-1]], axis=1)  # both directions, [2, P]
        self.averaged = AveragedModel(self.model, config.train.average)
        self.optimizer = adam(self.model.parameter_groups(config.train.mix_lr), config.train)
        learned = list(self.sparsifier.parameters())
        self.sparsifier_optimizer = adam(learned, config.sparsifier) if learned else None

        self.consensus = Consensus(seen.edges, self.labels, config.consolidate.decay, config.consolidate.steps)
        self.soft_labels: Tensor | None = None  # once the last phase has begun
        self.consolidated = 0
        self.epoch = 0
        self.pretrained = False
        self.best = BestEpoch(config.train.select, config.train.patience, validation=len(graph.val) > 0)

    def _make_sparsifier(self, edges: Tensor) -> Sparsifier:
        """The sparsifier of the settings; one that learns nothing sees no features, which may lie on disk."""
        settings, started = self.config.sparsifier, time.perf_counter()
        training_way("str_contrast", settings.name)
        kind = sparsifier_class(settings.name)
        rows = self.table.all() if kind.trained_by else torch.empty(self.table.shape[0], 0)
        sparsifier = kind(rows, edges, settings, self.rng)
        self.seconds = time.perf_counter() - started
        return sparsifier

    def epochs(self) -> Iterator[Epoch]:
        """The whole run, from wherever it stands to its end."""
        yield from self.alternate()
        yield from self.consolidate()

    def alternate(self) -> Iterator[Epoch]:
        """Algorithm 1, with the warm-up before it."""
        if not self.pretrained:
            self.pretrain_sparsifier()
        while not self.alternation_is_over():
            started = time.perf_counter()
            self.set_learning_rate()
            kept, weights = self.sample_subgraph()  # Eq. 5 and 6
            means, pair_losses = self.update_classifier(kept)  # Eq. 13 and 17
            self.check_losses(means)
            center_loss = self.update_centers()
            logits = self.predict_all()
            agreement = self.pair_agreement(logits)
            sparsifier_loss = self.update_sparsifier(weights, agreement, pair_losses)  # Eq. 16 and 18
            self.update_consensus(logits)
            self.seconds += time.perf_counter() - started
            phase = "warm-up" if self.warming_up() else "alternate"
            smoothness_loss, classification_loss = means
            record = self.record(
                phase, logits, kept, agreement, smoothness_loss, classification_loss, center_loss, sparsifier_loss
            )
            self.close_epoch(record)
            if self.epoch == self.config.train.warmup_epochs:
                self.best.epochs_since = 0
            yield record

    def consolidate(self) -> Iterator[Epoch]:
        """A few cheap epochs towards the consensus, the learning rate falling to a hundredth."""
        total = self.config.consolidate.epochs
        if total and self.soft_labels is None:
            self.soft_labels = self.consensus.soft_labels()
            self.optimizer.state.clear()
        kept = np.flatnonzero(np.tile(self.edge_trust(), 2) > 0.5)
        while self.consolidated < total:
            started = time.perf_counter()
            self.scale_learning_rate(falling(self.consolidated / total))
            loss = self.update_towards_consensus()
            logits = self.predict_all()
            self.seconds += time.perf_counter() - started
            self.consolidated += 1
            record = self.record("consolidate", logits, kept, self.pair_agreement(logits), 0.0, loss)
            self.close_epoch(record)
            yield record

    def pretrain_sparsifier(self) -> None:
        """What the sparsifier learns before anything else, such as to keep every edge."""
        self.pretrained = True
        started = time.perf_counter()
        self.sparsifier.pretrain(self.sparsifier_optimizer)
        self.seconds += time.perf_counter() - started

    def sample_subgraph(self) -> tuple[np.ndarray, Tensor | None]:
        """g' of Eq. 6: which pairs to train on, and their weights with gradient; every given pair while warming up."""
        if self.warming_up():
            count, given = self.sparsifier.edges.shape[1], np.arange(self.sparsifier.given)
            return np.concatenate([given, count + given]), None
        weights = self.sparsifier.sample_pairs(self.rng)
        return np.flatnonzero(weights.detach().numpy() > 0.5), weights if weights.requires_grad else None

    def update_classifier(self, kept: np.ndarray) -> tuple[np.ndarray, Tensor]:
        """One pass over the sampled subgraph; returns the mean losses and l_ij of every pair."""
        objective = self.config.objective
        pairs = self.pairs[:, kept]
        class_weight = self.class_weight
        if objective.class_weights == "endpoints" and not self.graph.is_multilabel:
            ends = torch.from_numpy(pairs)
            by_endpoints = losses.endpoint_class_weights(self.labels, ends[0], ends[1], self.graph.num_classes)
            class_weight = by_endpoints if class_weight is None else by_endpoints * class_weight
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

    def check_losses(self, means: np.ndarray) -> None:
        """Stop at once where nothing more can come of it."""
        if not np.isfinite(means).all():
            raise GsscError(
                f"training diverged in epoch {self.epoch}: the loss is no longer a finite number; lower train.lr "
                f"(now {self.config.train.lr:g}), or scale features that are far too large"
            )

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

    def pair_agreement(self, logits: Tensor) -> Tensor:
        """Whether the two pseudo-labels of each pair agree, [P]."""
        first, second = torch.from_numpy(self.pairs)
        return losses.pseudo_label_agreement(self.seen(logits), first, second, self.graph.is_multilabel)

    def update_sparsifier(self, weights: Tensor | None, agreement: Tensor, pair_losses: Tensor) -> float:
        """One step of psi."""
        if weights is None or self.sparsifier_optimizer is None:
            return 0.0
        loss = homophily_loss(self.config.sparsifier.objective, weights, agreement, pair_losses)
        own = self.sparsifier.own_loss()
        descend(loss if own is None else loss + own, self.sparsifier_optimizer)
        return loss.item()

    def update_consensus(self, logits: Tensor) -> None:
        """Take in what this epoch predicts; validation nodes have a say in which epochs' mean will count."""
        self.consensus.take_in(self.seen_probabilities(logits))
        mean = self.consensus.mean()
        self.consensus.keep_if_best(mean, quality(mean.numpy()[self.seen_val], self.val_labels))

    def update_towards_consensus(self) -> float:
        """One pass over the nodes that training may see."""
        assert self.soft_labels is not None
        total, count = 0.0, 0
        for nodes in self.batches.node_epoch(self.rng):
            logits = self.model.node_logits(self.table.rows(nodes), self.rng)
            wanted = self.soft_labels[torch.from_numpy(nodes)]
            loss = losses.towards(logits, wanted, self.graph.is_multilabel, self.class_weight)
            descend(loss, self.optimizer)
            self.averaged.follow()
            total, count = total + loss.item(), count + 1
        return total / max(count, 1)

    def seen(self, logits: Tensor) -> Tensor:
        """The rows of nodes that training may see."""
        return logits[torch.from_numpy(self.seen_nodes)]

    def seen_probabilities(self, logits: Tensor) -> Tensor:
        """Class (or task) probabilities of nodes that training may see."""
        seen = self.seen(logits)
        return seen.sigmoid() if self.graph.is_multilabel else seen.softmax(1)

    # The schedule -----------------------------------------------------------------------------------------------

    def warming_up(self) -> bool:
        """Whether the sparsifier still waits for the classifier to have something to say."""
        return self.epoch < self.config.train.warmup_epochs

    def alternation_is_over(self) -> bool:
        """Whether Algorithm 1 has ended; a warm-up that stopped getting better hands over to the next phase."""
        if self.soft_labels is not None:
            return True
        train = self.config.train
        if self.warming_up() and self.best.patience_is_over():
            self.epoch = train.warmup_epochs
            self.best.epochs_since = 0
        if self.epoch >= train.warmup_epochs + train.epochs:
            return True
        return not self.warming_up() and self.best.patience_is_over()

    def set_learning_rate(self) -> None:
        """Constant, or falling over the whole schedule."""
        train = self.config.train
        progress = self.epoch / (train.warmup_epochs + train.epochs)
        self.scale_learning_rate(falling(progress) if train.schedule == "cosine" else 1.0)

    def scale_learning_rate(self, factor: float) -> None:
        """Set the classifier's learning rate to this share of its full value."""
        self.optimizer.param_groups[0]["lr"] = factor * self.config.train.lr

    def record(
        self,
        phase: str,
        logits: Tensor,
        kept: np.ndarray,
        agreement: Tensor,
        smoothness_loss: float,
        classification_loss: float,
        center_loss: float = 0.0,
        sparsifier_loss: float = 0.0,
    ) -> Epoch:
        """What is worth knowing of the epoch that just ended."""
        graph, scores = self.graph, logits.numpy()
        train, val, test = (quality(scores[part], graph.labels[part]) for part in (graph.train, graph.val, graph.test))
        return Epoch(
            epoch=self.epoch,
            phase=phase,
            smoothness_loss=float(smoothness_loss),
            classification_loss=float(classification_loss),
            center_loss=center_loss,
            sparsifier_loss=sparsifier_loss,
            train_accuracy=train,
            val_accuracy=val,
            val_loss=log_loss(scores[graph.val], graph.labels[graph.val]),
            test_accuracy=test,
            edges_kept=len(kept),
            homophily=edge_homophily(graph.labels, self.seen_nodes[self.pairs[:, kept]]),
            pseudo_homophily=float(agreement[kept].mean()) if len(kept) else float("nan"),
            seconds=self.seconds,
        )

    def close_epoch(self, record: Epoch) -> None:
        """Keep the weights if this epoch is the one to keep, and count it."""
        if self.best.judge(record):
            self.best.weights = {
                "averaged": module_state(self.averaged.model),
                "sparsifier": module_state(self.sparsifier),
            }
        self.epoch += 1

    # What comes out ---------------------------------------------------------------------------------------------

    def restore_best(self) -> None:
        """Put the best epoch's weights in place."""
        self.averaged.model.load_state_dict(self.best.weights["averaged"])
        self.sparsifier.load_state_dict(self.best.weights.get("sparsifier", {}))

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
        return self.seen_nodes[self.sparsifier.edges.numpy()]

    @torch.no_grad()
    def edge_trust(self) -> np.ndarray:
        """The keep probability of each of :meth:`seen_edges`, [E]; one without a sparsifier."""
        return self.sparsifier.keep_probability().numpy()

    def state(self) -> tuple[State, dict[str, Any]]:
        """Everything needed to go on from here, as tensors and JSON-able notes."""
        return take_state(self)

    def restore(self, tensors: State, notes: dict[str, Any]) -> None:
        """Take up a state of :meth:`state`."""
        restore_state(self, tensors, notes)


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
