"""The baseline of the speed benchmarks: a plain transcription of the method in torch.

It follows the "released program" column of the method's description step by step and is meant to be fair: nothing is
slowed down on purpose, and nothing is restructured for speed. It uses dense features, a DataLoader over directed pairs,
five forward passes per batch with both heads on each, and the layers, dropout, distributions and optimiser of torch.

It takes the same `Graph` and `ContrastConfig` as `gssc.train.bilevel.fit` and runs the same Algorithm 1.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import RelaxedBernoulli
from torch.utils.data import DataLoader

from gssc.config import ContrastConfig
from gssc.graph import Graph


def block(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    """Return batch norm, leaky ReLU, dropout and a linear map as one module."""
    return nn.Sequential(nn.BatchNorm1d(inputs), nn.LeakyReLU(), nn.Dropout(dropout), nn.Linear(inputs, outputs))


class Classifier(nn.Module):
    """The MLP with two heads: y for predictions, z for contrast."""

    def __init__(self, inputs: int, outputs: int, hidden: int, layers: int, dropout: float):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.body = nn.Sequential(*(block(hidden, hidden, dropout) for _ in range(layers - 1)))
        self.predict_head = block(hidden, outputs, dropout)
        self.contrast_head = block(hidden, outputs, dropout)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(self.first(features))
        return self.predict_head(hidden), self.contrast_head(hidden)


class MixNet(nn.Module):
    """The network that computes beta of a pair: linear map, batch norm, one vector on both ends."""

    def __init__(self, inputs: int, hidden: int, floor: float):
        super().__init__()
        self.linear = nn.Linear(inputs, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.vector = nn.Linear(2 * hidden, 1, bias=False)
        self.floor = floor

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        ends = torch.cat([self.norm(self.linear(source)), self.norm(self.linear(target))], dim=1)
        return self.floor + (1 - self.floor) * torch.sigmoid(self.vector(ends))  # [B, 1]


class EdgeSampler(nn.Module):
    """Keep probability of every directed pair, from two linear maps of the features."""

    def __init__(self, inputs: int, hidden: int, alpha: float, temperature: float):
        super().__init__()
        self.maps = nn.Sequential(nn.Linear(inputs, hidden), nn.Linear(hidden, hidden))
        self.alpha, self.temperature = alpha, temperature

    def keep_probability(self, features: Tensor, pairs: Tensor) -> Tensor:
        scores = self.maps(features)
        likely = torch.sigmoid((scores[pairs[0]] * scores[pairs[1]]).sum(1))
        return (1 - self.alpha) * likely + self.alpha

    def sample(self, features: Tensor, pairs: Tensor) -> Tensor:
        """Return one for kept pairs, zero for dropped ones; the gradient is that of the relaxed sample."""
        probability = self.keep_probability(features, pairs)
        soft = RelaxedBernoulli(torch.tensor(self.temperature), probs=probability).rsample()
        return (soft > 0.5).float() - soft.detach() + soft


@dataclass
class Record:
    """Record of one epoch of the transcription."""

    epoch: int
    phase: str  # "warm-up" or "alternate"
    batches: int
    edges_kept: int
    train_score: float
    val_score: float
    test_score: float
    seconds: float  # so far; accuracies are not timed
    best: bool


class Transcription:
    """One run on one graph, epoch by epoch.

    Args:
        graph: a transductive problem with one class per node.
        config: the settings that both sides share; those that only apply to the package are ignored.
    """

    def __init__(self, graph: Graph, config: ContrastConfig):
        if not graph.task.has_classes or graph.setting != "transductive":
            raise ValueError("the transcription supports only transductive graphs with one class per node")
        torch.set_num_threads(config.train.threads)
        torch.manual_seed(config.train.seed)
        self.graph, self.config = graph, config
        self.features = dense_features(graph, config.train.normalize)
        edges = torch.from_numpy(np.ascontiguousarray(graph.edges)).long()
        self.pairs = torch.cat([edges, edges.flip(0)], dim=1)  # both directions, [2, P]
        self.labels = torch.from_numpy(graph.labels).long()
        self.is_train = torch.zeros(graph.num_nodes, dtype=torch.bool)
        self.is_train[torch.from_numpy(graph.train)] = True
        self.parts = [torch.from_numpy(part) for part in (graph.train, graph.val, graph.test)]

        inputs, model, sparsifier, train = graph.num_features, config.model, config.sparsifier, config.train
        self.model = Classifier(inputs, graph.num_classes, model.hidden, model.layers, model.dropout)
        self.mix = MixNet(inputs, model.hidden, model.mix_floor)
        self.sampler = EdgeSampler(inputs, sparsifier.hidden, sparsifier.alpha, sparsifier.temperature)
        groups: list[dict[str, Any]] = [{"params": self.model.parameters()}]
        groups += [{"params": self.mix.parameters(), "lr": train.mix_lr}]
        self.optimizer = torch.optim.Adam(groups, lr=train.lr, weight_decay=train.weight_decay)
        self.sampler_optimizer = torch.optim.Adam(self.sampler.parameters(), lr=sparsifier.lr, weight_decay=5e-4)
        self.best_accuracy, self.best_weights = -1.0, copy.deepcopy(self.model.state_dict())

    def epochs(self) -> Iterator[Record]:
        """Pretrain the sampler, warm up the classifier, then alternate; stop early by patience."""
        train = self.config.train
        seconds, since_best = 0.0, 0
        started = time.perf_counter()
        self.pretrain_sampler()
        seconds += time.perf_counter() - started
        for epoch in range(train.warmup_epochs + train.epochs):
            started = time.perf_counter()
            warming_up = epoch < train.warmup_epochs
            weights = None if warming_up else self.sampler.sample(self.features, self.pairs)
            mask = torch.ones(self.pairs.shape[1], dtype=torch.bool) if weights is None else weights.detach() > 0.5
            kept = self.pairs[:, mask]
            batches = self.update_classifier(kept)
            self.update_centers()
            logits = self.predict_all()
            if weights is not None:
                self.update_sampler(weights, logits)
            seconds += time.perf_counter() - started

            hits = logits.argmax(1) == self.labels
            train_score, val_score, test_score = (float(hits[part].double().mean()) for part in self.parts)
            is_best = val_score > self.best_accuracy
            if is_best:
                self.best_accuracy, self.best_weights = val_score, copy.deepcopy(self.model.state_dict())
            since_best = 0 if is_best or warming_up else since_best + 1
            yield Record(
                epoch=epoch,
                phase="warm-up" if warming_up else "alternate",
                batches=batches,
                edges_kept=int(mask.view(2, -1).any(0).sum()),
                train_score=train_score,
                val_score=val_score,
                test_score=test_score,
                seconds=seconds,
                best=is_best,
            )
            if since_best >= train.patience:
                return

    def pretrain_sampler(self) -> None:
        """Train the sampler to keep every pair."""
        for _ in range(self.config.sparsifier.pretrain_epochs):
            probability = self.sampler.keep_probability(self.features, self.pairs)
            descend(F.binary_cross_entropy(probability, torch.ones_like(probability)), self.sampler_optimizer)

    def update_classifier(self, pairs: Tensor) -> int:
        """Train one pass over the kept pairs and return the number of batches."""
        self.model.train()
        self.mix.train()
        size = self.config.train.batch_size
        class_weight = self.class_weights(pairs)
        # Batch norm needs more than one row.
        dataset: Any = pairs.T
        loader = DataLoader(dataset, batch_size=size, shuffle=True, drop_last=pairs.shape[1] % size == 1)
        count = 0
        for batch in islice(loader, self.config.train.max_batches or None):
            descend(self.batch_loss(batch[:, 0], batch[:, 1], class_weight), self.optimizer)
            count += 1
        return count

    def batch_loss(self, source: Tensor, target: Tensor, class_weight: Tensor) -> Tensor:
        """Return the smoothness and classification loss of one batch of pairs."""
        negative = torch.randint(self.graph.num_nodes, source.shape)
        source_rows, target_rows = self.features[source], self.features[target]
        beta = self.mix(source_rows, target_rows)
        to_target = beta * target_rows + (1 - beta) * source_rows
        to_source = beta * source_rows + (1 - beta) * target_rows

        _, negative_z = self.model(self.features[negative])
        source_y, _ = self.model(source_rows)
        target_y, _ = self.model(target_rows)
        _, to_target_z = self.model(to_target)
        _, to_source_z = self.model(to_source)

        pull = F.mse_loss(source_y, to_target_z) + F.mse_loss(target_y, to_source_z)
        away_from = negative_z.softmax(1)
        push = F.mse_loss(source_y.softmax(1), away_from) + F.mse_loss(target_y.softmax(1), away_from)
        loss = pull - self.config.objective.negative_weight * push
        for ends, own, beside in ((source, source_y, to_target_z), (target, target_y, to_source_z)):
            known = self.is_train[ends]
            if known.any():
                labels = self.labels[ends[known]]
                loss = loss + F.cross_entropy(own[known], labels, class_weight)
                loss = loss + F.cross_entropy(beside[known], labels, class_weight)
        return loss

    def class_weights(self, pairs: Tensor) -> Tensor:
        """Return labelled nodes over labelled pair ends per class, scaled to a mean of one."""
        classes = self.graph.num_classes
        nodes = torch.bincount(self.labels[self.is_train], minlength=classes).float()
        ends = pairs.flatten()
        visits = torch.bincount(self.labels[ends[self.is_train[ends]]], minlength=classes).float()
        weights = torch.where(visits > 0, nodes / visits.clamp(min=1), torch.zeros(classes))
        return weights * classes / weights.sum() if weights.sum() > 0 else torch.ones(classes)

    def update_centers(self) -> None:
        """Take one step that pulls the centres of labelled and of predicted nodes of each class together."""
        if self.config.objective.center_weight == 0:
            return
        self.model.train()
        logits, _ = self.model(self.features)
        predicted = logits.argmax(1)
        loss = logits.sum() * 0
        for label in range(self.graph.num_classes):
            labelled = self.is_train & (self.labels == label)
            assigned = predicted == label
            if labelled.any() and assigned.any():
                loss = loss + F.mse_loss(logits[labelled].mean(0), logits[assigned].mean(0))
        descend(self.config.objective.center_weight * loss, self.optimizer)

    @torch.no_grad()
    def predict_all(self) -> Tensor:
        """Return y of every node in evaluation mode, [N, C]."""
        self.model.eval()
        return self.model(self.features)[0]

    def update_sampler(self, weights: Tensor, logits: Tensor) -> None:
        """Take one step on the mean weight of disagreeing over agreeing kept pairs."""
        predicted = logits.argmax(1)
        agree = predicted[self.pairs[0]] == predicted[self.pairs[1]]
        kept = weights.detach() > 0.5
        if (kept & agree).any() and (kept & ~agree).any():
            descend(weights[kept & ~agree].mean() / weights[kept & agree].mean(), self.sampler_optimizer)


def dense_features(graph: Graph, normalize: str) -> Tensor:
    """Return all features as one dense matrix, with rows optionally divided by their sum."""
    features: Any = graph.features
    rows: np.ndarray = np.asarray(features.toarray() if hasattr(features, "toarray") else features, dtype=np.float32)
    if normalize == "row":
        sums = rows.sum(axis=1, keepdims=True)
        sums[sums == 0] = 1
        rows = (rows / sums).astype(np.float32, copy=False)
    return torch.from_numpy(rows)


def descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Take one gradient step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
