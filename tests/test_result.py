"""What fit returns: the result, a deployed model that takes rows as they come, and notes on likely problems."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gssc.config import ContrastConfig, parse_config
from gssc.data import csbm
from gssc.errors import GsscError
from gssc.features import FeatureTable
from gssc.graph import Graph
from gssc.learner.settings import Config
from gssc.result import Result, fit

GRAPH = csbm(nodes=60, classes=2, features=6, degree=4, per_class=6, signal=3.0)


def quick(**train: object) -> ContrastConfig:
    config = parse_config(
        {
            "model": {"name": "str_contrast", "hidden": 8},
            "sparsifier": {"hidden": 8, "pretrain_epochs": 5},
            "train": {"warmup_epochs": 3, "epochs": 3, "batch_size": 64, **train},
            "consolidate": {"epochs": 2},
        }
    )
    assert isinstance(config, ContrastConfig)
    return config


def unlike_scales() -> Graph:
    return GRAPH.with_(features=GRAPH.features * np.array([1, 1, 1, 1, 1000, 1000]) + 5)


def test_a_result_has_a_short_form_and_its_history() -> None:
    result = fit(GRAPH, quick())
    assert repr(result).startswith("Result(str_contrast on csbm: accuracy ")
    assert f"of {GRAPH.num_edges} edges kept" in repr(result)
    assert [record.phase for record in result.history] == ["warm-up"] * 3 + ["alternate"] * 3 + ["consolidate"] * 2
    edges, trust = result.edge_trust()
    assert np.array_equal(edges, GRAPH.edges)
    assert trust.shape == (GRAPH.num_edges,)


def test_why_the_student_was_kept_reads_as_a_sentence() -> None:
    config = Config()
    config.teachers.pair_epochs = config.teachers.rounds = 1
    reason = fit(GRAPH, config).kept_because
    assert re.fullmatch(r"the student that is best on held-out (labels|rows) \(kind: [a-z ]+, round \d+\)", reason)


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
@pytest.mark.parametrize("normalize", ["auto", "standard", "row", "none"])
def test_the_deployed_model_takes_rows_as_they_come(normalize: str, setting: str) -> None:
    graph = unlike_scales().with_(setting=setting)
    result = fit(graph, quick(normalize=normalize))
    np.testing.assert_allclose(result.deployed().logits(graph.features), result.scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("model", ["mlp", "glnn", "graph_mlp", "link_dist"])
def test_rivals_are_deployed_with_their_scaling(model: str) -> None:
    result = fit(
        unlike_scales(), parse_config({"model": {"name": model}, "train": {"normalize": "standard"}}).shortened(4)
    )
    np.testing.assert_allclose(result.deployed().logits(result.graph.features), result.scores, rtol=1e-3, atol=1e-3)


def test_unlike_scales_are_noted_unless_they_were_put_on_one() -> None:
    assert any("different scales" in note for note in fit(unlike_scales(), quick(normalize="row")).notes)
    for normalize in ("standard", "auto"):
        assert not any("different scales" in note for note in fit(unlike_scales(), quick(normalize=normalize)).notes)
    assert not any("different scales" in note for note in fit(GRAPH, quick(normalize="none")).notes)


def test_a_scaling_that_held_out_labels_chose_is_not_noted() -> None:
    result = fit(unlike_scales(), Config().shortened(1))
    result.training.scaling = FeatureTable(result.graph.features, "none").scaling  # as if it had been chosen
    assert result._scale_note() is None
    result.config.train.normalize = "none"
    assert "different scales" in result._scale_note()


def test_a_column_far_from_zero_is_noted_by_its_name() -> None:
    features = GRAPH.features.copy()
    features[:, 1] += 1e6
    for names, shown in ((None, "1"), ([f"x{number}" for number in range(GRAPH.num_features)], "'x1'")):
        notes = fit(GRAPH.with_(features=features, feature_names=names), quick(normalize="standard")).notes
        assert any(f"column {shown} lies far from zero" in note for note in notes)
    assert not any("far from zero" in note for note in fit(GRAPH, quick(normalize="standard")).notes)


@pytest.mark.parametrize(
    ("graph", "config", "message"),
    [
        (GRAPH.features, None, "graph is a ndarray: make a gssc.Graph"),
        (None, None, "graph is a NoneType"),
        (GRAPH, {"train": {"seed": 1}}, "config is a dict: make settings of a dict by gssc.parse_config"),
    ],
)
def test_what_is_no_graph_or_no_settings_is_explained(graph: Any, config: Any, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        fit(graph, config)


def test_keep_probabilities_that_are_all_alike_are_noted() -> None:
    alike = GRAPH.with_(features=np.ones_like(GRAPH.features))
    (note,) = [note for note in fit(alike, quick()).notes if "keep probabilities" in note]
    assert "does not distinguish edges" in note
    without = quick()
    without = replace(without, sparsifier=parse_config({"sparsifier": {"name": "none"}}).sparsifier)
    assert not any("keep probabilities" in note for note in fit(alike, without).notes)


def test_edges_that_all_look_right_are_not_noted_whichever_sparsifier_samples_pairs() -> None:
    few = GRAPH.with_(edges=GRAPH.edges[:, :10])  # too few to compare, so all are kept
    config = parse_config({"sparsifier": {"name": "drop_edge"}}).shortened(1)
    assert not any("keep probabilities" in note for note in fit(few, config).notes)


def test_a_temperature_at_its_bound_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("temperature" in note for note in fit(GRAPH, quick()).notes)
    monkeypatch.setattr("gssc.result.fit_temperature", lambda *_: 50.0)
    assert any("temperature ended at its bound (50)" in note for note in fit(GRAPH, quick()).notes)


def test_without_validation_nodes_nothing_is_calibrated() -> None:
    result: Result = fit(GRAPH.with_(val=[]), quick())
    assert result.calibration is None
    assert result.deployed().temperature == 1.0
