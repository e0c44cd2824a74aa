"""Findings in words: what is unusual about the evidence of an edge or a label."""

from __future__ import annotations

import numpy as np

from gssc.audit.findings import Findings, Ranking

# Names of the evidence of an edge in the page.
EDGE_EVIDENCE = {
    "features": "features",
    "neighbourhood_features": "neighbours' features",
    "neighbourhood_embedding": "neighbours' embedding",
    "common_neighbours": "common neighbours",
    "keep_probability": "trust in training",
}
# Names of the estimates of a label, in a table and in a sentence.
LABEL_EVIDENCE = {
    "held_out": ("other labels", "the other labelled nodes"),
    "regression": ("regression", "a regression on the other labels"),
    "model_classes": ("unlabelled nodes", "the unlabelled nodes"),
    "neighbourhood": ("neighbours", "the model's predictions of its neighbours"),
    "model": ("model", "the model's prediction"),
}
# Meanings of the columns, shown when the pointer is on a heading.
MEANINGS = {
    "score": "from 0, trusted, to 1, doubted",
    "predicted": "classes of the two ends as the model predicts them; one if they are the same",
    "features": "similarity of the features of the two ends",
    "neighbours' features": "similarity of the features around the two ends",
    "neighbours' embedding": "the same for what the model has learned from the features",
    "common neighbours": "neighbours that both ends have, rare ones counting more",
    "trust in training": "keep probability: how far training relied on the edge",
    "suggested": "the class that fits best instead",
    "other labels": "by comparison with the other labelled nodes",
    "regression": "by a regression on the other labelled nodes",
    "unlabelled nodes": "by comparison with unlabelled nodes, as the model classifies them",
    "neighbours": "predicted for the neighbours by the model; not part of the score",
    "model": "predicted by the model, which was trained on the label; not part of the score",
}
LABEL_OPINIONS = ("held_out", "regression", "model_classes")
UNUSUAL = 0.75  # evidence is mentioned if more than this share of edges has more of it


def share_below(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Return the share of `values` below each of `of`, from 0 to 1; NaN stays NaN and does not count.

    >>> share_below(np.array([0.1, 0.2, 0.2, 0.9]), np.array([0.1, 0.2, 0.9])).tolist()
    [0.0, 0.25, 0.75]
    """
    known = np.sort(values[~np.isnan(values)])
    return np.where(np.isnan(of), np.nan, np.searchsorted(known, of) / max(len(known), 1))


def edge_evidence(ranking: Ranking) -> dict[str, np.ndarray]:
    """Return the evidence of edges that is shown to people, the names in :data:`EDGE_EVIDENCE`."""
    return {name: ranking.evidence[name] for name in EDGE_EVIDENCE if name in ranking.evidence}


def edge_reasons(findings: Findings, stop: int) -> list[str]:
    """Return a reason in words for each of the first edges: what is unusual about it."""
    ranking = findings.edges
    above = {  # share of edges with more of each kind of evidence
        name: share_below(-values, -values[:stop]) for name, values in edge_evidence(ranking).items()
    }
    sentences = []
    for row in range(min(stop, len(ranking))):
        low = {name: _percent(shares[row]) for name, shares in above.items() if shares[row] >= UNUSUAL}
        kept = low.pop("keep_probability", None)
        ends = []
        if findings.predicted is not None:
            first, second = (findings.class_names[findings.predicted[node]] for node in ranking.nodes[row])
            ends += [f"are predicted as {first} and {second}"] if first != second else []
        if "common_neighbours" in above and ranking.evidence["common_neighbours"][row] == 0:
            low.pop("common_neighbours", None)
            ends.append("have no common neighbour")
        said = [f"The two ends {_listed(ends)}."] if ends else []
        if low:
            compared = [f"{EDGE_EVIDENCE[name]} ({share})" for name, share in low.items()]
            compared[0] = compared[0].replace(")", " of edges have more)")
            said.append(f"Less in common than usual: {_listed(compared)}.")
        said += [f"Training trusts it less than {kept} of edges."] if kept else []
        sentences.append(" ".join(said) or "Nothing stands out on its own, but all evidence together is weak.")
    return sentences


def label_reasons(findings: Findings, stop: int) -> list[str]:
    """Return a sentence for each of the first labels: what counts against it."""
    ranking = findings.labels
    if "label" not in ranking.evidence:
        scores = ranking.score[:stop].tolist()
        return [f"Targets differ from the predictions by {score:.0%} on average." for score in scores]
    sentences = []
    for row in range(min(stop, len(ranking))):
        label, suggested = (findings.class_names[int(ranking.evidence[name][row])] for name in ("label", "suggested"))
        opinions = [name for name in LABEL_OPINIONS if name in ranking.evidence]
        against = [LABEL_EVIDENCE[name][1] for name in opinions if ranking.evidence[name][row] < 0.5]
        if against:
            sentences.append(f"Labelled {label}, but looks more like {suggested}, judged by {_listed(against)}.")
        else:
            sentences.append(f"Labelled {label}, and every comparison agrees; {suggested} comes next.")
    return sentences


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 0.995 else "over 99%"


def _listed(parts: list[str]) -> str:
    """Join words as in a sentence.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
