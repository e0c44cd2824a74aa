from __future__ import annotations

import numpy as np

from gssc.audit import Findings, Ranking
from gssc.audit.reasons import edge_reasons, label_reasons, share_below
from gssc.graph import Graph

COUNT = 10


def findings(evidence: dict[str, np.ndarray], labels: Ranking | None = None) -> Findings:
    graph = Graph(np.eye(COUNT + 1), [np.arange(COUNT), np.arange(1, COUNT + 1)])
    none = np.empty(0, dtype=np.int64)
    edges = Ranking.of(graph.edges.T, np.linspace(1, 0, COUNT), evidence)
    predicted = np.array([0, 1, *[0] * (COUNT - 1)])
    labels = labels or Ranking.of(np.empty((0, 1), dtype=np.int64), np.empty(0), {})
    return Findings(graph, ("cat", "dog"), edges, labels, predicted, [], none, none)


def test_shares_of_unknown_values_are_unknown() -> None:
    values = np.array([np.nan, 1.0, 2.0])
    np.testing.assert_array_equal(share_below(values, values), [np.nan, 0, 0.5])


def test_only_unusual_evidence_is_mentioned() -> None:
    rising = np.linspace(0.1, 0.9, COUNT)
    keep = np.where(np.arange(COUNT) == 0, np.nan, rising)
    evidence = {"features": rising, "common_neighbours": np.r_[0, rising[1:]], "keep_probability": keep}
    reasons = edge_reasons(findings(evidence), 9)
    assert reasons[0] == (
        "The two ends are predicted as cat and dog and have no common neighbour. "
        "Less in common than usual: features (90% of edges have more)."
    )
    assert reasons[1] == (
        "The two ends are predicted as dog and cat. Less in common than usual: features (80% of edges have more) and "
        "common neighbours (80%). Training trusts it less than 89% of edges."
    )
    assert reasons[8] == "Nothing stands out on its own, but all evidence together is weak."
    assert len(reasons) == 9


def test_opinions_against_a_label_are_named() -> None:
    labels = Ranking.of(
        np.array([[0], [1]]),
        np.array([0.9, 0.1]),
        {
            "label": np.array([0, 1]),
            "suggested": np.array([1, 0]),
            "held_out": np.array([0.1, 0.9]),
            "regression": np.array([0.6, 0.9]),
            "model_classes": np.array([0.2, 0.9]),
            "model": np.array([0.0, 0.0]),
        },
    )
    assert label_reasons(findings({}, labels), 2) == [
        "Labelled cat, but looks more like dog, judged by the other labelled nodes and the unlabelled nodes.",
        "Labelled dog, and every comparison agrees; cat comes next.",
    ]
