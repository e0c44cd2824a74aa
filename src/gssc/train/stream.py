"""Streamed training: Algorithm 1 on a graph that stays on disk, with node sketches and a few batches in memory.

Held in memory: sketches and a label per node (about 200 bytes), a buffer of edges, a few batches ahead, and the model;
also the features, if their file has at most 128 MB. Read from disk: features once and edges twice for the sketches,
then the pairs of the schedule.

============  =====================================  ============================================================
part          in memory (:mod:`gssc.train.bilevel`)  here
============  =====================================  ============================================================
pairs         all, both directions, int64            blocks in random order (:mod:`gssc.train.edge_stream`)
sparsifier    a keep probability per edge            the evidence of a batch's edges, when the batch is made
edge weights  multiply the keep probabilities        the same, in the default learner; other models ignore them
class weight  endpoints of all kept pairs            degrees of labelled nodes
scored        every node, every epoch                at most 10,000 validation, 2,000 training and test nodes
homophily     over all kept edges                    a ratio summed over the batches of the epoch
============  =====================================  ============================================================

The steps of the classifier are the same code, so that equal batches give equal weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field, fields
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gssc.config import ContrastConfig, RunConfig
from gssc.data.disk import file_states
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.models.str_contrast import PairLogits, RowLogits
from gssc.train import losses
from gssc.train.batches import EdgeBatch
from gssc.train.checkpoint import State
from gssc.train.edge_stream import AHEAD, EdgeStream, PairBatch, Position, prefetched
from gssc.train.process import computing
from gssc.train.selection import BestEpoch
from gssc.train.streamed_scores import NO_EDGES, RowScores, StreamedJudge, StreamedStep
from gssc.train.theta import CENTER_NODES, PairTraining
from gssc.train.training import Outcome, Step, Training
from gssc.trust.edges import times_weight
from gssc.trust.streamed import NodeSketches, Sketches, StreamedTrust

SPARSIFIERS = ("none", "evidence")  # sparsifiers that can be computed for a batch of edges
# Maximum numbers of:
JUDGED = 10_000  # validation nodes that an epoch is scored on
SHOWN = 2_000  # training and test nodes; their scores are for the learning curve only
TESTED = 200_000  # test nodes of the final score
COUNTED = 512  # pairs of a batch whose predictions are compared for the record
SAMPLED_EDGES = 100_000  # edges whose trust is reported at the end
NUMBERS_AT_A_TIME = 1 << 20  # feature values in a block of rows that are predicted together
NUMBERS_AHEAD = 1 << 22  # feature values in batches prepared ahead, unless one batch has more

RUN = 16  # edges that stay together where rows pass the network once per batch (model.mix_at output)
SKETCHING = {"rows": "sketches of features", "edges": "sketches of neighbourhoods"}  # stages of the preparation

Teacher = Callable[[NodeSketches, np.ndarray], np.ndarray]  # sketches and rows [n, d] of nodes to probabilities [n, C]


@dataclass
class StreamedBatch(EdgeBatch):
    """A batch with the node numbers of its pairs.

    Attributes:
        ends: node numbers of both ends, [2, B].
    """

    ends: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))


class StreamedTraining(PairTraining):
    """Algorithm 1 in a stream over the edges; see the table above for what differs.

    An epoch takes the next ``train.max_batches`` batches, or the rest of a pass over all pairs if that is 0. In the
    first ``train.warmup_epochs`` epochs every edge is used.

    Processes started by torchrun read the same stream of edges and share the pairs of every batch, so that a position
    is valid for any number of processes. One process per machine computes the sketches for all of them.

    Args:
        graph: the problem, on disk or in memory.
        config: all settings of the run.
        settings: settings of pair training, if those of the run are of another class.
        best: keeps the best epoch; by default by validation score or loss.

    Attributes:
        sketches, trust: sketches of nodes and trust in edges; computed when training starts or is resumed.
        full_weight: weight from which an edge counts fully.
        teacher: returns probabilities for nodes from their sketches and scaled feature rows; both ends of every pair
            are then trained towards them too.
        position: position of the next batch.
        preparing: stage of the work before the first epoch, for progress bars; empty before and after it.
        prepared: time at which that work ended, by ``time.monotonic``; 0 before.
    """

    streams: ClassVar[bool] = True
    uses_edge_weights: ClassVar[bool] = False  # of the graph
    counters: ClassVar[tuple[str, ...]] = (*Training.counters, "phase", "position_numbers")

    def __init__(
        self,
        graph: Graph,
        config: RunConfig,
        settings: ContrastConfig | None = None,
        best: BestEpoch | None = None,
    ):
        found = settings or config
        assert isinstance(found, ContrastConfig)
        self.settings = found
        Training.__init__(self, graph, config, best)
        self._share_work()
        if self.settings.sparsifier.name not in SPARSIFIERS:
            raise GsscError(
                f"streamed training has no sparsifier {self.settings.sparsifier.name}: use one of "
                f"{', '.join(SPARSIFIERS)} (--sparsifier), or more memory (--train.memory)"
            )
        self._choose_device()
        self.phase = "sketch"
        self.preparing, self.prepared = "", 0.0
        self.position = Position()
        self.files = file_states(graph.features, graph.edges, graph.edge_weight)
        self.sketches: Sketches | None = None
        self.trust: StreamedTrust | None = None
        self.teacher: Teacher | None = None
        self.full_weight = 1.0
        with computing(self.settings.train.threads):
            self._build()

    def _build(self) -> None:
        graph, config = self.graph, self.settings
        self.hidden = None
        if graph.setting != "transductive" and len(graph.test):
            self.hidden = np.zeros(graph.num_nodes, dtype=bool)
            self.hidden[graph.test] = True
        width = graph.num_features
        self.center_nodes = min(CENTER_NODES, max(512, NUMBERS_AT_A_TIME // width))
        self.ahead = min(AHEAD, max(1, NUMBERS_AHEAD // (3 * config.train.batch_size * width)))
        run = RUN if config.model.mix_at == "output" else 0
        self.edge_weight = graph.edge_weight if self.uses_edge_weights else None
        self.stream = EdgeStream(
            graph.edges,
            config.train.batch_size,
            config.train.seed,
            hidden=self.hidden,
            run=run,
            weight=self.edge_weight,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            self._build_classifier(graph)
        self._choose_judged()

    def _choose_judged(self) -> None:
        """Draw the nodes that epochs are scored on: a sample of each part of the split."""
        graph, rng = self.graph, np.random.default_rng([self.settings.train.seed, 13])
        parts = [
            part if len(part) <= most else np.sort(rng.choice(part, most, replace=False))
            for part, most in ((graph.train, SHOWN), (graph.val, JUDGED), (graph.test, SHOWN))
        ]
        self.judged = np.unique(np.concatenate(parts))
        train, val, test = (np.searchsorted(self.judged, part) for part in parts)
        no_edges = np.empty((2, 0), dtype=np.int64)
        self.judge = StreamedJudge(self.task, graph.labels[self.judged], no_edges, train, val, test)

    @property
    def position_numbers(self) -> list[int]:
        """The position as a list of numbers, for checkpoints."""
        return list(astuple(self.position))

    @position_numbers.setter
    def position_numbers(self, numbers: list[int]) -> None:
        self.position = Position(*(int(number) for number in numbers))

    # Algorithm 1, streamed --------------------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """Compute sketches and trust, then yield epochs of pairs, from the current state."""
        self.prepare()
        self.phase = "pairs"
        self.preparing, self.prepared = "", time.monotonic()
        last = self.settings.train.warmup_epochs + self.settings.train.epochs
        while self.epoch < last and not self.best.patience_is_over():
            step = self.train_epoch()
            self._check_files()
            yield step

    def _check_files(self) -> None:
        """Raise GsscError if a file of the graph was written to since training began: its digest is no longer valid."""
        now = file_states(self.graph.features, self.graph.edges, self.graph.edge_weight)
        for path, before in self.files.items():
            if path in now and now[path] != before:
                raise GsscError(f"{path} was changed while it was trained on; restore it or build the graph again")

    def epochs_ahead(self) -> dict[str, int]:
        """Return the number of epochs still to come by phase, for progress."""
        return {"pairs": self.settings.train.warmup_epochs + self.settings.train.epochs - self.epoch}

    def prepare(self) -> None:
        """Compute sketches and fit trust, if not done yet: one pass over features, two over edges."""
        if self.sketches is not None:
            return
        seed, self.preparing = self.settings.train.seed, SKETCHING["rows"]
        made = self.processes.shared_arrays(
            lambda: vars(
                Sketches.of(
                    self.graph.features, self.graph.edges, seed, hidden=self.hidden, on_part=self._show_sketching
                )
            )
        )
        self.sketches = Sketches(**made)
        if self.settings.sparsifier.name == "evidence":
            self.preparing = "trust in edges"
            self.trust = StreamedTrust.fitted(self.sketches, self.sampled_edges(seed), self.dense_rows, seed)
        self.full_weight = self.stream.full_weight()
        self.class_weight = self._degree_class_weight()

    def _show_sketching(self, part: str, share: float) -> None:
        self.preparing = f"{SKETCHING[part]} {share:.0%}"

    def train_epoch(self) -> StreamedStep:
        """Train on the next batches, take a step on class centres, and predict the nodes to score."""
        counted = np.zeros(4)  # pairs; pairs with two known labels; of these, with equal labels; pairs predicted alike

        def count(batch: StreamedBatch, out: PairLogits | RowLogits, smoothness: Tensor) -> None:
            counted[:] += (len(batch), *self._agreement(batch), self._predicted_agreement(out, len(batch)))

        sparsify = self.epoch >= self.settings.train.warmup_epochs
        means = self.descend_on(self.epoch_batches(sparsify), self.class_weight, count)
        means["center_loss"] = self.update_centers()
        directions = 2 if self.stream.run else 1  # that a pair of a batch stands for
        pairs, known, alike, predicted_alike = directions * self.processes.count * self.processes.mean(counted)
        return StreamedStep(
            "pairs",
            self.predict_judged(),
            NO_EDGES,
            means,
            pairs=int(pairs),
            homophily=alike / known if known else math.nan,
            pseudo_homophily=predicted_alike / pairs if pairs else math.nan,
        )

    def epoch_batches(self, sparsify: bool) -> Iterator[StreamedBatch]:
        """Yield the batches of one epoch, prepared ahead by a thread, and move :attr:`position` past them."""
        most = self.settings.train.max_batches
        drawn = islice(self.stream.endless(self.position), most) if most else self.stream.batches(self.position)
        made = ((self.made_batch(pairs, sparsify), pairs.next) for pairs in drawn)
        for batch, following in prefetched(made, self.ahead):
            self.position = following  # also past a batch without enough pairs, which would be empty every time
            if batch is not None:
                yield batch

    def made_batch(self, drawn: PairBatch, sparsify: bool) -> StreamedBatch | None:
        """Return a batch with its feature rows, without the pairs that are dropped; None if fewer than two stay."""
        batch = self.batches.batch(drawn.pairs, drawn.index, drawn.rng)
        ends = drawn.pairs[:, batch.index]
        found = StreamedBatch(**_fields(batch), ends=ends)
        trust, weight = (self.trust, drawn.weight) if sparsify else (None, None)
        if trust is None and self.teacher is None and weight is None:
            return found
        assert self.sketches is not None
        assert isinstance(batch.rows, Tensor)
        sketches, rows = self.sketches.of_nodes(batch.nodes), batch.rows.cpu().numpy()
        if self.teacher is not None:
            found.soft = torch.from_numpy(self.teacher(sketches, rows)).to(self.device)
        if trust is None and weight is None:
            return found
        keep = np.ones(len(batch), np.float32)
        if trust is not None:
            keep = trust.keep(sketches, rows, torch.stack([batch.source, batch.target]).cpu().numpy())
        if weight is not None:
            keep = times_weight(keep, weight[batch.index], self.full_weight)
        draws = drawn.rng.random(len(drawn.index))[self.processes.share(len(drawn.index))]
        kept = np.flatnonzero(draws < keep)
        if len(kept) < 2 and self.processes.count == 1:
            return None
        kept = kept if len(kept) >= 2 else np.arange(2)  # every process must take every step
        return _some_pairs(found, kept)

    def sampled_edges(self, seed: int) -> np.ndarray:
        """Return a sample of the edges visible in training, in random blocks of the graph, [2, n]."""
        return self.stream.sample(SAMPLED_EDGES, seed)

    def _degree_class_weight(self) -> Tensor | None:
        """Return labelled nodes over labelled endpoints per class, as in memory; degrees count the endpoints."""
        if self.settings.objective.class_weights != "endpoints" or not self.task.has_classes:
            return None
        assert self.sketches is not None
        train, width = self.graph.train, self.task.width
        labels, degree = self.labels[torch.from_numpy(train)], torch.from_numpy(2 * self.sketches.degree[train])
        ends = torch.bincount(labels, weights=degree, minlength=width)
        return losses.endpoint_weights(torch.bincount(labels, minlength=width), ends)

    def _agreement(self, batch: StreamedBatch) -> tuple[int, int]:
        """Return the number of pairs with two known true labels, and of those with equal ones; for the record only."""
        if not self.task.has_classes:
            return 0, 0
        first, second = self.graph.labels[batch.ends]
        known = (first >= 0) & (second >= 0)
        return int(known.sum()), int((known & (first == second)).sum())

    def _predicted_agreement(self, out: PairLogits | RowLogits, pairs: int) -> float:
        """Return the number of pairs whose ends are predicted alike, estimated from some; for the record only."""
        logits = out.some_ends(COUNTED).detach().flatten(0, 1).cpu()
        count = len(logits) // 2
        alike = self.task.agreement(logits.contiguous(), torch.arange(count), torch.arange(count, 2 * count))
        return float(alike.mean()) * pairs

    # Prediction, state and result -------------------------------------------------------------------------------

    def dense_rows(self, nodes: np.ndarray) -> np.ndarray:
        """Return scaled feature rows of nodes, [n, d]."""
        rows = self.table.rows(nodes)
        assert isinstance(rows, Tensor)
        return rows.cpu().numpy()

    @torch.no_grad()
    def predict(self, nodes: np.ndarray) -> Tensor:
        """Return y of some nodes, [n, C]."""
        model = self.averaged.model.eval()
        found, step = [], max(256, NUMBERS_AT_A_TIME // self.graph.num_features)
        for start in range(0, len(nodes), step):
            found.append(model(self.table.rows(nodes[start : start + step])).cpu())
        return torch.cat(found) if found else torch.empty(0, self.task.width)

    def predict_judged(self) -> Tensor:
        """Return y of the nodes that epochs are scored on, [n, C]; several processes share them."""
        count = len(self.judged)
        share = self.processes.share(count)
        return self.processes.gathered(self.predict(self.judged[share]), share, count)

    def components(self) -> dict[str, Any]:
        """Return the model, its running average and the optimiser; sketches are computed again when resumed."""
        return {"model": self.model, "averaged": self.averaged, "optimizer": self.optimizer}

    def kept_weights(self) -> State:
        """Return the weights used for prediction."""
        return {"model": self.averaged.model.state_dict()}

    def restore_best(self, weights: State) -> None:
        """Load the kept weights."""
        self.averaged.model.load_state_dict(weights["model"])

    def outcome(self) -> Outcome:
        """Return the result; the test score is on at most 200,000 test nodes, edges kept are counted on a sample."""
        started = time.perf_counter()
        graph, kept = self.graph, self.kept()
        rng = np.random.default_rng([self.settings.train.seed, 14])
        test = graph.test if len(graph.test) <= TESTED else np.sort(rng.choice(graph.test, TESTED, replace=False))
        kept.test_score = self.task.score(self.predict(test).numpy(), graph.labels[test])
        trust, total = self.edge_trust()[1], self._edges_total()
        trusted = round(float((trust > 0.5).mean()) * total) if len(trust) else 0
        self.seconds += time.perf_counter() - started
        scores: Any = RowScores(lambda nodes: self.predict(nodes).numpy(), (graph.num_nodes, self.task.width))
        return Outcome(kept, scores, self.seconds, self.epoch, trusted, total)

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a sample of at most about 100,000 edges and the keep probability of each."""
        self.prepare()
        edges = self.sampled_edges(self.settings.train.seed + 1)
        if self.trust is None or edges.shape[1] == 0:
            return edges, np.ones(edges.shape[1], dtype=np.float32)
        return edges, self.trust.keep_of(edges, self.dense_rows)

    def _edges_total(self) -> int:
        self.prepare()
        assert self.sketches is not None
        return int(self.sketches.degree.sum(dtype=np.int64)) // 2


def _fields(batch: EdgeBatch) -> dict[str, Any]:
    return {entry.name: getattr(batch, entry.name) for entry in fields(EdgeBatch)}


def _some_pairs(batch: StreamedBatch, kept: np.ndarray) -> StreamedBatch:
    """Return the batch with the pairs at ``kept`` and their rows only."""
    chosen = torch.from_numpy(kept).to(batch.source.device)
    roles = [batch.source, batch.target] + ([] if batch.negative is None else [batch.negative])
    assert isinstance(batch.rows, Tensor)
    old = torch.stack(roles)[:, chosen]
    used = torch.zeros(len(batch.rows), dtype=torch.bool, device=old.device)
    used[old] = True
    places, rows = (used.cumsum(0) - 1)[old], used.nonzero().flatten()
    return StreamedBatch(
        nodes=batch.nodes[rows.cpu().numpy()],
        rows=batch.rows.index_select(0, rows),
        source=places[0],
        target=places[1],
        negative=None if batch.negative is None else places[2],
        negatives_in_batch=batch.negatives_in_batch,
        labels=batch.labels[:, chosen],
        index=batch.index[kept],
        soft=None if batch.soft is None else batch.soft.index_select(0, rows),
        ends=batch.ends[:, kept],
    )
