"""The audit as one HTML file that needs nothing else: no script, style or picture from anywhere."""

from __future__ import annotations

import math
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from gssc.audit.columns import Column, edge_columns, group_columns, label_columns, node_list
from gssc.audit.findings import Findings
from gssc.files import atomic_write

BINS = 20
NODES_OF_A_GROUP = 20

EDGE_TEXT = """\
The score runs from 0 to 1: the chance that a pair with this evidence was drawn at random and is no edge of the graph,
moved by the sparsifier's keep probability as far as that goes along with the rest. The evidence is taken as if the edge
were not there; the model's own agreement and embedding, which training on the edge has raised, are shown and not
used."""
LABEL_TEXT = """\
The score runs from 0 to 1: the chance of the best other class ("suggested"), if it is that or the given one. Three
opinions count: class means of the other labelled nodes, validation nodes among them ("held out"), a regression on the
same nodes ("regression"), and class means of all nodes but training ones, as the model classifies them ("model
classes"). The number below an opinion is the probability it gives to the label as it stands.
What the model says of the node and its neighbours is shown and not used: training on the label has moved it."""
TARGET_TEXT = """\
The score runs from 0 to 1: the mean distance of a node's known targets from what model and neighbourhood say."""


def write_page(path: str | Path, findings: Findings, top: int = 200) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file.
        findings: of the audit.
        top: rows of each table at most.
    """
    with atomic_write(path) as temporary:
        temporary.write_text(page(findings, top), encoding="utf-8")


def page(findings: Findings, top: int = 200) -> str:
    """The page as text."""
    graph = findings.graph
    template = Template(files("gssc.audit").joinpath("page.html").read_text(encoding="utf-8"))
    conflicts = sum(group.conflicting for group in findings.duplicates)
    counts = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "edges with a score above one half": int((findings.edges.score > 0.5).sum()),
        "training labels": len(findings.labels),
        "labels with a score above one half": int((findings.labels.score > 0.5).sum()),
        "groups of duplicates": len(findings.duplicates),
        "groups with conflicting labels": conflicts,
        "isolated nodes": len(findings.isolated),
        "nodes without a feature": len(findings.featureless),
    }
    numbers = "".join(f"<li><b>{value:,}</b> {escape(name)}</li>" for name, value in counts.items())
    notes = "".join(f"<li>{escape(note)}</li>" for note in findings.notes)
    groups = findings.duplicates[:top]
    return template.substitute(
        title=escape(f"Audit of {graph.name}"),
        subtitle="The most doubtful first. A high score is a reason to look, not a proof. Click a column to sort.",
        numbers=numbers,
        notes=f'<ul class="notes">{notes}</ul>' if notes else "",
        edges=_ranked(findings.edges.score, edge_columns(findings, 0, top, features=True), EDGE_TEXT, "edges"),
        labels=_ranked(
            findings.labels.score,
            label_columns(findings, 0, top, features=True),
            TARGET_TEXT if graph.is_multilabel else LABEL_TEXT,
            "labels",
        ),
        duplicates=_table(group_columns(findings, groups, NODES_OF_A_GROUP)) + _left_out(len(findings.duplicates), top)
        if groups
        else "<p>None.</p>",
        isolated=_nodes("Nodes without an edge", findings, findings.isolated, top)
        + _nodes("Nodes without a feature", findings, findings.featureless, top),
    )


def _ranked(scores: np.ndarray, columns: list[Column], text: str, what: str) -> str:
    if not len(scores):
        return "<p>None.</p>"
    shown = len(columns[0].values)
    left_out = _left_out(len(scores), shown)
    return f"<p>{escape(text)}</p>{histogram(scores, what)}{_table(columns)}{left_out}"


def _left_out(count: int, shown: int) -> str:
    return f"<p>{count - shown:,} more; --out audit.csv has them all.</p>" if count > shown else ""


def _table(columns: list[Column]) -> str:
    head = "".join(
        f'<th{_kind(column)} scope="col"><button type="button">{escape(column.name.replace("_", " "))}</button></th>'
        for column in columns
    )
    rows = (
        "<tr>" + "".join(_cell(column, row) for column in columns) + "</tr>" for row in range(len(columns[0].values))
    )
    body = "\n".join(rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _kind(column: Column) -> str:
    return ' class="number"' if column.numeric else ""


def _cell(column: Column, row: int) -> str:
    value = column.values[row]
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    shown = "unknown" if math.isnan(value) else f"{value:.3f}" if isinstance(value, float) else f"{value:,}"
    return f'<td class="number" data-value="{value}">{shown}</td>'


def _nodes(title: str, findings: Findings, nodes: np.ndarray, most: int) -> str:
    named = escape(node_list(findings, nodes, most)) if len(nodes) else "none"
    return f"<details><summary>{title}: {len(nodes):,}</summary><p>{named}</p></details>"


def histogram(scores: np.ndarray, what: str) -> str:
    """How the scores are spread, as a drawing with a bar for each of twenty steps."""
    counts, _ = np.histogram(scores, bins=BINS, range=(0, 1))
    width, height, tallest = 24, 120, max(int(counts.max()), 1)
    bars = []
    for place, count in enumerate(counts.tolist()):
        tall = height * count / tallest
        bars.append(
            f'<rect x="{place * width + 1}" y="{height - tall + 14:.1f}" width="{width - 2}" height="{tall:.1f}">'
            f"<title>{count:,} {what} from {place / BINS:.2f} to {(place + 1) / BINS:.2f}</title></rect>"
        )
        if count:
            middle, above = (place + 0.5) * width, height - tall + 10
            bars.append(f'<text x="{middle}" y="{above:.1f}" text-anchor="middle">{_short(count)}</text>')
    axis = "".join(
        f'<text x="{share * BINS * width}" y="{height + 28}" text-anchor="{anchor}">{share:g}</text>'
        for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
    )
    size = f'viewBox="0 0 {BINS * width} {height + 34}" width="{BINS * width}"'
    return f'<svg {size} role="img" aria-label="How many {what} have which score">{"".join(bars)}{axis}</svg>'


def _short(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.0f}M"
