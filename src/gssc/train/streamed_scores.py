"""The outcome of an epoch of streamed training: scores of a sample of nodes, and values about pairs, summed up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gssc.train.selection import Epoch
from gssc.train.training import Judge, Step

NO_EDGES = np.empty(0, dtype=np.int64)  # edges of a step: the kept ones are not stored


@dataclass
class StreamedStep(Step):
    """The output of an epoch, with the number of its pairs and their homophily, counted batch by batch."""

    pairs: int = 0
    homophily: float = math.nan
    pseudo_homophily: float = math.nan


class StreamedJudge(Judge):
    """Scores an epoch on a sample of nodes; values about edges come with the step."""

    def record(self, step: Step, epoch: int, seconds: float) -> Epoch:
        """Return the record of an epoch."""
        assert isinstance(step, StreamedStep)
        record = super().record(step, epoch, seconds)
        record.edges_kept, record.homophily = step.pairs, step.homophily
        record.pseudo_homophily = step.pseudo_homophily
        return record


class RowScores:
    """Logits of nodes, computed on access: ``scores[nodes]`` is an array [n, C]."""

    def __init__(self, scores: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int]):
        self.scores, self.shape = scores, shape

    def __getitem__(self, nodes: Any) -> np.ndarray:
        return self.scores(np.arange(self.shape[0])[nodes] if isinstance(nodes, slice) else np.asarray(nodes))

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype) if dtype else self[:]
