"""Training: the common interface of all trainings, built from a graph and settings, run epoch by epoch, and resumable.

:func:`gssc.train.registry.training_class` returns the class for each model.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gssc.errors import GsscError
from gssc.tasks import Task
from gssc.train.checkpoint import State, restore_rng, rng_state
from gssc.train.distributed import processes
from gssc.train.process import computing
from gssc.train.selection import BestEpoch, Epoch, Judge, Step

if TYPE_CHECKING:
    from gssc.config import RunConfig
    from gssc.data.scaling import Scaling
    from gssc.deploy import DeployedModel
    from gssc.graph import Graph

__all__ = [
    "Diverged",
    "Epoch",
    "Judge",
    "NeedsGraph",
    "Outcome",
    "State",
    "Step",
    "Training",
    "deployed_mlp",
    "training_labels",
]


class Diverged(GsscError):
    """Raised if a loss or a prediction is no longer a finite number.

    Args:
        where: the epoch, and the batch if known, for the message.
        remedy: suggested change of settings.
    """

    def __init__(self, where: str, remedy: str = "lower the learning rate"):
        super().__init__(
            f"training diverged in {where}: the loss is no longer a finite number; {remedy}, or scale features that "
            "are far too large"
        )


class NeedsGraph(GsscError):
    """Raised if a model cannot be deployed as a plain MLP; the message has the reason."""


@dataclass
class Outcome:
    """Result of a finished training.

    Args:
        kept: the epoch whose weights were kept, with its scores; nothing is chosen by its ``test_score``.
        scores: logits (or shares) of every node of the graph, test nodes in the graph's setting, [N, C].
        seconds: time of training, without reading data and without computing scores for the record.
        epochs: number of epochs trained.
        edges_kept: number of undirected edges kept by the sparsifier at the end.
        edges_total: number of undirected edges visible in training.
        val_scores: scores of the validation nodes by a model that was not trained on their rows, for calibration,
            [V, C]; None for those in ``scores``.
    """

    kept: Epoch
    scores: np.ndarray
    seconds: float
    epochs: int
    edges_kept: int
    edges_total: int
    val_scores: np.ndarray | None = None

    @property
    def val_score(self) -> float:
        """Validation score of the kept epoch, by the task's metric."""
        return self.kept.val_score

    @property
    def test_score(self) -> float:
        """Test score of the kept epoch."""
        return self.kept.test_score

    def measured(self) -> dict[str, float]:
        """Return the values that a comparison records, by the columns of its store."""
        return {
            "val_score": self.val_score,
            "test_score": self.test_score,
            "seconds": round(self.seconds, 3),
            "epochs": self.epochs,
            "edges_kept": self.edges_kept,
            "edges_total": self.edges_total,
        }


class Training(ABC):
    """One training of one model on one graph.

    A subclass implements :meth:`steps`, :meth:`components`, :meth:`kept_weights`, :meth:`restore_best` and the methods
    that return results. It sets :attr:`judge` at construction.

    Args:
        graph: the problem. Training uses only :meth:`~gssc.graph.Graph.training_view` of it.
        config: all settings; ``config.model.name`` is the model.
        best: keeps the best epoch; by default by validation score.

    Attributes:
        scaling: how feature rows are scaled.
        epoch: number of the next epoch.
        seconds: time spent so far.
        best: the best epoch so far.
        counters: names of the plain attributes that are part of the state.
        several_processes: whether processes started by torchrun can share its work.
        streams: whether a graph on disk stays there; otherwise it is read into memory first.
        maps_rows: whether memory-mapped features stay on disk if the edges are in memory.
    """

    judge: Judge
    streams: ClassVar[bool] = False
    maps_rows: ClassVar[bool] = False
    counters: ClassVar[tuple[str, ...]] = ("epoch", "seconds")
    scaling: Scaling
    several_processes: ClassVar[bool] = False

    def __init__(self, graph: Graph, config: RunConfig, best: BestEpoch | None = None):
        config.check()
        if processes().count > 1 and not self.several_processes:
            raise GsscError(
                f"model {config.model.name} trains in one process: start it without torchrun, or use --model "
                "str_contrast, or a graph on disk, which is streamed"
            )
        if len(graph.train) == 0:
            raise GsscError(
                f"graph {graph.name!r} has no training labels; give some nodes a label and put them in train"
            )
        graph = self.loaded(graph)
        self.graph, self.config, self.task = graph, config, graph.task
        if not self.streams:
            self.seen, self.seen_nodes = graph.training_view()
        self.rng = np.random.Generator(np.random.SFC64(config.train.seed))
        self.best = best or BestEpoch(config.train.patience, validation=len(graph.val) > 0)
        self.epoch = 0
        self.seconds = 0.0

    @classmethod
    def loaded(cls, graph: Graph) -> Graph:
        """Return the graph in memory, or as it is if this training reads it from disk."""
        from_disk = cls.streams or (cls.maps_rows and not graph.on_disk)
        return graph if from_disk else graph.in_memory()

    def epochs(self) -> Iterator[Epoch]:
        """Yield the records of all epochs from the current state on; at the end the best weights are loaded.

        The run may be interrupted at every yield and resumed from :meth:`state_dict`. Threads and allocator are set for
        the run and restored when the iterator ends or is closed.
        """
        with computing(self.config.train.threads):
            steps = self.steps()
            while (step := self._timed(steps)) is not None:
                if not step.scores.isfinite().all():
                    raise Diverged(f"epoch {self.epoch} ({step.phase})")
                record = self.judge.record(step, self.epoch, self.seconds)
                if self.best.judge(record):
                    self.best.weights = copy.deepcopy(self.kept_weights())
                self.epoch += 1
                yield record
            if self.best.record is not None:
                self.restore_best(self.best.weights)

    def _timed(self, steps: Iterator[Step]) -> Step | None:
        started = time.perf_counter()
        try:
            return next(steps, None)
        finally:
            self.seconds += time.perf_counter() - started

    def state_dict(self) -> State:
        """Return everything needed to resume: nested tensors and plain values, all of them copies."""
        parts = {name: part.state_dict() for name, part in self.components().items()}
        counters = {name: getattr(self, name) for name in self.counters}
        return copy.deepcopy(
            {"counters": counters, "rng": rng_state(self.rng), "best": self.best.state_dict(), **parts}
        )

    def load_state_dict(self, state: State) -> None:
        """Restore a state of :meth:`state_dict`."""
        for name, part in self.components().items():
            part.load_state_dict(copy.deepcopy(state[name]))
        self.restore_counters(state["counters"], *self.counters)
        self.best.load_state_dict(state["best"])
        restore_rng(self.rng, state["rng"])

    def restore_counters(self, counters: State, *names: str) -> None:
        """Restore counters by name. Raises ValueError for an invalid ``epoch``, which must be among them."""
        for name in names:
            setattr(self, name, counters[name])
        if not isinstance(self.epoch, int) or self.epoch < 0:
            raise ValueError(f"epoch {self.epoch!r}")

    @property
    def weighs_edges(self) -> bool:
        """Whether keep probabilities are learned or estimated, so that they should differ between edges."""
        sparsifier = getattr(self, "sparsifier", None)
        return sparsifier is not None and bool(sparsifier.trains)

    def kept(self) -> Epoch:
        """Return the record of the kept epoch."""
        if self.best.record is None:
            raise GsscError("nothing was trained: the schedule has no epochs")
        return self.best.record

    @abstractmethod
    def steps(self) -> Iterator[Step]:
        """Yield one step of updates per epoch, from the current state on."""

    @abstractmethod
    def components(self) -> dict[str, Any]:
        """Return the parts that have a state, each with ``state_dict`` and ``load_state_dict``."""

    @abstractmethod
    def kept_weights(self) -> State:
        """Return the weights to keep if the latest epoch is the best so far; the caller copies them."""

    @abstractmethod
    def restore_best(self, weights: State) -> None:
        """Load weights of :meth:`kept_weights`."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """Return the result of the training, after the end of :meth:`epochs`."""

    @abstractmethod
    def deployed(self) -> DeployedModel:
        """Return the model as a plain MLP. Raises :class:`NeedsGraph` with the reason if it cannot be one."""

    def note(self) -> str | None:
        """Return a one-line warning about the result; None if there is none."""
        return None

    @abstractmethod
    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the sparsifier by node numbers of the graph, [2, E], and their keep probabilities."""


def scored(record: Epoch, task: Task, graph: Graph, scores: np.ndarray) -> Epoch:
    """Return the record with the test score computed from the scores of all nodes, [N, C]."""
    return replace(record, test_score=task.score(scores[graph.test], graph.labels[graph.test]))


def deployed_mlp(
    graph: Graph, layers: list[tuple[np.ndarray, np.ndarray]], activation: str, scaling: Scaling
) -> DeployedModel:
    """Return the MLP of these (weight [out, in], bias) pairs, with the names of the graph's classes and columns.

    It takes raw rows: the scaling of training is part of the model.
    """
    from gssc.deploy import DeployedModel
    from gssc.deploy.activations import activations_of

    layers = [scaling.folded(layers[0]), *layers[1:]]
    if (squashing := scaling.squashing_layer()) is not None:
        activation = ",".join(["asinh", *activations_of(activation, len(layers) - 1)])
        layers = [squashing, *layers]
    return DeployedModel(
        layers=layers,
        class_names=list(graph.output_names),
        activation=activation,
        normalize=scaling.normalize,
        task=graph.task.name,  # type: ignore[arg-type]
        feature_names=list(graph.feature_names) if graph.feature_names else None,
    )


def training_labels(graph: Graph) -> Tensor:
    """Return the labels visible in training: those of train nodes; -1 or NaN for all others."""
    labels = graph.task.unknown(graph.num_nodes)
    train = torch.from_numpy(graph.train)
    labels[train] = torch.from_numpy(graph.labels[graph.train]).to(labels.dtype)
    return labels
