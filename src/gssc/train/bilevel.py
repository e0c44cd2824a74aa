"""Algorithm 1: alternate between the classifier on a sampled subgraph and the sparsifier on its homophily."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gssc.config import ContrastConfig, RunConfig
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.features import FeatureTable
from gssc.graph import Graph
from gssc.models.str_contrast import PairLogits, STRContrast
from gssc.sparsify.base import Sparsifier
from gssc.sparsify.registry import sparsifier_class
from gssc.train import losses
from gssc.train.averaging import AveragedModel
from gssc.train.batches import EdgeBatch, EdgeBatches
from gssc.train.checkpoint import State
from gssc.train.consensus import Consensus
from gssc.train.distributed import SharedModel, processes
from gssc.train.optimize import adam, descend, falling
from gssc.train.pairing import training_way
from gssc.train.process import computing, is_mixed, usable_device
from gssc.train.psi import homophily_loss
from gssc.train.training import Diverged, Judge, Outcome, Step, Training, deployed_mlp, training_labels

CENTER_NODES = 4096  # most nodes used in the step on class centres, to limit its cost


class BilevelTraining(Training):
    """GSSC on one graph: theta is the classifier STR-Contrast, psi the sparsifier.

    Several processes share the pairs of theta's batches and the nodes to predict; each computes psi and the consensus
    on its own, from the same predictions, see :mod:`gssc.train.distributed`.

    Args:
        graph: the problem. Training sees only :meth:`~gssc.graph.Graph.training_view` of it.
        config: all settings.
        plain: compute with ordinary torch operations, as on devices other than a CPU.
    """

    Settings: ClassVar[type[RunConfig]] = ContrastConfig
    center_nodes: int = CENTER_NODES
    settings: ContrastConfig
    several_processes = True
    counters: ClassVar[tuple[str, ...]] = (*Training.counters, "phase", "consolidated", "soft_labels")

    def __init__(self, graph: Graph, config: ContrastConfig, plain: bool = False):
        super().__init__(graph, config)
        self.settings = config
        self.device = usable_device(config.train.device)
        self.mixed = is_mixed(config.train.mixed_precision, self.device)
        self.plain = plain or self.mixed or self.device.type != "cpu"
        self._share_work()
        self.phase = "pretrain"  # then "warm-up", "alternate", "consolidate"
        self.consolidated = 0  # epochs of the last phase so far
        self.soft_labels: Tensor | None = None  # targets of the last phase
        self.label_keep: np.ndarray | None = None  # probability that the label of each node is used in an epoch, [N]
        self.class_weight: Tensor | None = None  # of each class, [C], in addition to the weights of the objective
        with computing(config.train.threads):
            self._build()

    def _share_work(self) -> None:
        """Set the processes that share this training, and check the batch size."""
        self.processes, size = processes(), self.settings.train.batch_size
        self.own_rng = self.processes.own_rng(self.rng)  # for what differs between processes: dropout
        least = 2 * self.processes.count
        if size < least > 2:
            raise GsscError(f"train.batch_size is {size}: {self.processes.count} processes need at least {least}")

    def _build(self) -> None:
        graph, config, seen = self.graph, self.settings, self.seen
        rows_on = self.device if self.plain else None
        self.table = FeatureTable(seen.features, config.train.normalize, rows_on)
        self.scaling = self.table.scaling
        self.all_rows = self.table if seen is graph else FeatureTable(graph.features, self.scaling, rows_on)
        self.labels = training_labels(seen)
        self.batches = EdgeBatches(
            self.table,
            self.labels,
            config.train.batch_size,
            config.objective.negatives,
            config.train.max_batches,
            self.processes,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            self.model = STRContrast(graph.num_features, graph.num_classes, config.model, self.own_rng, self.plain)
            self.sparsifier = self._make_sparsifier(torch.from_numpy(seen.edges))
        self.model.to(self.device)
        self.shared = SharedModel(self.model, self.processes)
        edges = self.sparsifier.edges.cpu().numpy()
        self.pairs = np.concatenate([edges, edges[::-1]], axis=1)  # both directions, [2, P]
        self.averaged = AveragedModel(self.model, config.train.average)
        self.optimizer = adam(self.model.parameter_groups(config.train.mix_lr), config.train)
        learned = list(self.sparsifier.parameters())
        self.sparsifier_optimizer = adam(learned, config.sparsifier) if learned else None
        self.consensus = Consensus(
            self.task, seen.edges, self.labels, config.consolidate.decay, config.consolidate.steps
        )
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
            kept = self.every_given_pair()
            theta, _ = self.update_classifier(kept)  # Eq. 13 and 17
            logits = self.predict_all()
            self.update_consensus(logits)
            yield Step("warm-up", logits, self.edges_of(kept), theta)

    def alternate(self) -> Iterator[Step]:
        """Update theta on a sampled subgraph, then psi by the homophily of that subgraph."""
        last = self.settings.train.warmup_epochs + self.settings.train.epochs
        while self.epoch < last and not self.best.patience_is_over():
            kept, weights = self.sample_subgraph()  # Eq. 5 and 6
            self.sample_labels()
            theta, pair_losses = self.update_classifier(kept)  # Eq. 13 and 17
            logits = self.predict_all()
            psi = self.update_sparsifier(weights, self.pair_agreement(logits), pair_losses)  # Eq. 16 and 18
            self.update_consensus(logits)
            yield Step("alternate", logits, self.edges_of(kept), {**theta, **psi})

    def consolidate(self) -> Iterator[Step]:
        """Update theta towards the consensus for a few cheap epochs; the learning rate decays to a hundredth."""
        total = self.settings.consolidate.epochs
        if self.consolidated == total:
            return
        trusted = np.flatnonzero(self.edge_trust()[1] > 0.5)
        while self.consolidated < total:
            self.scale_learning_rate(falling(self.consolidated / total))
            loss = self.update_towards_consensus()
            self.consolidated += 1
            yield Step("consolidate", self.predict_all(), trusted, {"classification_loss": loss})

    def _begin_alternation(self) -> None:
        """Count epochs and patience from the end of the warm-up, which may end early."""
        self.phase, self.epoch, self.best.epochs_since = "alternate", self.settings.train.warmup_epochs, 0

    def _begin_consolidation(self) -> None:
        self.phase = "consolidate"
        if self.settings.consolidate.epochs:
            self.soft_labels = self.consensus.soft_labels()
            self.optimizer.state.clear()

    # The updates ------------------------------------------------------------------------------------------------

    def every_given_pair(self) -> np.ndarray:
        """Return both directions of every edge of the graph, without edges that the sparsifier proposed."""
        count, given = self.sparsifier.edges.shape[1], np.arange(self.sparsifier.given)
        return np.concatenate([given, count + given])

    def edges_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the undirected edges of which at least one direction is among these pairs."""
        return np.unique(pairs % self.sparsifier.edges.shape[1]) if len(pairs) else pairs

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

    def update_classifier(self, kept: np.ndarray) -> tuple[dict[str, float], Tensor]:
        """Train one pass over the kept pairs and one step on class centres; return mean losses, and l_ij per pair."""
        pairs = self.pairs[:, kept]
        pair_losses = torch.zeros(self.pairs.shape[1], device=self.device)

        def remember(batch: EdgeBatch, out: PairLogits, smoothness: Tensor) -> None:
            pair_losses[kept[batch.index]] = smoothness

        means = self.descend_on(self.batches.epoch(pairs, self.rng), self._class_weight(pairs), remember)
        losses_of_all = self.processes.summed(pair_losses, len(kept))
        return {**means, "center_loss": self.update_centers()}, losses_of_all

    def descend_on(
        self,
        batches: Iterable[EdgeBatch],
        class_weight: Tensor | None,
        after: Callable[[Any, PairLogits, Tensor], None] = lambda batch, out, smoothness: None,
    ) -> dict[str, float]:
        """Take one step of the classifier per batch (Eq. 13 and 17) and return mean losses.

        Args:
            batches: training batches.
            class_weight: weight of each class, [C].
            after: called after each step with the batch, its logits and its l_ij, [B].
        """
        objective, class_weight = self.settings.objective, self._on_device(class_weight)
        total, count = np.zeros(2), 0
        self.model.train()
        self.processes.renew(self.own_rng, self.settings.train.seed, self.epoch)
        for batch in batches:
            out = self._call("compare", batch).float()
            smoothness = losses.pair_smoothness(
                self.task, out.endpoints, out.mixed, out.negatives, objective.negative_weight, objective.bounded
            )
            classification = losses.classification(self.task, out.endpoints, out.mixed, batch.labels, class_weight)
            of_pairs, of_labels = self._scales(batch, class_weight)
            smooth, classified = of_pairs * smoothness.mean(), of_labels * classification
            if batch.soft is not None:
                classified = classified + of_pairs * losses.taught(self.task, out.endpoints, out.mixed, batch.soft)
            descend(objective.smoothness_weight * smooth + classified, self.optimizer)
            self.averaged.follow()
            after(batch, out, smoothness.detach())
            total += self._finite(count, smooth.item(), classified.item())
            count += 1
        self.processes.average_statistics(self.model, self.averaged.model)
        means = self.processes.mean(total / max(count, 1)).tolist()
        return dict(zip(("smoothness_loss", "classification_loss"), means, strict=True))

    def _class_weight(self, pairs: np.ndarray) -> Tensor | None:
        """Return the class weights in the loss over these pairs."""
        if self.settings.objective.class_weights != "endpoints" or not self.task.has_classes:
            return self.class_weight
        first, second = torch.from_numpy(pairs)
        by_endpoints = losses.endpoint_class_weights(self.labels, first, second, self.task.width)
        return by_endpoints if self.class_weight is None else by_endpoints * self.class_weight

    def _call(self, method: str, given: Any) -> Any:
        """Return the result of a method of the model, in mixed precision if enabled."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed):
            return self.shared(method, given)

    def _scales(self, batch: EdgeBatch, class_weight: Tensor | None) -> list[float]:
        """Return the factors for the means over this process's pairs and labels."""
        if self.processes.count == 1:
            return [1.0, 1.0]
        return self.processes.scales(len(batch), self.task.loss_weight(batch.labels, class_weight))

    def _finite(self, batch: int, *values: float) -> np.ndarray:
        """Return the losses of a batch. Raises Diverged if one is not finite."""
        if not np.isfinite(values).all():
            raise Diverged(f"epoch {self.epoch}, batch {batch}", f"lower train.lr (now {self.settings.train.lr:g})")
        return np.array(values)

    def update_centers(self) -> float:
        """Take the extra step of the released program, which pulls labelled and predicted class centres together."""
        weight, most = self.settings.objective.center_weight, self.center_nodes
        if weight == 0 or not self.task.has_classes:
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
        loss = weight * losses.class_centers(self._call("forward", rows).float(), labels.to(self.device))
        descend(loss, self.optimizer)
        self.processes.average_statistics(self.model)
        return loss.item()

    @torch.no_grad()
    def predict_all(self) -> Tensor:
        """Return y of every node of the graph, unseen ones included, [N, C]."""
        count = self.all_rows.shape[0]
        share = self.processes.share(count)
        return self.processes.gathered(self._predict(share), share, count)

    @torch.no_grad()
    def _predict(self, part: slice | None = None) -> Tensor:
        """Return y of all nodes, or of a part of them, computed by this process alone."""
        model = self.averaged.model.eval()
        return torch.cat([model(rows).cpu() for rows in self.all_rows.blocks(part=part)])

    def pair_agreement(self, logits: Tensor) -> Tensor:
        """Return the agreement of the two pseudo-labels of each pair, [P]."""
        return self.task.agreement(self._seen(logits), *torch.from_numpy(self.pairs))

    def update_sparsifier(self, weights: Tensor, agreement: Tensor, pair_losses: Tensor) -> dict[str, float]:
        """Take one step of psi and return its loss."""
        if not weights.requires_grad or self.sparsifier_optimizer is None:
            return {}
        loss = homophily_loss(self.settings.sparsifier.objective, weights, agreement.to(weights.device), pair_losses)
        own = self.sparsifier.own_loss()
        descend(loss if own is None else loss + own, self.sparsifier_optimizer)
        return {"sparsifier_loss": loss.item()}

    def update_consensus(self, logits: Tensor) -> None:
        """Add the predictions of this epoch to the running mean; the mean with the best validation score is kept."""
        self.consensus.take_in(self.task.probabilities(self._seen(logits)))
        mean, val = self.consensus.mean(), self.seen.val
        self.consensus.keep_if_best(mean, self.task.score(mean.numpy()[val], self.seen.labels[val]))

    def update_towards_consensus(self) -> float:
        """Train one pass over the nodes visible in training and return the mean loss."""
        assert self.soft_labels is not None
        total, count = np.zeros(1), 0
        self.model.train()
        self.processes.renew(self.own_rng, self.settings.train.seed, self.epoch)
        for nodes in self.batches.node_epoch(self.rng):
            logits = self._call("forward", self.table.rows(nodes)).float()
            wanted = self.soft_labels[torch.from_numpy(nodes)].to(self.device)
            loss = self.task.soft_loss(logits, wanted, self._on_device(self.class_weight))
            loss = self.processes.scales(len(nodes))[0] * loss
            descend(loss, self.optimizer)
            self.averaged.follow()
            total += self._finite(count, loss.item())
            count += 1
        self.processes.average_statistics(self.model, self.averaged.model)
        return float(self.processes.mean(total / max(count, 1))[0])

    def _on_device(self, weight: Tensor | None) -> Tensor | None:
        return None if weight is None else weight.to(self.device)

    def _seen(self, logits: Tensor) -> Tensor:
        """Return the rows of the nodes visible in training."""
        return logits[torch.from_numpy(self.seen_nodes)]

    def scale_learning_rate(self, factor: float) -> None:
        """Set the classifier's learning rate to this share of its full value."""
        self.optimizer.param_groups[0]["lr"] = factor * self.settings.train.lr

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
            scores=self._predict().numpy(),
            seconds=self.seconds,
            epochs=self.epoch,
            edges_kept=int((self.edge_trust()[1] > 0.5).sum()),
            edges_total=self.seen.num_edges,
        )

    def deployed(self) -> DeployedModel:
        """Return the current model with batch norm folded in, ready to serve."""
        return deployed_mlp(
            self.graph, self.averaged.model.folded_layers(), self.settings.model.activation, self.scaling
        )

    @torch.no_grad()
    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the sparsifier and the keep probability of each, which is one without a sparsifier."""
        return self.seen_nodes[self.sparsifier.edges.cpu().numpy()], self.sparsifier.keep_probability().cpu().numpy()
