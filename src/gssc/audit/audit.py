"""The audit of a run, step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from gssc.audit.edges import doubt_edges
from gssc.audit.findings import Findings, Ranking
from gssc.audit.labels import doubt_labels, doubt_targets
from gssc.audit.nodes import duplicate_groups, featureless_nodes, isolated_nodes
from gssc.audit.subject import Subject, read_subject
from gssc.features import columns_on_one_scale
from gssc.graph import Graph
from gssc.trust.pairs import PairEvidence
from gssc.trust.sketch import feature_sketch, label_width

STAGES = (
    "reading the run",
    "predicting classes",
    "comparing edges",
    "comparing labels",
    "looking for duplicates",
    "writing",  # what the caller does with the findings
)


def audit_run(
    run: str | Path,
    graph: str | Path | Graph | None = None,
    *,
    seed: int = 0,
    data_root: str | None = None,
    on_stage: Callable[[str, float | None], None] | None = None,
) -> Findings:
    """Return the edges and training labels of a graph ranked by doubt, using a model trained on it.

    Labels of test nodes are never read. Those of validation nodes are evidence on training labels; they are not ranked.

    Args:
        run: folder of a finished run, or one written by :meth:`gssc.GSSCClassifier.save`.
        graph: the graph to audit, or its ``.npz`` file; a run's own if left out. A saved classifier needs one.
        seed: seed of the random pairs that edges are compared with.
        data_root: folder with data files, see :func:`gssc.data.load_dataset`.
        on_stage: called as each of :data:`STAGES` begins, with its name and the share of the expected time that
            has passed; the share is None until the size of the graph is known.
    """
    stage = on_stage or (lambda name, share: None)
    stage(STAGES[0], None)
    return audit_subject(read_subject(run, graph, data_root), seed, stage)


def expected_shares(graph: Graph) -> dict[str, float]:
    """Return the share of the expected time that has passed when each of :data:`STAGES` begins.

    The times below were measured on five graphs of up to 150,000 nodes, on one core. They are accurate to a factor of
    about three; only their ratios are used, so the speed of the machine does not matter.
    """
    nodes, columns = graph.num_nodes, min(graph.num_features, label_width(graph.num_nodes))
    microseconds = {
        "reading the run": 8.0 * nodes,
        "predicting classes": 4.0 * nodes,
        "comparing edges": 10.0 * graph.num_edges,
        "comparing labels": 0.15 * nodes * columns if len(graph.train) else 0.0,
        "looking for duplicates": 12.0 * nodes,
        "writing": 500_000.0,
    }
    passed = np.cumsum([0.0, *microseconds.values()])[:-1] / sum(microseconds.values())
    return dict(zip(microseconds, passed.tolist(), strict=True))


def audit_subject(
    subject: Subject, seed: int = 0, on_stage: Callable[[str, float | None], None] = lambda name, share: None
) -> Findings:
    """Return the findings of an audit of a graph with its model, as read by :func:`read_subject`."""
    graph, model, notes = subject.graph, subject.model, list(subject.notes)
    shares = expected_shares(graph)

    def stage(name: str) -> None:
        on_stage(name, shares[name])

    stage(STAGES[1])
    probabilities = model.predict_proba(graph.features)
    embedding = model.embed(graph.features) if len(model.layers) > 1 else model.logits(graph.features)
    compared = columns_on_one_scale(graph.features)
    sketch = feature_sketch(compared, seed=seed)

    stage(STAGES[2])
    evidence = PairEvidence(graph.with_(features=compared), sketch, embedding, probabilities)
    edges, remarks = doubt_edges(graph, evidence, subject.keep_probability, seed, subject.keep_counts)
    notes += remarks

    stage(STAGES[3])
    labels = Ranking.of(np.empty((0, 1), dtype=np.int64), np.empty(0), {})
    if not len(graph.train):
        notes.append("the graph has no training nodes: no labels to audit")
    elif not graph.task.has_classes:
        labels = doubt_targets(graph.train, graph.labels[graph.train], evidence.adjacency, probabilities)
        notes.append("multi-label targets: scored by model and neighbourhood alone, which saw them in training")
    else:
        wide = feature_sketch(compared, label_width(graph.num_nodes), seed)
        given = subject.model_labels()
        labels = doubt_labels(
            graph.train,
            given[graph.train],
            evidence.adjacency,
            wide,
            probabilities,
            (graph.val, given[graph.val]),
        )

    stage(STAGES[4])
    findings = Findings(
        graph=graph,
        class_names=tuple(model.class_names),
        edges=edges,
        labels=labels,
        predicted=probabilities.argmax(axis=1) if graph.task.has_classes else None,
        duplicates=duplicate_groups(graph, sketch, seed, compared),
        isolated=isolated_nodes(graph),
        featureless=featureless_nodes(graph.features),
        notes=notes,
        confidence=probabilities.max(axis=1) if graph.task.has_classes else None,
    )
    stage(STAGES[5])
    return findings
