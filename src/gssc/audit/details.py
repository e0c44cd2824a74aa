"""What a reviewer sees after choosing an edge or a label: its nodes, their features and their neighbourhood."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.audit.findings import Findings

NEIGHBOURS_SHOWN = 8  # of each end
FEATURES_SHOWN = 4  # the most unusual ones of each end, and as many that are unusual in both
ROWS_AT_A_TIME = 8192


class Details:
    """Details of nodes and pairs of nodes, as plain values for JSON.

    Labels are given for training and validation nodes only: an audit never reads those of test nodes.

    Args:
        findings: result of the audit.
    """

    def __init__(self, findings: Findings):
        self.findings, graph = findings, findings.graph
        first, second = graph.edges
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        order = np.argsort(ends[0], kind="stable")
        self.others = ends[1][order]
        self.start = np.searchsorted(ends[0][order], np.arange(graph.num_nodes + 1))
        self.mean, self.spread = column_scale(graph.features)
        self.part = np.full(graph.num_nodes, "", dtype=object)
        self.part[graph.train], self.part[graph.val] = "training", "validation"

    def neighbours(self, node: int) -> np.ndarray:
        """Return the neighbours of a node, ascending."""
        return np.sort(self.others[self.start[node] : self.start[node + 1]])

    def node(self, node: int) -> dict[str, Any]:
        """Return name and number of edges of a node, its predicted class, and its label if training or validation."""
        findings, graph = self.findings, self.findings.graph
        about: dict[str, Any] = {"name": findings.node_name(node), "edges": len(self.neighbours(node))}
        if self.part[node]:
            about["part"] = self.part[node]
            if graph.task.has_classes:
                about["label"] = graph.output_names[graph.labels[node]]
        if findings.predicted is not None:
            about["predicted"] = int(findings.predicted[node])
        if findings.confidence is not None:
            about["confidence"] = round(float(findings.confidence[node]), 3)
        return about

    def pair(self, first: int, second: int) -> dict[str, Any]:
        """Return the details of two nodes: features side by side, common neighbours, and the others of each."""
        left, right = (np.setdiff1d(self.neighbours(node), [first, second]) for node in (first, second))
        common = np.intersect1d(left, right)
        return {
            "nodes": [self.node(first), self.node(second)],
            "features": self.features([first, second]),
            "common": self._some(common),
            "around": [self._some(np.setdiff1d(left, common)), self._some(np.setdiff1d(right, common))],
        }

    def single(self, node: int) -> dict[str, Any]:
        """Return the details of one node: features and neighbours."""
        return {
            "nodes": [self.node(node)],
            "features": self.features([node]),
            "around": [self._some(self.neighbours(node))],
        }

    def features(self, nodes: list[int]) -> list[list[Any]]:
        """Return the features that stand out: name, then value and z-score of each node.

        A feature stands out if it is far from its mean over all nodes, in units of its standard deviation, in one of
        the nodes, or above its mean in both.
        """
        rows: Any = self.findings.graph.features[nodes]
        values = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
        scores = (values - self.mean) / self.spread
        chosen: list[int] = []
        shared = [np.minimum(scores[0], scores[1])] if len(nodes) == 2 else []
        for ranked in (*shared, *np.abs(scores)):
            new = [at for at in np.argsort(-ranked, kind="stable")[: 3 * FEATURES_SHOWN].tolist() if at not in chosen]
            chosen += [at for at in new if ranked[at] > 0][:FEATURES_SHOWN]
        names = self.findings.graph.feature_names
        return [
            [
                names[at] if names else f"column {at}",
                *((_short(v), round(float(z), 2)) for v, z in zip(values[:, at], scores[:, at], strict=True)),
            ]
            for at in chosen
        ]

    def _some(self, nodes: np.ndarray) -> dict[str, Any]:
        """Return the names and predicted classes of at most eight nodes, and the number of all."""
        predicted = self.findings.predicted
        shown = [
            [self.findings.node_name(node), -1 if predicted is None else int(predicted[node])]
            for node in nodes[:NEIGHBOURS_SHOWN].tolist()
        ]
        return {"shown": shown, "total": len(nodes)}


def column_scale(features: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard deviation of every column, read a block at a time; a constant column has 1."""
    total, squares = np.zeros(features.shape[1]), np.zeros(features.shape[1])
    for start in range(0, features.shape[0], ROWS_AT_A_TIME):
        block = features[start : start + ROWS_AT_A_TIME].astype(np.float64)
        total += np.asarray(block.sum(axis=0)).ravel()
        squares += np.asarray((block.multiply(block) if sp.issparse(block) else block * block).sum(axis=0)).ravel()
    count = max(features.shape[0], 1)
    mean = total / count
    spread = np.sqrt(np.maximum(squares / count - mean**2, 0))
    return mean, np.where(spread > 1e-12, spread, 1)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
