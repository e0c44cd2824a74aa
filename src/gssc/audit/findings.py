"""The result of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gssc.graph import Graph

DOUBTED = 0.5  # an edge or label with a higher score is called doubtful


@dataclass(frozen=True, eq=False)
class Ranking:
    """Edges or labels from the most to the least doubtful.

    Args:
        nodes: the two ends of each edge [n, 2], or the node of each label [n, 1].
        score: doubt, higher is more doubtful, [n].
        evidence: values by name, each [n], NaN where unknown; some are only shown and do not enter the score.
    """

    nodes: np.ndarray
    score: np.ndarray
    evidence: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def of(cls, nodes: np.ndarray, score: np.ndarray, evidence: Mapping[str, np.ndarray]) -> Ranking:
        """Sort by descending score; equal scores stay in the given order."""
        order = np.argsort(-score, kind="stable")
        return cls(nodes[order], score[order], {name: values[order] for name, values in evidence.items()})


@dataclass(frozen=True, eq=False)
class DuplicateGroup:
    """Nodes whose feature rows are the same, or nearly so.

    Args:
        nodes: their numbers, ascending.
        identical: whether all rows are equal, number for number.
        conflicting: whether two of them have different training labels.
        crosses_split: whether one is a training node and another a validation or test node.
    """

    nodes: np.ndarray
    identical: bool
    conflicting: bool
    crosses_split: bool


@dataclass(frozen=True, eq=False)
class Findings:
    """The result of :func:`gssc.audit.audit_run`.

    Args:
        graph: the audited graph.
        class_names: one per class.
        edges: every edge, by doubt.
        labels: every training label, by doubt; evidence ``label`` and ``suggested`` are class numbers.
        predicted: likeliest class of every node by the model, [N]; None for multi-label targets.
        duplicates: groups of nodes with (nearly) the same features.
        isolated: nodes without an edge.
        featureless: nodes whose features are all zero.
        notes: remarks for the reader.
        confidence: probability of the predicted class of every node, [N]; None for multi-label targets.
    """

    graph: Graph
    class_names: tuple[str, ...]
    edges: Ranking
    labels: Ranking
    predicted: np.ndarray | None
    duplicates: list[DuplicateGroup]
    isolated: np.ndarray
    featureless: np.ndarray
    notes: list[str] = field(default_factory=list)
    confidence: np.ndarray | None = None

    def node_name(self, node: int) -> str:
        """Return the id of a node, or its number if the graph has no ids."""
        ids = self.graph.node_ids
        return str(node if ids is None else ids[node])
