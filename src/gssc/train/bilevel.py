"""Algorithm 1: alternate between the classifier theta on a sampled subgraph and the sparsifier psi on its homophily.

============  ======================================================================================================
phase         each epoch
============  ======================================================================================================
warm-up       update theta on every edge
alternate     sample a subgraph g' (Eq. 5, 6); update theta on g' (Eq. 13, 17), then psi by its homophily (Eq. 16, 18)
consolidate   update theta towards what recent epochs and neighbours agree on (:mod:`gssc.train.consensus`)
============  ======================================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gssc.config import ContrastConfig
from gssc.errors import GsscError
from gssc.features import FeatureTable, Rows
from gssc.graph import Graph
from gssc.models.str_contrast import PairLogits, RowLogits
from gssc.sparsify.base import WEIGHT_DECAY, Sparsifier
from gssc.sparsify.registry import sparsifier_class
from gssc.train import losses
from gssc.train.batches import EdgeBatch
from gssc.train.checkpoint import State
from gssc.train.consensus import Consensus
from gssc.train.optimize import adam, descend, falling
from gssc.train.process import computing
from gssc.train.registry import training_way
from gssc.train.theta import PairTraining
from gssc.train.training import Judge, Outcome, Step, Training


class BilevelTraining(PairTraining):
    """GSSC on one graph: theta is the classifier STR-Contrast, psi the sparsifier.

    Several processes share theta's work (:mod:`gssc.train.theta`); each computes psi and the consensus on its own, from
    the same predictions.

    Args:
        graph: the problem. Training uses only :meth:`~gssc.graph.Graph.training_view` of it.
        config: all settings.
        plain: compute with ordinary torch operations, as on devices other than a CPU.
        sparsifier: psi; by default it is built from the settings.

    Attributes:
        phase: ``pretrain``, ``warm-up``, ``alternate`` or ``consolidate``.
        consolidated: epochs of the last phase so far.
        soft_labels: targets of the last phase, once it has begun.
        label_keep: probability that the label of each node is used in an epoch, [N]; None uses all.
    """

    counters: ClassVar[tuple[str, ...]] = (*Training.counters, "phase", "consolidated", "soft_labels")

    def __init__(self, graph: Graph, config: ContrastConfig, plain: bool = False, sparsifier: Sparsifier | None = None):
        super().__init__(graph, config)
        self.settings = config
        self.phase, self.consolidated = "pretrain", 0
        self.soft_labels: Tensor | None = None
        self.label_keep: np.ndarray | None = None
        self._choose_device(plain)
        self._share_work()
        with computing(config.train.threads):
            self._build(sparsifier)

    # Algorithm 1 ------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """Run Algorithm 1 with its warm-up, and the consolidation after it, from the current state."""
        if self.phase == "pretrain":
            self.sparsifier.pretrain(self.sparsifier_optimizer)
            self.phase = "warm-up"
        if self.phase == "warm-up":
            yield from self.warm_up()
            self._begin_alternation()
        if self.phase == "alternate":
            yield from self.alternate()
            self._begin_consolidation()
        yield from self.consolidate()

    def warm_up(self) -> Iterator[Step]:
        """Update theta on the full graph, until its pseudo-labels are good enough to train psi."""
        while self.epoch < self.settings.train.warmup_epochs and not self.best.patience_is_over():
            pairs = self.every_given_pair()
            theta, _ = self.update_classifier(pairs)  # Eq. 13 and 17
            logits = self.predict_all()
            self.update_consensus(logits)
            yield Step("warm-up", logits, self.edges_of(pairs), theta)

    def alternate(self) -> Iterator[Step]:
        """Run the loop of Algorithm 1: update theta on a sampled subgraph, then psi by the homophily of it."""
        last = self.settings.train.warmup_epochs + self.settings.train.epochs
        while self.epoch < last and not self.best.patience_is_over():
            pairs, weights = self.sample_subgraph()  # line 3: Eq. 5 and 6
            self.sample_labels()
            theta, pair_losses = self.update_classifier(pairs)  # lines 4 and 5: Eq. 13 and 17
            logits = self.predict_all()
            agreement = self.pair_agreement(logits)
            psi = self.update_sparsifier(weights, agreement, pair_losses)  # lines 6 and 7: Eq. 16 and 18
            self.update_consensus(logits)
            yield Step("alternate", logits, self.edges_of(pairs), {**theta, **psi})

    def consolidate(self) -> Iterator[Step]:
        """Update theta towards the consensus for a few cheap epochs; the learning rate decays to a hundredth."""
        total = self.settings.consolidate.epochs
        if self.soft_labels is None or self.consolidated == total:
            return
        trusted = np.flatnonzero(self.edge_trust()[1] > 0.5)
        while self.consolidated < total:
            self.scale_learning_rate(falling(self.consolidated / total))
            loss = self.descend_towards(self._taught_rows(self.soft_labels), self.class_weight)
            self.consolidated += 1
            yield Step("consolidate", self.predict_all(), trusted, {"classification_loss": loss})

    def _taught_rows(self, soft_labels: Tensor) -> Iterator[tuple[Rows, Tensor]]:
        """Yield the nodes that training sees in random batches, each once: feature rows and soft labels."""
        for nodes in self.batches.node_epoch(self.rng):
            yield self.table.rows(nodes), soft_labels[torch.from_numpy(nodes)]

    def _begin_alternation(self) -> None:
        """Count epochs and patience from the end of the warm-up, which may end early."""
        self.phase, self.epoch, self.best.epochs_since = "alternate", self.settings.train.warmup_epochs, 0

    def _begin_consolidation(self) -> None:
        self.phase = "consolidate"
        if self.settings.consolidate.epochs:
            self.soft_labels = self.consensus.soft_labels()
            self.optimizer.state.clear()

    # Sampling: Eq. 5 and 6 --------------------------------------------------------------------------------------

    def every_given_pair(self) -> np.ndarray:
        """Return both directions of every edge of the graph, without edges that the sparsifier proposed."""
        count, given = self.sparsifier.edges.shape[1], np.arange(self.sparsifier.given)
        return np.concatenate([given, count + given])

    def sample_subgraph(self) -> tuple[np.ndarray, Tensor]:
        """Return g' of Eq. 6: the positions of the pairs to train on, and the weights of all pairs, with gradient."""
        weights = self.sparsifier.sample_pairs(self.rng)
        kept = self.processes.of_first((weights.detach().cpu() > 0.5).to(torch.uint8))
        return np.flatnonzero(kept.numpy()), weights

    def sample_labels(self) -> None:
        """Draw the training labels of this epoch, as edges are drawn; without keep probabilities all are used."""
        if self.label_keep is not None:
            drawn = torch.from_numpy(self.rng.random(len(self.label_keep)) < self.label_keep)
            self.batches.labels = torch.where(drawn, self.labels, -1)

    def edges_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the undirected edges of which at least one direction is among these pairs."""
        chosen = np.zeros(self.sparsifier.edges.shape[1], dtype=bool)
        if len(pairs):
            chosen[pairs % len(chosen)] = True
        return np.flatnonzero(chosen)

    # Theta: Eq. 13 and 17 ---------------------------------------------------------------------------------------

    def update_classifier(self, kept: np.ndarray) -> tuple[dict[str, float], Tensor]:
        """Train one pass over the kept pairs and one step on class centres; return mean losses, and l_ij per pair."""
        pairs = self.pairs[:, kept]
        pair_losses = torch.zeros(self.pairs.shape[1], device=self.device)

        def store(batch: EdgeBatch, out: PairLogits | RowLogits, smoothness: Tensor) -> None:
            pair_losses[kept[batch.index]] = smoothness

        means = self.descend_on(self.batches.epoch(pairs, self.rng), self._weight_of_classes(pairs), store)
        losses_of_all = self.processes.summed(pair_losses, len(kept))
        return {**means, "center_loss": self.update_centers()}, losses_of_all

    def _weight_of_classes(self, pairs: np.ndarray) -> Tensor | None:
        """Return the class weights in the loss over these pairs."""
        if self.settings.objective.class_weights != "endpoints" or not self.task.has_classes:
            return self.class_weight
        first, second = torch.from_numpy(pairs)
        by_endpoints = losses.endpoint_class_weights(self.labels, first, second, self.task.width)
        return by_endpoints if self.class_weight is None else by_endpoints * self.class_weight

    @torch.no_grad()
    def predict_all(self) -> Tensor:
        """Return y of every node of the graph, unseen ones included, [N, C]."""
        count = self.all_rows.shape[0]
        share = self.processes.share(count)
        return self.processes.gathered(self.predict_rows(self.all_rows, share), share, count)

    # Psi: Eq. 16 and 18 -----------------------------------------------------------------------------------------

    def pair_agreement(self, logits: Tensor) -> Tensor:
        """Return the agreement of the two pseudo-labels of each pair, I(s_i = s_j) of Eq. 16, [P]."""
        return self.task.agreement(self._seen(logits), *torch.from_numpy(self.pairs))

    def update_sparsifier(self, weights: Tensor, agreement: Tensor, pair_losses: Tensor) -> dict[str, float]:
        """Take one step of psi on its objective and return the loss; nothing if psi has no parameters."""
        if not weights.requires_grad or self.sparsifier_optimizer is None:
            return {}
        objective = self.settings.sparsifier.objective
        loss = losses.sparsifier_loss(objective, weights, agreement.to(weights.device), pair_losses)
        own = self.sparsifier.own_loss()
        descend(loss if own is None else loss + own, self.sparsifier_optimizer)
        return {"sparsifier_loss": loss.item()}

    # Consensus --------------------------------------------------------------------------------------------------

    def update_consensus(self, logits: Tensor) -> None:
        """Add the predictions of this epoch to the running mean, and keep the mean with the best validation score."""
        self.consensus.take_in(self.task.probabilities(self._seen(logits)))
        mean, val = self.consensus.mean(), self.seen.val
        self.consensus.keep_if_best(mean, self.task.score(mean.numpy()[val], self.seen.labels[val]))

    def _seen(self, logits: Tensor) -> Tensor:
        """Return the rows of the nodes visible in training."""
        return logits[torch.from_numpy(self.seen_nodes)]

    # Construction -----------------------------------------------------------------------------------------------

    def _build(self, sparsifier: Sparsifier | None) -> None:
        graph, config, seen = self.graph, self.settings, self.seen
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            self._build_classifier(seen)
            self.sparsifier = sparsifier or self._make_sparsifier(torch.from_numpy(seen.edges))
        self.all_rows = self.table if seen is graph else FeatureTable(graph.features, self.scaling, self.table.device)
        edges = self.sparsifier.edges.cpu().numpy()
        self.pairs = np.concatenate([edges, edges[::-1]], axis=1)  # both directions, [2, P]
        learned = list(self.sparsifier.parameters())
        self.sparsifier_optimizer = adam(learned, config.sparsifier.lr, WEIGHT_DECAY) if learned else None
        self.consensus = Consensus(self.task, seen.edges, self.labels, config.consolidate.steps)
        self.judge = Judge(self.task, graph.labels, self.seen_nodes[edges], graph.train, graph.val, graph.test)

    def _make_sparsifier(self, edges: Tensor) -> Sparsifier:
        """Return the sparsifier of the settings; it gets features, which may be on disk, only if it reads them."""
        settings, started = self.settings.sparsifier, time.perf_counter()
        training_way("str_contrast", settings.name)
        kind = sparsifier_class(settings.name)
        if kind.reads_features and self.device.type != "cpu":
            if not kind.any_device:
                raise GsscError(f"{settings.name} works on a CPU only: use --device cpu, or another sparsifier")
            edges = edges.to(self.device)
        rows = self.table.all() if kind.reads_features else torch.empty(self.table.shape[0], 0)
        sparsifier = kind(rows, edges, settings, self.rng).to(self.device)
        self.seconds += time.perf_counter() - started
        return sparsifier

    # State and result -------------------------------------------------------------------------------------------

    def components(self) -> dict[str, Any]:
        """Return every part that changes in training."""
        parts = {"model": self.model, "averaged": self.averaged, "sparsifier": self.sparsifier}
        psi = {"sparsifier_optimizer": self.sparsifier_optimizer} if self.sparsifier_optimizer else {}
        return {**parts, "optimizer": self.optimizer, **psi, "consensus": self.consensus}

    def kept_weights(self) -> State:
        """Return the weights used for prediction, and those of the sparsifier."""
        return {"model": self.averaged.model.state_dict(), "sparsifier": self.sparsifier.state_dict()}

    def restore_best(self, weights: State) -> None:
        """Load the kept weights."""
        self.averaged.model.load_state_dict(weights["model"])
        self.sparsifier.load_state_dict(weights["sparsifier"])

    def outcome(self) -> Outcome:
        """Return the result of the training."""
        return Outcome(
            kept=self.kept(),
            scores=self.predict_rows(self.all_rows).numpy(),
            seconds=self.seconds,
            epochs=self.epoch,
            edges_kept=int((self.edge_trust()[1] > 0.5).sum()),
            edges_total=self.seen.num_edges,
        )

    @torch.no_grad()
    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the sparsifier and the keep probability of each, which is one without a sparsifier."""
        return self.seen_nodes[self.sparsifier.edges.cpu().numpy()], self.sparsifier.keep_probability().cpu().numpy()
