from __future__ import annotations

from gssc.config import SparsifierConfig
from gssc.data import load_dataset
from gssc.recipes import recipe
from gssc.run import Run
from gssc.train.contrast import config_for, fit_model


def test_a_comparison_trains_what_gssc_train_does(tmp_path):
    config = recipe("digits")
    config.train.warmup_epochs = config.train.epochs = config.consolidate.epochs = 2
    config.train.seed = 4
    metrics = Run(tmp_path / "run", config).train()
    outcome = fit_model("str_contrast", load_dataset("digits"), SparsifierConfig(), seed=4, max_epochs=2)
    assert round(outcome.val_accuracy, 6) == metrics["val_accuracy"]
    assert round(outcome.test_accuracy, 6) == metrics["test_accuracy"]
    assert outcome.epochs == metrics["epochs"]


def test_the_recipe_keeps_its_sparsifier_settings_unless_the_comparison_sets_them():
    assert config_for("cora", "public", SparsifierConfig(name="gaug"), 0).sparsifier.score == "dot"
    assert config_for("cora", "public", SparsifierConfig(alpha=0.4), 0).sparsifier.alpha == 0.4
    assert config_for("cora", "public", SparsifierConfig(name="none"), 3).train.seed == 3
