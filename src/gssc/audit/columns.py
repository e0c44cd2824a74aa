"""Findings as columns of text and numbers, the same for the page, the table and the terminal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from gssc.audit.findings import DuplicateGroup, Findings, Ranking

FEATURES_SHOWN = 4
Value = str | float | int


class Column(NamedTuple):
    """A name and one value per row."""

    name: str
    values: list[Value]

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return not any(isinstance(value, str) for value in self.values)


def edge_columns(findings: Findings, start: int, stop: int, features: bool = False) -> list[Column]:
    """Return edges from rank `start` to `stop`: ends, score, predicted classes, evidence.

    Args:
        findings: result of the audit.
        start, stop: ranks, from 0.
        features: also the strongest features of both ends, by name, if they have names.
    """
    ranking = findings.edges
    nodes = ranking.nodes[start:stop]
    columns = [Column("rank", list(range(start + 1, start + len(nodes) + 1)))]
    for place, name in enumerate(("node", "other")):
        columns.append(Column(name, [findings.node_name(node) for node in nodes[:, place].tolist()]))
    columns.append(_numbers("score", ranking.score[start:stop]))
    if findings.predicted is not None:
        for place, name in enumerate(("predicted", "other_predicted")):
            columns.append(_classes(name, findings, findings.predicted[nodes[:, place]]))
    columns += _evidence(ranking, start, stop)
    if features and findings.graph.feature_names:
        for place, name in enumerate(("features_of_node", "features_of_other")):
            columns.append(Column(name, [strongest_features(findings, node) for node in nodes[:, place].tolist()]))
    return columns


def label_columns(findings: Findings, start: int, stop: int, features: bool = False) -> list[Column]:
    """Return labels from rank `start` to `stop`: node, score, the label, the suggested class, evidence."""
    ranking = findings.labels
    nodes = ranking.nodes[start:stop, 0].tolist()
    columns = [
        Column("rank", list(range(start + 1, start + len(nodes) + 1))),
        Column("node", [findings.node_name(node) for node in nodes]),
        _numbers("score", ranking.score[start:stop]),
    ]
    for name in ("label", "suggested"):
        if name in ranking.evidence:
            columns.append(_classes(name, findings, ranking.evidence[name][start:stop]))
    columns += _evidence(ranking, start, stop)
    if features and findings.graph.feature_names:
        columns.append(Column("features_of_node", [strongest_features(findings, node) for node in nodes]))
    return columns


def group_columns(findings: Findings, groups: list[DuplicateGroup], most: int) -> list[Column]:
    """Return groups of duplicates: size, why they matter, and at most ``most`` of their nodes."""
    return [
        Column("size", [len(group.nodes) for group in groups]),
        Column("rows", ["equal" if group.identical else "nearly equal" for group in groups]),
        Column("labels_conflict", ["yes" if group.conflicting else "no" for group in groups]),
        Column("in_training_and_outside", ["yes" if group.crosses_split else "no" for group in groups]),
        Column("nodes", [node_list(findings, group.nodes, most) for group in groups]),
    ]


def node_list(findings: Findings, nodes: np.ndarray, most: int) -> str:
    """Return the names of nodes, and how many more there are."""
    shown = ", ".join(findings.node_name(node) for node in nodes[:most].tolist())
    return shown + (f" and {len(nodes) - most:,} more" if len(nodes) > most else "")


def strongest_features(findings: Findings, node: int) -> str:
    """Return the names of the features of a node with the largest absolute values."""
    names = findings.graph.feature_names
    row: Any = findings.graph.features[[node]]
    assert names is not None
    if sp.issparse(row):
        places, values = row.indices, row.data
    else:
        places = np.flatnonzero(row[0])
        values = row[0][places]
    chosen = np.argsort(-np.abs(values), kind="stable")[:FEATURES_SHOWN]
    return ", ".join(f"{names[places[at]]} {values[at]:g}" for at in chosen)


def _evidence(ranking: Ranking, start: int, stop: int) -> list[Column]:
    return [
        _numbers(name, values[start:stop])
        for name, values in ranking.evidence.items()
        if name not in ("label", "suggested")
    ]


def _numbers(name: str, values: np.ndarray) -> Column:
    return Column(name, [float(value) for value in values])


def _classes(name: str, findings: Findings, numbers: np.ndarray) -> Column:
    return Column(name, [findings.class_names[number] for number in numbers.tolist()])
