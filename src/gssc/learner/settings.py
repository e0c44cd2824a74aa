"""The settings of the default learner."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gssc.config import Config, DataConfig, RunConfig, SparsifierConfig

NAME = "gssc"


@dataclass
class LearnerModelConfig:
    """The student, the MLP that is deployed.

    Args:
        name: ``gssc``.
        hidden: width of every hidden layer.
        layers: number of hidden layers; 0 decides by the data: one for wide rows, two for narrow ones.
    """

    name: Literal["gssc"] = "gssc"
    hidden: int = 256
    layers: int = 0


@dataclass
class TeachersConfig:
    """Whose opinions the student learns from.

    Args:
        linear: closed-form teachers on rows, spread rows, and own and neighbours' rows.
        trees: forests, boosted trees and kernel regressions.
        pairs: Algorithm 1, an MLP trained on pairs: ``auto`` where the graph helps the linear teachers, ``always``,
            ``never``.
        pair_epochs: epochs of it; an epoch has at most ``pair_batches`` batches of 512 pairs, whatever the graph.
        pair_batches: see ``pair_epochs``.
        models: names of other models to hear, separated by commas, such as ``gcn,sgformer``; see gssc bench --list.
        best: number of opinions whose mean is the teacher.
        rounds: how often students learn from the teacher and join the pool of opinions.
    """

    linear: bool = True
    trees: bool = True
    pairs: Literal["auto", "always", "never"] = "auto"
    pair_epochs: int = 50
    pair_batches: int = 20
    models: str = ""
    best: int = 5
    rounds: int = 3


@dataclass
class LearnerTrainConfig:
    """What every training has.

    Args:
        normalize: how rows are scaled, as part of the deployed model: ``auto`` decides by the linear teachers,
            ``row`` divides rows by their sums, ``standard`` puts columns on one scale, ``none`` does neither.
        class_weight: ``none``, or ``balanced``: every class counts alike, however many labels it has.
        seed: every random choice follows from it.
        threads: threads of the matrix products; part of what determines the exact result.
    """

    normalize: Literal["auto", "row", "standard", "none"] = "auto"
    class_weight: Literal["none", "balanced"] = "none"
    seed: int = 0
    threads: int = 1


def _trusting() -> SparsifierConfig:
    return SparsifierConfig(name="evidence")


@dataclass
class LearnerConfig(RunConfig):
    """All settings of one run of the default learner."""

    data: DataConfig = field(default_factory=DataConfig)
    model: LearnerModelConfig = field(default_factory=LearnerModelConfig)
    teachers: TeachersConfig = field(default_factory=TeachersConfig)
    sparsifier: SparsifierConfig = field(default_factory=_trusting)
    train: LearnerTrainConfig = field(default_factory=LearnerTrainConfig)

    @classmethod
    def sections(cls, model: str) -> dict[str, Any]:
        """The class of each section."""
        return {**super().sections(model), "sparsifier": SparsifierConfig}

    @property
    def total_epochs(self) -> int:
        """A rough count, for progress bars."""
        return self.teachers.pair_epochs + self.teachers.rounds * 60

    def shortened(self, epochs: int) -> LearnerConfig:
        """The same with at most this many epochs of pairs, and one round; 0 leaves it as it is."""
        if not epochs:
            return self
        pairs = min(self.teachers.pair_epochs, epochs)
        return replace(self, teachers=replace(self.teachers, pair_epochs=pairs, rounds=1))

    def pair_config(self, normalize: str) -> Config:
        """Settings of the pair training."""
        config = Config(sparsifier=self.sparsifier)
        config.train.seed, config.train.threads, config.train.normalize = self.train.seed, self.train.threads, normalize  # type: ignore[assignment]
        config.train.warmup_epochs, config.train.epochs = 0, self.teachers.pair_epochs
        config.train.max_batches, config.train.patience = self.teachers.pair_batches, 10**9
        config.consolidate.epochs = 0
        return config
