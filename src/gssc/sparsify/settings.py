"""Settings of all sparsifiers. This module needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gssc.settings import inherit_meanings, setting


@dataclass
class SparsifierSettings:
    """The sparsifier, which decides the edges to train on.

    Args:
        name: name of the sparsifier, see ``gssc bench --list``; ``none`` keeps every edge (the ablation).
    """

    name: str = "none"

    def __init_subclass__(cls) -> None:
        inherit_meanings(cls)


@dataclass
class LearnedSettings(SparsifierSettings):
    """Settings common to all learned sparsifiers.

    Args:
        objective: training objective of the sparsifier if the model does not use edges: ``ratio`` (released program:
            mean weight of disagreeing over agreeing kept edges), ``share`` (Eq. 16), ``masked_smoothness`` (Eq. 14,
            the counter-example that empties the graph).
        lr: learning rate of the sparsifier.
    """

    objective: Literal["ratio", "share", "masked_smoothness"] = "ratio"
    lr: float = setting(0.01, low=0)


@dataclass
class ShareSettings(SparsifierSettings):
    """Settings of a sparsifier that keeps a share of the edges.

    Args:
        keep: share of the edges kept.
    """

    keep: float = setting(0.8, low=0.01, high=1)


@dataclass
class DropEdgeSettings(ShareSettings):
    """Settings of DropEdge."""

    name: str = "drop_edge"


@dataclass
class SpectralSparsifierSettings(ShareSettings):
    """Settings of the spectral sparsifier."""

    name: str = "spectral"


@dataclass
class RankDegreeSettings(ShareSettings):
    """Settings of Rank Degree."""

    name: str = "rank_degree"


@dataclass
class SpectralRankDegreeSettings(ShareSettings):
    """Settings of SS/RD."""

    name: str = "ss_rd"


@dataclass
class LDSSettings(LearnedSettings):
    """Settings of LDS: those common to all learned sparsifiers."""

    name: str = "lds"


@dataclass
class NeuralSparseSettings(LearnedSettings):
    """Settings of NeuralSparse.

    Args:
        hidden: width of the hidden layer that scores a pair.
        temperature: temperature of the relaxed picks.
        neighbours: k, the number of picks per node.
    """

    name: str = "neural_sparse"
    hidden: int = setting(256, low=1, high=2**20)
    temperature: float = setting(0.5, low=1e-3)
    neighbours: int = setting(5, low=1)


@dataclass
class GAUGSettings(LearnedSettings):
    """Settings of GAUG-O.

    Args:
        hidden: twice the width of its encoder.
        temperature: temperature of the relaxed sample.
        proposals: number of proposed edges, as a share of the given ones.
        predicted: share of the edge predictor in the mix with the observed edge, the alpha of its paper.
        predictor_weight: weight of the edge predictor's own loss, the beta of its paper.
        pretrain_epochs: initial steps that train it to distinguish edges from non-edges.
    """

    name: str = "gaug"
    hidden: int = setting(256, low=1, high=2**20)
    temperature: float = setting(0.5, low=1e-3)
    proposals: float = setting(0.5, low=0)
    predicted: float = setting(0.8, low=0, high=1)
    predictor_weight: float = setting(1.0, low=0)
    pretrain_epochs: int = setting(100, low=0)


@dataclass
class EvidenceSettings(SparsifierSettings):
    """Settings of the sparsifier evidence, which has no options."""

    name: str = "evidence"


@dataclass
class STRSparseSettings(LearnedSettings):
    """Settings of STR-Sparse (Sec. III-B of the paper).

    Args:
        hidden: width of the scoring space.
        maps: linear maps from features to scores: 1 (text) or 2 in a row (released program).
        score: ``dot`` scores an edge by z_i . z_j (Eq. 5), ``mean`` divides this by the width, which keeps the
            sigmoid from saturating on dense features.
        alpha: share of the observed edge in M = (1 - alpha) lambda + alpha A.
        temperature: temperature tau of the relaxed sample.
        noise: ``logistic`` keeps an edge with probability M (released program); ``gumbel`` adds one Gumbel variate to
            log M and cuts at 1/2, as written in Eq. 6.
        pretrain_epochs: initial steps that train it to keep every edge.
        start: ``keep_all`` (text, released program: scores alone decide), or ``evidence``: the score is a correction to
            the log odds of the sparsifier ``evidence``; pretraining and alpha are then not used.
    """

    name: str = "str_sparse"
    hidden: int = setting(256, low=1, high=2**20)
    maps: Literal[1, 2] = 2
    score: Literal["dot", "mean"] = "mean"
    alpha: float = setting(0.1, low=0, high=1)
    temperature: float = setting(0.5, low=1e-3)
    noise: Literal["logistic", "gumbel"] = "logistic"
    pretrain_epochs: int = setting(100, low=0)
    start: Literal["keep_all", "evidence"] = "keep_all"
