from __future__ import annotations

from gssc.config import Config
from gssc.data import load_dataset
from gssc.recipes import recipe
from gssc.run import Run
from gssc.train.contrast import config_for, fit_model


def test_a_comparison_trains_what_gssc_train_does(tmp_path):
    config = recipe("digits")
    config.train.warmup_epochs = config.train.epochs = config.consolidate.epochs = 2
    config.train.seed = 4
    metrics = Run(tmp_path / "run", config).train()
    outcome = fit_model("str_contrast", load_dataset("digits"), {}, seed=4, max_epochs=2)
    assert round(outcome.val_accuracy, 6) == metrics["val_accuracy"]
    assert round(outcome.test_accuracy, 6) == metrics["test_accuracy"]
    assert outcome.epochs == metrics["epochs"]


def test_only_what_was_typed_takes_the_place_of_the_recipe():
    default = Config().sparsifier.score
    assert config_for("cora", "public", {"name": "gaug"}, 0).sparsifier.score == "dot" != default
    assert config_for("cora", "public", {"score": default}, 0).sparsifier.score == default
    assert config_for("cora", "public", {"alpha": 0.4}, 0).sparsifier.alpha == 0.4
    assert config_for("cora", "public", {"name": "none"}, 3).train.seed == 3
