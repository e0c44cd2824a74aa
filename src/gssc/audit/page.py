"""The audit as one self-contained HTML file: it loads no script, style or picture from elsewhere."""

from __future__ import annotations

import json
import math
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from gssc.audit.columns import group_columns, node_list
from gssc.audit.details import Details
from gssc.audit.findings import DOUBTED, Findings
from gssc.audit.reasons import (
    EDGE_EVIDENCE,
    LABEL_EVIDENCE,
    MEANINGS,
    edge_evidence,
    edge_reasons,
    label_reasons,
    share_below,
)
from gssc.files import atomic_write
from gssc.names import counted

BINS = 20  # of the histogram of scores
NODES_OF_A_GROUP = 20  # maximum number of nodes listed per group of duplicates

EDGE_TEXT = """\
An edge is doubtful if its two ends have less in common than connected nodes of this graph usually have: different
features, different surroundings, no common neighbours. The bars compare an edge with all others: half a bar means
that half of the edges have less of it."""
EDGE_FORMULA = """\
The score runs from 0 (trusted) to 1 (doubted). A logistic regression learns from the graph itself to tell its edges
from as many random pairs of nodes; the score is the probability that a pair with this evidence is a random pair. The
keep probability of the training then adjusts it, as far as it agrees with the rest. Evidence is computed as if the edge
did not exist, and an edge is scored by a regression that was fitted without it. The model's own agreement and embedding
are in the CSV file but not in the score: training on an edge raises them, right or wrong."""
LABEL_TEXT = """\
A training label is doubtful if the node looks like nodes of another class. Each bar is the probability of the given
label, estimated in one way without using it; the suggested class is the one that fits best instead."""
LABEL_FORMULA = """\
The score runs from 0 (trusted) to 1 (doubted). Three estimates count equally: class means of the other labelled nodes,
a regression on the same nodes, and class means of the unlabelled nodes as the model classifies them. Their geometric
mean gives a probability to each class; the score is p(suggested) / (p(suggested) + p(label)). The last two bars, the
model's opinion of the neighbours and of the node itself, are shown but not used: training on the label has moved
them."""
TARGET_TEXT = "A node's targets are doubtful if they differ from what the model predicts for it and its neighbours."
TARGET_FORMULA = "The score is the mean distance of the known targets from both predictions, from 0 to 1."


class Bar(NamedTuple):
    """A number drawn as a bar: its value, the filled share, and a note for the reader."""

    value: float
    share: float
    note: str


Cell = str | int | Bar


def write_page(path: str | Path, findings: Findings, top: int = 200) -> None:
    """Write the page atomically.

    Args:
        path: path of the HTML file.
        findings: result of the audit.
        top: maximum number of rows per table.
    """
    with atomic_write(path) as temporary:
        temporary.write_text(page(findings, top), encoding="utf-8")


def page(findings: Findings, top: int = 200) -> str:
    """Return the page as text."""
    graph, edges, labels = findings.graph, findings.edges, findings.labels
    template = Template(files("gssc.audit").joinpath("page.html").read_text(encoding="utf-8"))
    lonely = np.union1d(findings.isolated, findings.featureless)
    groups, conflicts = len(findings.duplicates), sum(group.conflicting for group in findings.duplicates)
    numbers = [
        _number("edges", int((edges.score > DOUBTED).sum()), f"of {len(edges):,} edges are doubtful"),
        _number("labels", int((labels.score > DOUBTED).sum()), f"of {len(labels):,} training labels are doubtful"),
        _number("duplicates", conflicts, f"of {counted(groups, 'group')} of duplicates have conflicting labels"),
        _number("isolated", len(lonely), f"of {graph.num_nodes:,} nodes have no edge or no feature"),
    ]
    label_text = (LABEL_TEXT, LABEL_FORMULA) if graph.task.has_classes else (TARGET_TEXT, TARGET_FORMULA)
    return template.substitute(
        title=escape(f"Audit of {graph.name}"),
        numbers="".join(numbers),
        notes=_listed(findings.notes),
        edges=_section("edges", edges.score, *edge_rows(findings, top), EDGE_TEXT, EDGE_FORMULA),
        labels=_section("labels", labels.score, *label_rows(findings, top), *label_text),
        duplicates=_duplicates(findings, top),
        isolated=_nodes("Nodes without edges", findings, findings.isolated, top)
        + _nodes("Nodes without features", findings, findings.featureless, top),
        data=_json(page_data(findings, top)),
    )


def _number(section: str, count: int, text: str) -> str:
    """Return a count as a link to its section, coloured if it is not zero."""
    kind = ' class="some"' if count else ""
    return f'<li><a href="#{section}"><b{kind}>{count:,}</b> {text}</a></li>'


def page_data(findings: Findings, top: int) -> dict[str, Any]:
    """Return the data of the rows' detail views: details and a reason for every edge and label on the page."""
    details = Details(findings)
    edge_nodes, label_nodes = findings.edges.nodes[:top].tolist(), findings.labels.nodes[:top].tolist()
    return {
        "name": findings.graph.name,
        "classes": list(findings.class_names),
        "edges": [
            {**details.pair(*nodes), "reason": reason}
            for nodes, reason in zip(edge_nodes, edge_reasons(findings, top), strict=True)
        ],
        "labels": [
            {**details.single(nodes[0]), "reason": reason}
            for nodes, reason in zip(label_nodes, label_reasons(findings, top), strict=True)
        ],
    }


def edge_rows(findings: Findings, top: int) -> tuple[list[str], list[list[Cell]]]:
    """Return the headings and the rows of the table of edges."""
    ranking, evidence = findings.edges, edge_evidence(findings.edges)
    shares = {name: share_below(values, values[:top]) for name, values in evidence.items()}
    heads = ["#", "node", "other", *(["predicted"] if findings.predicted is not None else []), "score"]
    rows: list[list[Cell]] = []
    for row, (first, second) in enumerate(ranking.nodes[:top].tolist()):
        cells: list[Cell] = [row + 1, findings.node_name(first), findings.node_name(second)]
        if findings.predicted is not None:
            classes = [findings.class_names[findings.predicted[node]] for node in (first, second)]
            cells.append(classes[0] if classes[0] == classes[1] else " / ".join(classes))
        cells.append(_score(ranking.score[row]))
        for name, values in evidence.items():
            value, share = float(values[row]), float(shares[name][row])
            cells.append(Bar(value, share, f"{value:.3f}, more than on {share:.0%} of edges"))
        rows.append(cells)
    return heads + [EDGE_EVIDENCE[name] for name in evidence], rows


def label_rows(findings: Findings, top: int) -> tuple[list[str], list[list[Cell]]]:
    """Return the headings and the rows of the table of labels."""
    ranking = findings.labels
    opinions = [name for name in LABEL_EVIDENCE if name in ranking.evidence]
    named = [name for name in ("label", "suggested") if name in ranking.evidence]
    rows: list[list[Cell]] = []
    for row, (node,) in enumerate(ranking.nodes[:top].tolist()):
        cells: list[Cell] = [row + 1, findings.node_name(node)]
        cells += [findings.class_names[int(ranking.evidence[name][row])] for name in named]
        cells.append(_score(ranking.score[row]))
        for name in opinions:
            value = float(ranking.evidence[name][row])
            cells.append(Bar(value, value, f"{value:.3f}"))
        rows.append(cells)
    return ["#", "node", *named, "score", *(LABEL_EVIDENCE[name][0] for name in opinions)], rows


def _score(value: float) -> Bar:
    return Bar(float(value), float(value), f"{value:.3f}")


def _section(what: str, scores: np.ndarray, heads: list[str], rows: list[list[Cell]], text: str, formula: str) -> str:
    if not len(scores):
        return "<p>None.</p>"
    more = (
        f"<p>{len(scores) - len(rows):,} more: gssc audit RUN --out audit.csv writes all.</p>"
        if len(scores) > len(rows)
        else ""
    )
    item = what.removesuffix("s")
    return (
        f'<div class="about"><div><p>{escape(text)}</p>'
        f"<details><summary>How the score is computed</summary><p>{escape(formula)}</p></details></div>"
        f"{histogram(scores, what)}</div>"
        f'<p class="tools"><label>Filter <input type="search" data-for="{what}"></label> '
        f'<button type="button" data-download="{what}">Download as CSV</button> <output></output>'
        f'<span class="key"><i class="full"></i>supports the {item} <i></i>counts against it</span></p>'
        f"{_table(heads, rows, what)}{more}"
    )


def _table(heads: list[str], rows: list[list[Cell]], what: str = "") -> str:
    """Return a table as HTML; with ``what`` (edges or labels), its rows open to show details."""
    kinds = [_kind(cell, name) for cell, name in zip(rows[0], heads, strict=True)]
    head = "".join(
        f'<th class="{kind}" scope="col" title="{escape(MEANINGS.get(name, ""))}">'
        f'<button type="button">{escape(name)}</button></th>'
        for name, kind in zip(heads, kinds, strict=True)
    )
    body = []
    for number, row in enumerate(rows):
        cells = [_cell(cell, name) for cell, name in zip(row, heads, strict=True)]
        if what:
            opener = f'<button type="button" class="open" aria-expanded="false">{row[0]}</button>'
            cells[0] = f'<td class="number" data-value="{row[0]}">{opener}</td>'
        body.append(f'<tr data-row="{number}">{"".join(cells)}</tr>')
    named = f' data-kind="{what}"' if what else ""
    return (
        f'<div class="scroll"><table{named}><thead><tr>{head}</tr></thead><tbody>\n'
        + "\n".join(body)
        + "\n</tbody></table></div>"
    )


def _kind(cell: Cell, name: str) -> str:
    if isinstance(cell, Bar):
        return "bars score" if name == "score" else "bars"
    return "number" if isinstance(cell, int) else "text"


def _cell(cell: Cell, name: str) -> str:
    if isinstance(cell, str):
        return f'<td title="{escape(cell)}">{escape(cell)}</td>'
    if isinstance(cell, int):
        return f'<td class="number" data-value="{cell}">{cell:,}</td>'
    note = "unknown" if math.isnan(cell.value) else cell.note
    width = 0 if math.isnan(cell.share) else cell.share
    shown = f"<b>{note}</b>" if name == "score" else f'<span class="unseen">{note}</span>'
    bar = f'<i style="--share:{width:.3f}"></i>'
    title = escape(f"{name}: {note}")
    return f'<td class="{_kind(cell, name)}" data-value="{cell.value:.6g}" title="{title}">{bar}{shown}</td>'


def _duplicates(findings: Findings, top: int) -> str:
    groups = findings.duplicates[:top]
    if not groups:
        return "<p>None.</p>"
    columns = group_columns(findings, groups, NODES_OF_A_GROUP)
    heads = [column.name.replace("_", " ") for column in columns]
    rows: list[list[Cell]] = [
        [value if isinstance(value, str) else int(value) for value in row]
        for row in zip(*(column.values for column in columns), strict=True)
    ]
    left = len(findings.duplicates) - len(groups)
    return _table(heads, rows) + (f"<p>{left:,} more: gssc audit RUN --out audit.csv writes all.</p>" if left else "")


def _listed(notes: list[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _nodes(title: str, findings: Findings, nodes: np.ndarray, most: int) -> str:
    named = escape(node_list(findings, nodes, most)) if len(nodes) else "none"
    return f"<details><summary>{title}: {len(nodes):,}</summary><p>{named}</p></details>"


def _json(value: Any) -> str:
    """Return JSON that cannot end the script element that contains it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def histogram(scores: np.ndarray, what: str) -> str:
    """Return a histogram of the scores as SVG."""
    counts, _ = np.histogram(scores, bins=BINS, range=(0, 1))
    width, height, tallest = 24, 90, max(int(counts.max()), 1)
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
        f'<text x="{share * BINS * width}" y="{height + 28}" text-anchor="{anchor}">{text}</text>'
        for share, anchor, text in ((0, "start", "0 trusted"), (0.5, "middle", "0.5"), (1, "end", "1 doubted"))
    )
    size = f'viewBox="0 0 {BINS * width} {height + 34}" width="{BINS * width}"'
    name = f"Number of {what} by score"
    return f'<svg class="histogram" {size} role="img" aria-label="{name}">{"".join(bars)}{axis}</svg>'


def _short(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.0f}M"
