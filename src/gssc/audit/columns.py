"""Findings as columns of text and numbers, the same for the page, the table and the terminal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gssc.audit.findings import DuplicateGroup, Findings, Ranking

Value = str | float | int


class Column(NamedTuple):
    """A name and one value per row."""

    name: str
    values: list[Value]

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return not any(isinstance(value, str) for value in self.values)


def edge_columns(findings: Findings, start: int, stop: int) -> list[Column]:
    """Return edges from rank `start` to `stop`, counted from 0: ends, score, predicted classes, evidence."""
    ranking = findings.edges
    nodes = ranking.nodes[start:stop]
    columns = [Column("rank", list(range(start + 1, start + len(nodes) + 1)))]
    for place, name in enumerate(("node", "other")):
        columns.append(Column(name, [findings.node_name(node) for node in nodes[:, place].tolist()]))
    columns.append(_numbers("score", ranking.score[start:stop]))
    if findings.predicted is not None:
        for place, name in enumerate(("predicted", "other_predicted")):
            columns.append(_classes(name, findings, findings.predicted[nodes[:, place]]))
    return columns + _evidence(ranking, start, stop)


def label_columns(findings: Findings, start: int, stop: int) -> list[Column]:
    """Return labels from rank `start` to `stop`, counted from 0: node, score, label, suggested class, evidence."""
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
    return columns + _evidence(ranking, start, stop)


def group_columns(findings: Findings, groups: list[DuplicateGroup], most: int) -> list[Column]:
    """Return groups of duplicates: size, kind, whether labels conflict or the split is crossed, and some nodes.

    Args:
        findings: result of the audit.
        groups: some of its groups.
        most: maximum number of nodes listed per group.
    """
    return [
        Column("size", [len(group.nodes) for group in groups]),
        Column("rows", ["equal" if group.identical else "nearly equal" for group in groups]),
        Column("labels_conflict", ["yes" if group.conflicting else "no" for group in groups]),
        Column("in_training_and_outside", ["yes" if group.crosses_split else "no" for group in groups]),
        Column("nodes", [node_list(findings, group.nodes, most) for group in groups]),
    ]


def node_list(findings: Findings, nodes: np.ndarray, most: int) -> str:
    """Return the names of the first ``most`` nodes, and the number of the others, as text."""
    shown = ", ".join(findings.node_name(node) for node in nodes[:most].tolist())
    return shown + (f" and {len(nodes) - most:,} more" if len(nodes) > most else "")


def _evidence(ranking: Ranking, start: int, stop: int) -> list[Column]:
    """Return the evidence that is a number; label and suggested class are not."""
    return [
        _numbers(name, values[start:stop])
        for name, values in ranking.evidence.items()
        if name not in ("label", "suggested")
    ]


def _numbers(name: str, values: np.ndarray) -> Column:
    return Column(name, [float(value) for value in values])


def _classes(name: str, findings: Findings, numbers: np.ndarray) -> Column:
    return Column(name, [findings.class_names[number] for number in numbers.tolist()])
