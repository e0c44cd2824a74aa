from __future__ import annotations

import pytest

from gssc.config import parse_config
from gssc.errors import GsscError
from gssc.evaluate.search_space import Dimension, default_space, parse_dimension, with_settings

BASE = parse_config({"model": {"name": "str_contrast"}})


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("train.lr=1e-4..1e-1:log", Dimension("train.lr", low=1e-4, high=0.1, log=True)),
        ("model.dropout=0.1..0.7", Dimension("model.dropout", low=0.1, high=0.7)),
        ("model.hidden=16..64", Dimension("model.hidden", low=16, high=64, whole=True)),
        ("train.lr=1e-3,0.01,1", Dimension("train.lr", choices=(0.001, 0.01, 1.0))),
        ("objective.negatives=degree,none", Dimension("objective.negatives", choices=("degree", "none"))),
    ],
)
def test_any_setting_with_choices_or_a_range(text, dimension):
    assert parse_dimension(text, BASE) == dimension


def test_a_setting_that_is_true_or_false() -> None:
    assert parse_dimension("teachers.trees=true,false", parse_config()).choices == (True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.hiden=1,2", "did you mean 'model.hidden'"),
        ("data.dataset=cora,citeseer", "cannot be searched"),
        ("train.seed=1,2", "cannot be searched"),
        ("model.hidden", "write SETTING=CANDIDATES"),
        ("model.hidden=0.5..2", "takes whole numbers"),
        ("model.dropout=0.7..0.1", "from a smaller to a larger"),
        ("train.lr=0..1:log", ":log from above 0"),
        ("model.dropout=0.1..7", "model.dropout is 7"),
        ("model.dropout=a..b", "must be numbers"),
        ("objective.negatives=degre", "did you mean 'degree'"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_runs(text, message):
    with pytest.raises(GsscError, match=message):
        parse_dimension(text, BASE)


def test_settings_by_their_full_name():
    config = with_settings(BASE, {"train.lr": 0.5, "train.epochs": 3, "model.hidden": 7})
    assert (config.train.lr, config.train.epochs, config.model.hidden) == (0.5, 3, 7)
    assert BASE.train.lr != 0.5


@pytest.mark.parametrize("model", ["gssc", "str_contrast", "gcn"])
def test_the_space_that_is_searched_unless_one_is_named(model):
    base = parse_config({"model": {"name": model}})
    assert [parse_dimension(text, base) for text in default_space(base)]
