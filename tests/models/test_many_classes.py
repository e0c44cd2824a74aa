"""Default settings of the rivals on wide bags of words with many classes, for which they were not tuned."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.graph import Graph
from gssc.models.registry import recipe_of
from gssc.recipes import config_for
from gssc.result import fit

CLASSES, PER_CLASS, WORDS = 60, 20, 8000


@pytest.fixture(scope="module")
def graph() -> Graph:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    chances = np.exp(rng.normal(size=WORDS)) * np.exp(0.7 * rng.normal(size=(CLASSES, WORDS)))
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.stack([rng.multinomial(100, chances[label]) > 0 for label in labels])
    same = np.arange(len(labels)) // PER_CLASS * PER_CLASS
    others = np.where(
        rng.random(len(labels)) < 0.5, same + rng.integers(PER_CLASS, size=len(labels)), rng.permutation(len(labels))
    )
    edges = np.stack([np.arange(len(labels)), others])
    train = np.flatnonzero(np.arange(len(labels)) % PER_CLASS < 10)
    rest = rng.permutation(np.setdiff1d(np.arange(len(labels)), train))
    return Graph(sp.csr_matrix(rows.astype(np.float32)), edges, labels, train, rest[:200], rest[200:], name="mine")


@pytest.mark.parametrize("model", ["appnp", "mlp"])
def test_weight_decay_does_not_outweigh_the_labels(graph: Graph, model: str) -> None:
    # With rows that are only divided by their sums both have less than 0.1; chance is 0.017.
    assert fit(graph, config_for(model, "mine", "")).test_score > 0.3


def test_the_deployed_model_has_the_factor_of_the_rows(graph: Graph) -> None:
    result = fit(graph, config_for("mlp", "mine", ""))
    rows = graph.features[graph.test].toarray()
    np.testing.assert_array_equal(result.deployed().predict(rows), result.scores[graph.test].argmax(axis=1))


@pytest.mark.parametrize(("dataset", "normalize"), [("cora", "row"), ("mine", "auto")])
def test_known_graphs_keep_the_scaling_of_the_papers(dataset: str, normalize: str) -> None:
    recipe = recipe_of("gcn", dataset, "")
    assert recipe is not None
    assert recipe.normalize == normalize
