import numpy as np
import pytest
import torch
from transcription import EdgeSampler, Transcription

from gssc.config import ContrastConfig, parse_config
from gssc.data import load_dataset
from gssc.graph import Graph
from gssc.recipes import preset_settings
from gssc.train.bilevel import BilevelTraining


@pytest.fixture
def graph() -> Graph:
    return load_dataset("csbm", nodes=60, classes=3, degree=6.0, signal=3.0, per_class=5)


@pytest.fixture
def config() -> ContrastConfig:
    config = parse_config(preset_settings("reference"))
    config.model.hidden = config.sparsifier.hidden = 16
    config.train.batch_size = 64
    config.train.normalize = "none"
    config.train.warmup_epochs = config.train.epochs = 10
    config.sparsifier.pretrain_epochs = 20
    return config


@pytest.mark.parametrize("side", [BilevelTraining, Transcription])
def test_both_sides_learn_and_walk_the_same_schedule(side, graph, config):
    records = list(side(graph, config).epochs())
    assert [record.phase for record in records] == ["warm-up"] * 10 + ["alternate"] * 10
    assert records[0].edges_kept == graph.num_edges
    best = [record for record in records if record.best][-1]
    assert best.val_score == max(record.val_score for record in records)
    assert best.test_score > 0.7


def test_the_transcription_repeats_itself_with_one_seed(graph, config):
    config.train.epochs = config.train.warmup_epochs = 2
    first, second = (list(Transcription(graph, config).epochs())[-1] for _ in range(2))
    assert (first.val_score, first.edges_kept) == (second.val_score, second.edges_kept)


def test_a_last_batch_of_one_pair_is_left_out(graph, config):
    config.train.batch_size = 2 * graph.num_edges - 1
    assert next(Transcription(graph, config).epochs()).batches == 1


def test_the_sampler_keeps_a_pair_with_its_probability():
    sampler = EdgeSampler(inputs=2, hidden=4, alpha=0.3, temperature=0.5)
    pairs = torch.zeros(2, 4000, dtype=torch.long)
    features = torch.ones(1, 2)
    kept = sampler.sample(features, pairs)
    expected = sampler.keep_probability(features, pairs)[0].item()
    assert set(np.unique(kept.detach().round(decimals=4))) <= {0.0, 1.0}
    assert kept.mean().item() == pytest.approx(expected, abs=0.04)
