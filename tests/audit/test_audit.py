from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.datasets import load_breast_cancer

from gssc.audit import audit_run
from gssc.audit.audit import STAGES
from gssc.audit.subject import read_subject
from gssc.data.tables import table_neighbours
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.graph import Graph


def test_the_whole_audit(graph: Graph, judge, make_run) -> None:
    labels = graph.labels.copy()
    labels[4] = 1
    noisy = graph.with_(labels=labels, edges=np.concatenate([graph.edges, [[7], [44]]], axis=1))
    stages: list[tuple[str, float | None]] = []
    findings = audit_run(make_run(noisy, judge), on_stage=lambda name, share: stages.append((name, share)))
    assert tuple(name for name, _ in stages) == STAGES
    assert stages[0][1] is None  # nothing is known of the graph yet
    shares = [share for _, share in stages[1:]]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
    assert findings.edges.nodes[0].tolist() == [7, 44]
    assert findings.labels.nodes[0].tolist() == [4]
    assert findings.class_names == ("left", "right")
    assert findings.notes == []
    np.testing.assert_allclose(findings.edges.evidence["keep_probability"], 0.9)


@pytest.mark.parametrize(("part", "used"), [("test", False), ("val", True)])
def test_which_labels_are_evidence(graph: Graph, judge, make_run, part: str, used: bool) -> None:
    found = []
    for labels in (
        graph.labels,
        np.where(np.isin(np.arange(60), getattr(graph, part)), 1 - graph.labels, graph.labels),
    ):
        findings = audit_run(make_run(graph.with_(labels=labels), judge))
        found.append((findings.edges.score, findings.labels.score))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1]) != used


def test_another_graph_with_the_same_nodes_uses_the_keep_probabilities(graph, judge, make_run, tmp_path) -> None:
    run = make_run(graph, judge)
    graph.with_(edges=np.concatenate([graph.edges[:, 5:], [[7], [44]]], axis=1)).save(tmp_path / "other.npz")
    source = read_subject(run, tmp_path / "other.npz")
    assert source.keep_probability is not None
    assert np.isnan(source.keep_probability).sum() == 1
    assert source.notes == [f"1 of {graph.num_edges - 4:,} edges are not in the run: scored without a keep probability"]


def test_another_graph_with_other_nodes_has_no_keep_probabilities(graph, judge, make_run, tmp_path) -> None:
    run = make_run(graph, judge)
    other = graph.with_(features=np.asarray(graph.features) * 1.01)
    other.save(tmp_path / "other.npz")
    findings = audit_run(run, tmp_path / "other.npz")
    assert "keep_probability" not in findings.edges.evidence
    assert "its own edges only" in findings.notes[0]


def test_keep_probabilities_find_their_edges_in_any_order(graph: Graph, judge, make_run) -> None:
    keep = np.linspace(0, 1, graph.num_edges)
    run = make_run(graph, judge, keep)
    order = np.random.default_rng(0).permutation(graph.num_edges)
    np.savez(run / "edges.npz", edge_index=graph.edges[::-1, order], keep_probability=keep[order])
    np.testing.assert_allclose(read_subject(run).keep_probability, keep)


def test_classes_in_another_order_mean_the_same(graph: Graph, judge, make_run, tmp_path) -> None:
    run = make_run(graph, judge)
    turned = graph.with_(labels=1 - graph.labels, class_names=("right", "left"))
    turned.save(tmp_path / "turned.npz")
    before, after = audit_run(run), audit_run(run, tmp_path / "turned.npz")
    np.testing.assert_array_equal(before.labels.score, after.labels.score)
    np.testing.assert_array_equal(before.labels.evidence["label"], after.labels.evidence["label"])


def test_a_graph_with_one_edge_and_no_labels(graph: Graph, judge, make_run, tmp_path) -> None:
    run = make_run(graph, judge)
    bare = Graph(graph.features, [[0], [1]])
    bare.save(tmp_path / "bare.npz")
    findings = audit_run(run, tmp_path / "bare.npz")
    assert (len(findings.edges), len(findings.labels), len(findings.isolated)) == (1, 0, 58)
    assert any("no training nodes" in note for note in findings.notes)


def test_multilabel_targets(graph: Graph, judge, make_run) -> None:
    targets = np.stack([graph.labels, 1 - graph.labels], axis=1).astype(np.float32)
    model = DeployedModel(judge.layers, ["right", "left"], task="multilabel", feature_names=judge.feature_names)
    findings = audit_run(make_run(graph.with_(labels=targets, class_names=("right", "left")), model))
    assert findings.predicted is None
    assert set(findings.labels.evidence) == {"neighbourhood", "model"}


def test_a_model_without_a_hidden_layer(graph: Graph, judge, make_run) -> None:
    model = DeployedModel(judge.layers[:1], ["left", "right"], feature_names=judge.feature_names)
    assert len(audit_run(make_run(graph, model)).edges) == graph.num_edges


def test_a_run_without_a_sparsifier_is_noted(graph: Graph, judge, make_run) -> None:
    run = make_run(graph, judge, np.ones(graph.num_edges))
    settings = yaml.safe_load((run / "config.yaml").read_text())
    settings["sparsifier"] = {"name": "none"}
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    assert read_subject(run).notes == ["the run had no sparsifier: no keep probability for any edge"]


def test_a_saved_classifier_audits_the_graph_of_its_table(graph: Graph, judge, tmp_path) -> None:
    judge.save(tmp_path / "classifier")
    labels = graph.labels.copy()
    labels[4] = 1
    noisy = graph.with_(labels=labels, edges=np.concatenate([graph.edges, [[7], [44]]], axis=1))
    noisy.save(tmp_path / "table.npz")
    for given in (noisy, tmp_path / "table.npz"):
        findings = audit_run(tmp_path / "classifier", given)
        assert findings.edges.nodes[0].tolist() == [7, 44]
        assert findings.labels.nodes[0].tolist() == [4]
        assert findings.notes == ["a saved classifier keeps no keep probabilities: edges are scored without them"]
    with pytest.raises(GsscError, match="the graph has 4 features per node"):
        audit_run(tmp_path / "classifier", Graph(np.ones((3, 4)), [[0], [1]]))


def damage_edges(run, graph) -> None:
    (run / "edges.npz").write_bytes((run / "edges.npz").read_bytes()[:100])


def wrong_shape(run, graph) -> None:
    np.savez(run / "edges.npz", edge_index=graph.edges, keep_probability=np.ones(3))


def no_key(run, graph) -> None:
    np.savez(run / "edges.npz", edge_index=graph.edges)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_edges, "cannot read"),
        (wrong_shape, "do not fit"),
        (no_key, "cannot read"),
        (lambda run, graph: (run / "config.yaml").unlink(), "is a saved classifier, which does not keep its table"),
        (lambda run, graph: (run / "model.json").unlink(), "has no model yet"),
        (lambda run, graph: (run.parent / "graph.npz").unlink(), r"the graph of .* does not exist: .*--graph"),
    ],
)
def test_damaged_runs_are_refused(graph: Graph, judge, make_run, damage, message: str) -> None:
    run = make_run(graph, judge)
    damage(run, graph)
    with pytest.raises(GsscError, match=message):
        audit_run(run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.ones((60, 4), dtype=np.float32), "feature_names": None}, "has 4 features per node"),
        ({"feature_names": list("abcdef")}, "other feature names"),
        ({"class_names": ("left", "up")}, "class 'up'"),
        ({"labels": np.zeros((60, 2)), "class_names": ("left", "right")}, "differ in kind"),
    ],
)
def test_graphs_that_do_not_fit_are_refused(graph, judge, make_run, tmp_path, changes, message: str) -> None:
    run = make_run(graph, judge)
    other = {"features": graph.features, "edges": graph.edges, "labels": graph.labels, "class_names": ("left", "right")}
    other |= {"feature_names": graph.feature_names, **changes}
    Graph(**other).save(tmp_path / "other.npz")
    with pytest.raises(GsscError, match=message):
        audit_run(run, tmp_path / "other.npz")


def test_columns_of_unlike_scales_make_no_duplicates(tmp_path: Path) -> None:
    table = load_breast_cancer()
    graph = Graph(
        table.data, table_neighbours(table.data, 4), table.target, train=np.arange(100), val=np.arange(100, 150)
    )
    weight = np.zeros((2, graph.num_features), dtype=np.float32)
    model = DeployedModel([(weight, np.zeros(2, dtype=np.float32))], ["0", "1"], normalize="none")
    model.save(tmp_path)
    assert audit_run(tmp_path, graph).duplicates == []
