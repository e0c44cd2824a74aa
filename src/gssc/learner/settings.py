"""The settings of the default learner."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from gssc.config import ContrastConfig, RunConfig
from gssc.models.settings import GsscSettings
from gssc.settings import setting
from gssc.sparsify.settings import EvidenceSettings

if TYPE_CHECKING:
    from typing import Self

STEPS_PER_EPOCH = 10  # steps of a student per epoch, in a run that is limited to a number of epochs


@dataclass
class TeachersSettings:
    """Teachers, whose predictions the student learns from.

    Args:
        linear: closed-form teachers on rows, spread rows, and own and neighbours' rows.
        trees: forests and boosted trees, and on dense rows kernel regressions, discriminant analysis and naive Bayes.
        pairs: Algorithm 1, an MLP trained on pairs: ``auto`` where edges help the linear teachers, but not so
            much that rows hardly matter; ``always``; ``never``.
        pair_epochs: epochs of Algorithm 1; a graph that is streamed from disk has 9 epochs of rows for each.
        pair_batches: batches per epoch, at most, however many edges the graph has: of 512 pairs, or of 8,192 for a
            graph that is streamed.
        correction: whether a map that is fitted to validation labels corrects the class shares of the teachers, and the
            classes that they confuse. ``auto``: if it raises the likelihood of labels that it was not fitted to;
            ``never``: validation labels are used for selection only.
        models: other models to use as teachers, separated by commas, such as ``gcn,sgformer`` (see gssc bench --list);
            on small graphs ``auto`` tries ``sage`` if averages over edges are not the best linear teacher and, with
            fewer than 50 validation labels, ``gcn`` if they are; ``none`` adds no model.
        best: with 200 labels or more to judge by, the students learn the mean of twice as many predictions, chosen one
            after the other, some of them several times; with fewer labels, a weighted mean of all predictions.
        rounds: maximum number of rounds in which students learn and then join the teachers.
    """

    linear: bool = True
    trees: bool = True
    pairs: Literal["auto", "always", "never"] = "auto"
    pair_epochs: int = setting(5, low=1)
    pair_batches: int = setting(20, low=1)
    correction: Literal["auto", "never"] = "auto"
    models: str = "auto"
    best: int = setting(5, low=1)
    rounds: int = setting(3, low=1)


@dataclass
class LearnerTrainSettings:
    """Training.

    Args:
        normalize: how rows are scaled, as part of the deployed model: ``auto`` decides by linear models on them,
            ``row`` divides rows by their sums, ``standard`` puts columns on one scale, ``asinh`` also compresses
            long tails, ``none`` leaves rows as they are.
        class_weight: ``none``, or ``balanced``: every class counts alike, however many labels it has.
        seed: seed of every random choice.
        threads: threads of the matrix products; part of what determines the exact result.
        memory: gigabytes that features and pairs of a graph on disk may take; a larger one is streamed.
    """

    normalize: Literal["auto", "row", "standard", "asinh", "none"] = "auto"
    class_weight: Literal["none", "balanced"] = "none"
    seed: int = setting(0, low=0, high=2**63 - 1)
    threads: int = setting(1, low=1, high=1024)
    memory: float = setting(0.25, low=0)


@dataclass
class Config(RunConfig):
    """All settings of one run of the default learner.

    Example:
        >>> config = Config()
        >>> config.train.seed = 3
        >>> config.teachers.pairs = "never"
        >>> config.check()
    """

    model: GsscSettings = field(default_factory=GsscSettings)
    teachers: TeachersSettings = field(default_factory=TeachersSettings)
    sparsifier: Any = field(default_factory=EvidenceSettings)
    train: LearnerTrainSettings = field(default_factory=LearnerTrainSettings)

    @property
    def total_epochs(self) -> int:
        """Approximate number of records of a run, for progress bars."""
        return self.teachers.pair_epochs + self.teachers.rounds * 60

    def shortened(self, epochs: int) -> Self:
        """Return settings with at most this many epochs of pairs, one round and short students; unchanged for 0."""
        if not epochs:
            return self
        teachers = replace(self.teachers, pair_epochs=min(self.teachers.pair_epochs, epochs), rounds=1, trees=False)
        steps = min(self.model.steps or STEPS_PER_EPOCH * epochs, STEPS_PER_EPOCH * epochs)
        return replace(self, teachers=teachers, model=replace(self.model, steps=steps))

    def for_pairs(self, normalize: str) -> ContrastConfig:
        """Return the settings of pair training, with rows scaled by ``normalize``."""
        config = ContrastConfig(sparsifier=self.sparsifier)
        config.train.seed, config.train.threads = self.train.seed, self.train.threads
        config.train.normalize = normalize  # type: ignore[assignment]  # one of its choices
        config.train.warmup_epochs, config.train.epochs = 0, self.teachers.pair_epochs
        config.train.max_batches, config.train.patience = self.teachers.pair_batches, 10**9
        config.consolidate.epochs = 0
        return config
