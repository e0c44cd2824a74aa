"""The default learner on a graph that stays on disk: an MLP learns from a linear teacher, on pairs and then on rows.

1. Sketches: each node gets a few principal components of its feature row and their averages over its neighbours, and
   edges get keep probabilities (:mod:`gssc.trust.streamed`).
2. Teacher: logistic regressions are fitted to labelled nodes, on rows, on sketches and on both. The one that is best on
   held-out labels is the teacher; its class probabilities are called its opinion.
3. Pairs: Algorithm 1 in a stream (:mod:`gssc.train.stream`). Both ends of every pair are trained towards the teacher's
   probabilities as well as towards known labels, so that a few labels in a large graph are enough.
4. Rows: the same MLP learns the teacher's probabilities for single rows, as a student does in memory, without reading
   edges. The input of the MLP is a feature row alone, and the MLP is what is deployed.

Ends of pairs are mixed at the outputs (``model.mix_at``) by one vector, with one norm for both heads, as in the text of
the paper: a row then passes through the network once per batch, and a pair takes a few operations per class.

The number of training steps does not depend on the size of the graph: ``teachers.pair_epochs`` epochs of
``teachers.pair_batches`` batches of 8,192 pairs, then 9 times as many epochs of as many batches of 1,024 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from gssc.calibration import PRIOR_ROWS, fit_temperature
from gssc.data.scaling import usual_normalization
from gssc.errors import GsscError
from gssc.features import Rows
from gssc.graph import Graph
from gssc.learner.jury import Jury, balanced_weights, some_of, some_of_each_class
from gssc.learner.linear import PENALTIES, logistic_map
from gssc.learner.settings import Config
from gssc.learner.student import USUAL_WIDTH
from gssc.train.edge_stream import prefetched
from gssc.train.optimize import falling
from gssc.train.selection import BestEpoch
from gssc.train.stream import StreamedTraining
from gssc.train.streamed_scores import NO_EDGES, StreamedStep
from gssc.trust.sketch import unit_rows, with_unit_factors
from gssc.trust.streamed import NUMBERS_AT_A_TIME, NodeSketches

MOST_LABELS = 10_000  # for fitting a teacher, and as many validation labels for ranking it
MOST_NUMBERS = 1 << 22  # values in the feature rows of these nodes, which limits memory for wide rows
ROW_EPOCHS = 9  # epochs of rows per epoch of pairs
PAIRS, PAIR_NUMBERS = 8192, 1 << 21  # per batch: pairs, and feature values, which limit the pairs if rows are wide
ROWS = 1024  # per batch of rows
DROPOUT = 0.1  # low, because a student has to follow its teacher closely
UNSEEN_CLASS = -30.0  # logit of a class without a training label

MANY_CLASSES = 16  # from here on torch's softmax of rows is faster than that of columns

# Maps the sketches and feature rows [n, d] of nodes to the inputs of a teacher, a list of blocks of columns [n, k], of
# which the teacher reads each row scaled to length one.
Inputs = Callable[[NodeSketches, np.ndarray], list[np.ndarray]]


@dataclass
class LinearTeacher:
    """A logistic regression on feature rows, sketches or both.

    Args:
        name: kind of inputs and penalty.
        inputs: function that returns the inputs of nodes from their sketches and scaled feature rows.
        weight: [k, C].
        bias: [C].
        temperature: divisor of the logits, for calibration.
    """

    name: str
    inputs: Inputs
    weight: np.ndarray
    bias: np.ndarray
    temperature: float = 1.0

    def logits(self, parts: list[np.ndarray]) -> np.ndarray:
        """Return the logits for inputs given as blocks of columns, [n, C]."""
        stops = np.cumsum([part.shape[1] for part in parts])[:-1]
        products = []
        for part, weight in zip(parts, np.split(self.weight, stops), strict=True):
            rows, factors = with_unit_factors(part)
            products.append((rows @ weight) * factors[:, None])
        return (sum(products) + self.bias) / self.temperature

    def __call__(self, sketches: NodeSketches, rows: np.ndarray) -> np.ndarray:
        """Return class probabilities of nodes with these sketches and scaled feature rows, [n, C]."""
        step = max(64, NUMBERS_AT_A_TIME // rows.shape[1])  # a few rows at a time: scaled copies of all take memory
        parts = [slice(start, start + step) for start in range(0, max(len(rows), 1), step)]
        found = [self.logits(self.inputs(sketches.some(part), rows[part])) for part in parts]
        logits = torch.from_numpy(np.concatenate(found))
        many = logits.shape[1] >= MANY_CLASSES
        opinion = logits.softmax(1) if many else logits.T.contiguous().softmax(0).T.contiguous()
        return opinion.float().numpy()


class StreamedLearner(StreamedTraining):
    """Trains the default learner in a stream, for graphs that do not fit into ``train.memory``.

    Args:
        graph: the problem, on disk, with one class per node.
        config: all settings.

    Attributes:
        choices: decisions made during training, with the reason for each.
    """

    uses_edge_weights = True
    config: Config

    def __init__(self, graph: Graph, config: Config):
        config.check()
        if not graph.task.has_classes:
            raise GsscError("the default learner needs one class per node; for several targets use model str_contrast")
        normalize: str = config.train.normalize
        normalize = usual_normalization(graph.features) if normalize == "auto" else normalize
        settings = config.for_pairs(normalize)
        self.pair_epochs = settings.train.epochs
        if config.teachers.linear:
            settings.train.epochs += ROW_EPOCHS * self.pair_epochs
        settings.train.batch_size = min(PAIRS, max(512, PAIR_NUMBERS // graph.num_features))
        settings.model.dropout = DROPOUT
        settings.model.mix_at, settings.model.mix_by, settings.model.head_norms = "output", "vector", "shared"
        settings.model.hidden, settings.model.layers = config.model.hidden or USUAL_WIDTH, config.model.layers or 2
        self.choices: dict[str, str] = {"normalize": normalize}
        best = BestEpoch(settings.train.patience, validation=len(graph.val) > 0)
        super().__init__(graph, config, settings, best)

    def prepare(self) -> None:
        """Compute the sketches, the trust in edges and the teacher, unless they exist."""
        if self.sketches is not None:
            return
        super().prepare()
        if (balanced := self.balanced_classes()) is not None:
            weight = torch.from_numpy(balanced).float()
            self.class_weight = weight if self.class_weight is None else self.class_weight * weight
        if self.config.teachers.linear:
            self.preparing = "teacher"
            self.teacher = self.best_teacher()

    def balanced_classes(self) -> np.ndarray | None:
        """Return balanced class weights, [C], or None if ``train.class_weight`` is not ``balanced``."""
        if self.config.train.class_weight != "balanced":
            return None
        return balanced_weights(self.graph.labels[self.graph.train], self.graph.num_classes)

    def epochs_ahead(self) -> dict[str, int]:
        """Return the number of remaining epochs of pairs and of rows, for progress bars."""
        pairs = max(0, self.pair_epochs - self.epoch)
        return {"pairs": pairs, "rows": self.settings.train.epochs - self.epoch - pairs}

    def train_epoch(self) -> StreamedStep:
        """Train one epoch, of pairs at first and then of rows, over which the learning rate falls to a hundredth."""
        if self.epoch < self.pair_epochs:
            return super().train_epoch()
        self.scale_learning_rate(falling((self.epoch - self.pair_epochs) / (ROW_EPOCHS * self.pair_epochs)))
        loss = self.descend_towards(prefetched(self.taught_rows(), self.ahead))
        return StreamedStep("rows", self.predict_judged(), NO_EDGES, {"classification_loss": loss})

    def taught_rows(self) -> Iterator[tuple[Rows, Tensor]]:
        """Yield the batches of an epoch of rows: random rows, in file order, and the teacher's probabilities."""
        assert self.teacher is not None
        assert self.sketches is not None
        for number in range(self.settings.train.max_batches):
            rng = np.random.default_rng([self.settings.train.seed, 16, self.epoch, number])
            nodes = np.unique(rng.integers(0, self.graph.num_nodes, ROWS))
            nodes = nodes if self.hidden is None else nodes[~self.hidden[nodes]]
            if len(nodes) > 1:
                nodes = nodes[self.processes.share(len(nodes))]
                rows = self.table.rows(nodes)
                assert isinstance(rows, Tensor)
                yield rows, torch.from_numpy(self.teacher(self.sketches.of_nodes(nodes), rows.cpu().numpy()))

    def best_teacher(self) -> LinearTeacher:
        """Return the regression that is best on held-out labels, over kinds of inputs and penalties."""
        graph, rng = self.graph, np.random.default_rng([self.settings.train.seed, 15])
        most = min(MOST_LABELS, max(1000, MOST_NUMBERS // graph.num_features))
        train = graph.train[some_of_each_class(graph.labels[graph.train], most, rng)]
        val = some_of(graph.val, most, rng)
        balanced = self.balanced_classes()
        val = val if balanced is None else val[balanced[graph.labels[val]] > 0]
        nodes, count = np.concatenate([train, val]), len(train)
        places = np.arange(count), np.arange(count, len(nodes))
        jury = Jury(graph.labels[nodes], *places, graph.num_classes, balanced, rng=rng)
        found: list[tuple[tuple[float, float], LinearTeacher]] = []
        assert self.sketches is not None
        rows, sketches = self.dense_rows(nodes), self.sketches.of_nodes(nodes)
        for name, inputs in KINDS_OF_INPUTS.items():
            parts = inputs(sketches, rows)
            of_nodes = np.hstack([unit_rows(part) for part in parts])
            for penalty in PENALTIES:
                views = [
                    fitted(of_nodes[view], jury.labels[view], graph.num_classes, penalty, jury.label_weight(view))
                    for view in jury.views
                ]
                teachers = [LinearTeacher(f"{name}, C={penalty:g}", inputs, *view) for view in views]
                logits = tuple(teacher.logits(parts) for teacher in teachers)
                if len(jury.truth):
                    teachers[-1].temperature = fit_temperature(jury.judged(logits), jury.truth, PRIOR_ROWS, jury.weight)
                opinions = tuple(softmax(part / teachers[-1].temperature, axis=1) for part in logits)
                found.append((jury.merit(opinions), teachers[-1]))
        merit, teacher = max(found, key=lambda entry: entry[0])
        self.choices["teacher"] = f"regression on {teacher.name}, held-out merit {merit[0]:.3f}"
        return teacher


KINDS_OF_INPUTS: dict[str, Inputs] = {  # inputs of teachers by name
    "rows": lambda sketches, rows: [rows],
    "sketches": lambda sketches, rows: sketches.parts(),
    "rows beside sketches": lambda sketches, rows: [rows, *sketches.parts()],
}


def fitted(
    inputs: np.ndarray, labels: np.ndarray, classes: int, penalty: float, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights [k, C] and bias [C] of a logistic regression; classes without a label get a very low bias."""
    found, bias = logistic_map(inputs, labels, classes, penalty, weight)
    return found, np.maximum(bias, UNSEEN_CLASS)
