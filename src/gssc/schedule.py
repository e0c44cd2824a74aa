"""The settings of training: schedule and objective of Algorithm 1, consolidation, and the schedule of other models.

This module needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gssc.settings import inherit_meanings, setting


@dataclass
class ScheduleSettings:
    """The schedule of a model that is trained by gradient steps.

    Args:
        epochs: maximum number of epochs.
        warmup_epochs: epochs on the full graph before a sparsifier that follows the homophily objective takes part.
        patience: epochs without a better validation result before stopping early.
        lr: learning rate.
        weight_decay: L2 penalty; some models put it on part of their weights only.
        normalize: how features are scaled, in training and in the deployed model: ``row`` divides each row by the sum
            of its absolute values, ``standard`` puts every column on mean zero and standard deviation one, ``asinh``
            also compresses long tails as a logarithm does, ``none`` leaves them as they are; ``auto`` is ``row``
            for sparse rows without negative values, such as bags of words, multiplied by one number that makes their
            mean length one; ``none`` for columns on a scale of about one, ``asinh`` if columns have long tails, else
            ``standard``.
        seed: seed of every random choice.
        threads: threads of the matrix products; the exact result depends on their number.
    """

    epochs: int = setting(300, low=0)
    warmup_epochs: int = setting(50, low=0)
    patience: int = setting(100, low=1)
    lr: float = setting(0.01, low=0)
    weight_decay: float = setting(5e-4, low=0)
    normalize: Literal["auto", "standard", "asinh", "row", "none"] = "auto"
    seed: int = setting(0, low=0, high=2**63 - 1)
    threads: int = setting(1, low=1, high=1024)

    def __init_subclass__(cls) -> None:
        inherit_meanings(cls)


@dataclass
class TrainSettings(ScheduleSettings):
    """The schedule of Algorithm 1.

    Args:
        epochs: epochs of alternating updates after the warm-up.
        warmup_epochs: epochs on the full graph before the sparsifier takes part.
        patience: epochs without a better validation result before stopping early; counted in the warm-up and
            afterwards separately.
        lr: learning rate of the classifier.
        weight_decay: L2 penalty of the classifier.
        mix_lr: learning rate of the module that computes beta; low by default, so that beta stays near the middle of
            its range.
        batch_size: edges per batch; both directions of an undirected edge are pairs of their own.
        max_batches: maximum number of batches per epoch (0: no limit), for graphs with many edges.
        average: decay of the running average of the weights, per step, that predicts and is deployed; 0 uses the
            weights as they are.
        device: where the model is trained: ``cpu``, or a device of torch such as ``cuda`` or ``mps``.
        mixed_precision: matrix products in bfloat16, losses and weights in float32: ``auto`` on CUDA devices that have
            bfloat16, ``on`` anywhere (on a CPU with ordinary torch operations, for tests), ``off``. Not yet measured on
            a GPU.
        memory: gigabytes that features and pairs of a graph on disk may take; a larger one is streamed.
    """

    epochs: int = setting(50, low=0)
    warmup_epochs: int = setting(60, low=0)
    patience: int = setting(50, low=1)
    normalize: Literal["auto", "standard", "asinh", "row", "none"] = "row"
    mix_lr: float = setting(1e-4, low=0)
    batch_size: int = setting(512, low=1)
    max_batches: int = setting(0, low=0)
    average: float = setting(0.0, low=0, high=0.99999)
    device: str = "cpu"
    mixed_precision: Literal["auto", "on", "off"] = "auto"
    memory: float = setting(0.25, low=0)


@dataclass
class ObjectiveSettings:
    """The classifier's loss, Eq. 9 to 13.

    Args:
        smoothness_weight: weight of the smoothness loss relative to the classification loss; 1 in the paper. Lower
            values suit graphs whose edges mostly join different classes.
        negatives: ``in_batch`` (endpoints of other edges of the batch: the text's degree-proportional
            distribution, without an extra pass), ``degree`` (the same distribution, drawn afresh), ``uniform``
            (released program), ``none`` (the ablation).
        negative_weight: weight of the negative term, which compares class probabilities.
        class_weights: ``endpoints`` weighs a class by labelled nodes / labelled edge endpoints; ``none`` is plain.
        center_weight: weight of the extra step per epoch that pulls, per class, the mean logits of labelled nodes
            and of nodes predicted as that class together; 0 leaves the step out (text).
    """

    smoothness_weight: float = setting(1.0, low=0)
    negatives: Literal["in_batch", "degree", "uniform", "none"] = "in_batch"
    negative_weight: float = setting(1.0, low=0)
    class_weights: Literal["endpoints", "none"] = "endpoints"
    center_weight: float = setting(1.0, low=0)


@dataclass
class ConsolidateSettings:
    """The last phase: cheap epochs that train towards the mean prediction of recent epochs and of neighbours.

    Args:
        epochs: epochs over single nodes, no pairs, with the learning rate falling to a hundredth; 0 leaves the phase
            out, and the best epoch by validation is kept (text, released program). With it, its last epoch is kept.
        steps: number of times that the mean prediction is averaged over neighbours, weighted by agreement.
    """

    epochs: int = setting(60, low=0)
    steps: int = setting(2, low=0)


@dataclass
class TeacherSettings:
    """The teacher of a distilled model.

    Args:
        name: a message-passing model, see ``gssc bench --list``; it is trained with the settings of its paper.
        max_epochs: maximum number of epochs; 0 for the number in its paper.
    """

    name: str = "sage"
    max_epochs: int = setting(0, low=0)
