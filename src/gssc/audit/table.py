"""The audit as CSV: one file with all findings, and a short one with those to review."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gssc.audit.columns import Column, Value, edge_columns, label_columns
from gssc.audit.findings import DOUBTED, Findings
from gssc.audit.reasons import edge_reasons, label_reasons
from gssc.files import atomic_write

ROWS_AT_A_TIME = 8_192
FIRST = ("kind", "rank", "node", "other", "score")
REVIEW = ("kind", "node", "other", "score", "label", "suggested", "reason", "decision")


def write_table(path: str | Path, findings: Findings, on_rows: Callable[[int], None] = lambda count: None) -> None:
    """Write all findings atomically; cells that do not apply to a kind of row are empty.

    Kinds of rows: ``edge``, ``label``, ``duplicate`` (``rank`` numbers the groups), ``isolated``, ``featureless``.

    Args:
        path: path of the CSV file.
        findings: result of the audit.
        on_rows: called with the number of edges and labels written so far.
    """
    names = list(FIRST)
    for columns in (edge_columns(findings, 0, 0), label_columns(findings, 0, 0)):
        names += [column.name for column in columns if column.name not in names]
    names += ["duplicate_of"]
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        written = 0
        for kind, make, ranking in (
            ("edge", edge_columns, findings.edges),
            ("label", label_columns, findings.labels),
        ):
            for start in range(0, len(ranking), ROWS_AT_A_TIME):
                writer.writerows(_rows(kind, make(findings, start, start + ROWS_AT_A_TIME)))
                on_rows(written + min(start + ROWS_AT_A_TIME, len(ranking)))
            written += len(ranking)
        writer.writerows(_node_rows(findings))


def write_review(path: str | Path, findings: Findings, top: int = 200) -> int:
    """Write the findings to review: edges and labels with a score above 0.5, and duplicates with conflicting labels.

    Each row has the reason in words and an empty column ``decision`` to fill in. Returns the number of rows.

    Args:
        path: path of the CSV file, written atomically.
        findings: result of the audit.
        top: maximum number of rows of each kind.
    """
    rows = [*_review_rows(findings, top)]
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, REVIEW, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def _review_rows(findings: Findings, top: int) -> Iterator[dict[str, Any]]:
    for kind, ranking, reasons in (
        ("edge", findings.edges, edge_reasons),
        ("label", findings.labels, label_reasons),
    ):
        count = min(int((ranking.score > DOUBTED).sum()), top)
        for row, reason in enumerate(reasons(findings, count)):
            ends = [findings.node_name(node) for node in ranking.nodes[row].tolist()]
            classes: dict[str, str] = {
                name: findings.class_names[int(ranking.evidence[name][row])]
                for name in ("label", "suggested")
                if name in ranking.evidence
            }
            named = dict(zip(("node", "other"), ends, strict=False))
            yield {"kind": kind, **named, "score": _shown(float(ranking.score[row])), **classes, "reason": reason}
    for group in [group for group in findings.duplicates if group.conflicting][:top]:
        first, second, *_ = (findings.node_name(node) for node in group.nodes.tolist())
        reason = f"{len(group.nodes)} nodes with (nearly) the same features have different training labels."
        yield {"kind": "duplicate", "node": first, "other": second, "reason": reason}


def _rows(kind: str, columns: list[Column]) -> Iterator[dict[str, Any]]:
    for row in zip(*(column.values for column in columns), strict=True):
        named = zip((column.name for column in columns), row, strict=True)
        yield {"kind": kind, **{name: _shown(value) for name, value in named}}


def _shown(value: Value) -> Value:
    if not isinstance(value, float):
        return value
    return "" if value != value else f"{value:.6g}"  # NaN differs from itself


def _node_rows(findings: Findings) -> Iterator[dict[str, Any]]:
    for number, group in enumerate(findings.duplicates, start=1):
        first = findings.node_name(int(group.nodes[0]))
        for node in group.nodes.tolist():
            yield {"kind": "duplicate", "rank": number, "node": findings.node_name(node), "duplicate_of": first}
    for kind, nodes in (("isolated", findings.isolated), ("featureless", findings.featureless)):
        for node in nodes.tolist():
            yield {"kind": kind, "node": findings.node_name(node)}
