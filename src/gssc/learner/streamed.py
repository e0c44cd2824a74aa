"""The default learner on a graph that stays on disk: a linear teacher on rows and sketches teaches pairs, then rows.

1. Sketches of every node and trust in edges (:mod:`gssc.trust.streamed`).
2. A teacher: logistic regressions on the labelled nodes' rows, alone and beside their sketches. Held-out labels choose.
3. Pairs: Algorithm 1 in a stream (:mod:`gssc.train.stream`). Both ends of every pair are trained towards the teacher's
   opinion as well as towards known labels, so that a few labels in a large graph are enough.
4. Rows: the same MLP learns the teacher's opinion of single rows, as a student does in memory; this reads no edges. The
   MLP sees feature rows alone and is what is deployed.

Ends of pairs are mixed at the outputs (``model.mix_at``) by one vector, with one norm for both heads, as in the text of
the paper: a row then passes the network once per batch, and a pair costs a few numbers per class.

The cost follows from the settings, whatever the size of the graph: ``teachers.pair_epochs`` epochs of
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
from gssc.data.disk import release_pages
from gssc.data.scaling import usual_normalization
from gssc.errors import GsscError
from gssc.extras import require
from gssc.features import Rows
from gssc.graph import Graph
from gssc.learner.jury import Jury
from gssc.learner.linear import PENALTIES, quiet
from gssc.learner.settings import Config
from gssc.train.edge_stream import prefetched
from gssc.train.optimize import falling
from gssc.train.selection import BestEpoch
from gssc.train.stream import NO_EDGES, StreamedStep, StreamedTraining
from gssc.trust.sketch import unit_rows

MOST_LABELS = 10_000  # that a teacher is fitted to, and as many that judge it
MOST_NUMBERS = 1 << 22  # of the feature rows of these, so that wide rows do not take much memory
ROW_EPOCHS = 9  # of rows, for each of teachers.pair_epochs
PAIRS, PAIR_NUMBERS = 8192, 1 << 21  # of a batch; fewer pairs if these would have more than so many features
ROWS = 1024  # of a batch of rows
DROPOUT = 0.1  # a student has to follow its teacher closely
UNSEEN_CLASS = -30.0  # logit of a class without a training label

Inputs = Callable[[np.ndarray, np.ndarray], np.ndarray]  # node numbers [n] and feature rows [n, d] to inputs [n, k]


@dataclass
class LinearTeacher:
    """A logistic regression on inputs that any node has.

    Args:
        name: kind of inputs and penalty.
        inputs: gives the inputs of nodes, from their numbers and scaled feature rows.
        weight: [k, C].
        bias: [C].
        temperature: what logits are divided by.
    """

    name: str
    inputs: Inputs
    weight: np.ndarray
    bias: np.ndarray
    temperature: float = 1.0

    def logits(self, inputs: np.ndarray) -> np.ndarray:
        """Logits of inputs, [n, C]."""
        return (inputs @ self.weight + self.bias) / self.temperature

    def __call__(self, nodes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Class probabilities of nodes with these scaled feature rows, [n, C]."""
        logits = torch.from_numpy(self.logits(self.inputs(nodes, rows)))
        return logits.T.contiguous().softmax(0).T.float().numpy()  # fast for few classes


class StreamedLearner(StreamedTraining):
    """The default learner in a stream; for graphs that do not fit into ``train.memory``.

    Args:
        graph: the problem, on disk, with one class per node.
        config: all settings.

    Attributes:
        choices: what was decided, and why.
    """

    config_class = Config
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
        settings.model.hidden, settings.model.layers = config.model.hidden, config.model.layers or 2
        self.choices: dict[str, str] = {"normalize": normalize}
        best = BestEpoch(settings.train.patience, validation=len(graph.val) > 0)
        super().__init__(graph, config, settings, best)

    def prepare(self) -> None:
        """Sketches, trust and the teacher, if they were not made yet."""
        if self.sketches is not None:
            return
        super().prepare()
        if self.config.teachers.linear:
            self.teacher = self.best_teacher()

    def epochs_ahead(self) -> dict[str, int]:
        """Return the number of epochs of pairs and of rows still to come, for progress."""
        pairs = max(0, self.pair_epochs - self.epoch)
        return {"pairs": pairs, "rows": self.settings.train.epochs - self.epoch - pairs}

    def train_epoch(self) -> StreamedStep:
        """An epoch of pairs or, after those, of rows, whose learning rate falls to a hundredth."""
        if self.epoch < self.pair_epochs:
            return super().train_epoch()
        self.scale_learning_rate(falling((self.epoch - self.pair_epochs) / (ROW_EPOCHS * self.pair_epochs)))
        loss = self.descend_towards(prefetched(self.taught_rows(), self.ahead))
        release_pages(self.graph.features)
        return StreamedStep("rows", self.predict_judged(), NO_EDGES, {"classification_loss": loss})

    def taught_rows(self) -> Iterator[tuple[Rows, Tensor]]:
        """Rows drawn at random, in the order of the file, and the teacher's opinion of them, one epoch's batches."""
        assert self.teacher is not None
        for number in range(self.settings.train.max_batches):
            rng = np.random.default_rng([self.settings.train.seed, 16, self.epoch, number])
            nodes = np.unique(rng.integers(0, self.graph.num_nodes, ROWS))
            nodes = nodes if self.hidden is None else nodes[~self.hidden[nodes]]
            if len(nodes) > 1:
                nodes = nodes[self.processes.share(len(nodes))]
                rows = self.table.rows(nodes)
                assert isinstance(rows, Tensor)
                yield rows, torch.from_numpy(self.teacher(nodes, rows.cpu().numpy()))

    def best_teacher(self) -> LinearTeacher:
        """The regression that held-out labels favour."""
        graph, rng = self.graph, np.random.default_rng([self.settings.train.seed, 15])
        most = min(MOST_LABELS, max(1000, MOST_NUMBERS // graph.num_features))
        train, val = (
            part if len(part) <= most else np.sort(rng.choice(part, most, replace=False))
            for part in (graph.train, graph.val)
        )
        nodes = np.concatenate([train, val])
        jury = Jury(
            graph.labels[nodes], np.arange(len(train)), np.arange(len(train), len(nodes)), graph.num_classes, rng=rng
        )
        found: list[tuple[tuple[float, float], LinearTeacher]] = []
        rows = self.dense_rows(nodes)
        for name, inputs in self.kinds_of_inputs().items():
            of_nodes = inputs(nodes, rows)
            for penalty in PENALTIES:
                views = [fitted(of_nodes[view], jury.labels[view], graph.num_classes, penalty) for view in jury.views]
                teachers = [LinearTeacher(f"{name}, C={penalty:g}", inputs, *view) for view in views]
                logits = tuple(teacher.logits(of_nodes) for teacher in teachers)
                if len(jury.truth):
                    teachers[-1].temperature = fit_temperature(jury.judged(logits), jury.truth, PRIOR_ROWS)
                opinions = tuple(softmax(part / teachers[-1].temperature, axis=1) for part in logits)
                found.append((jury.merit(opinions), teachers[-1]))
        merit, teacher = max(found, key=lambda entry: entry[0])
        self.choices["teacher"] = f"regression on {teacher.name}, held-out merit {merit[0]:.3f}"
        return teacher

    def kinds_of_inputs(self) -> dict[str, Inputs]:
        """What teachers may look at, by name."""
        sketches = self.sketches
        assert sketches is not None

        def of_rows(nodes: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return np.asarray(unit_rows(rows))

        def of_sketches(nodes: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return sketches.rows(nodes)

        def beside(nodes: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return np.hstack([unit_rows(rows), sketches.rows(nodes)])

        return {"rows": of_rows, "sketches": of_sketches, "rows beside sketches": beside}


def fitted(inputs: np.ndarray, labels: np.ndarray, classes: int, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights [k, C] and bias [C] of a logistic regression; classes without a label get a very low bias."""
    weight, bias = np.zeros((inputs.shape[1], classes), dtype=np.float32), np.full(classes, UNSEEN_CLASS, np.float32)
    present = np.unique(labels)
    bias[present] = 0
    if len(present) > 1:
        model = require("sklearn.linear_model", extra="data").LogisticRegression(C=penalty, max_iter=100, tol=1e-3)
        with quiet():
            model.fit(inputs, labels)
        if len(present) == 2:
            weight[:, present[1]], bias[present[1]] = model.coef_[0], model.intercept_[0]
        else:
            weight[:, present], bias[present] = model.coef_.T, model.intercept_
    return weight, bias
