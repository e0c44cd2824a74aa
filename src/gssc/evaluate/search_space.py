"""The search space of hyperparameter tuning: settings of a run, each with choices or a range."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gssc.config import RunConfig, parse_config
from gssc.errors import GsscError
from gssc.names import nearest
from gssc.settings import Settings

RANGE = re.compile(r"(?P<low>[^.,]*(?:\.\d+)?[^.,]*)\.\.(?P<high>[^,:]+)(?P<log>:log)?")
# Not searched: the data, the seed (luck is not a setting), and the method, which gssc bench compares.
NOT_SEARCHED = ("data", "train.seed", "train.threads", "model.name", "sparsifier.name")


@dataclass(frozen=True)
class Dimension:
    """One setting with its candidates: ``choices``, or all numbers from ``low`` to ``high``.

    Args:
        setting: such as ``train.lr``.
        choices: values to choose from; none for a range.
        low, high: ends of a range, both included.
        log: draw the logarithm uniformly.
        whole: only whole numbers.
    """

    setting: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    def suggest(self, trial: Any) -> Any:
        """Return the value an Optuna trial proposes."""
        if self.choices:
            return trial.suggest_categorical(self.setting, self.choices)
        if self.whole:
            return trial.suggest_int(self.setting, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.setting, self.low, self.high, log=self.log)


def parse_dimension(text: str, base: RunConfig) -> Dimension:
    """Return the dimension that ``SETTING=CANDIDATES`` describes; every end and choice is checked with ``base``.

    Candidates are ``64,128,256`` or a range, ``0.1..0.7`` or ``1e-4..1e-1:log``.

    >>> parse_dimension("train.lr=1e-4..0.1:log", parse_config({"model": {"name": "gcn"}}))
    Dimension(setting='train.lr', choices=(), low=0.0001, high=0.1, log=True, whole=False)
    >>> parse_dimension("model.hidden=64,128", parse_config()).choices
    (64, 128)
    """
    setting, _, candidates = (part.strip() for part in text.partition("="))
    current = _current(setting, base)
    if not candidates:
        raise GsscError(f"--search {text}: write SETTING=CANDIDATES, such as {setting}=1,2 or {setting}=1..10:log")
    if found := RANGE.fullmatch(candidates):
        dimension = _range(text, setting, found, whole=isinstance(current, int))
        ends: tuple[Any, ...] = (dimension.low, dimension.high)
    else:
        ends = tuple(_value(choice, current) for choice in candidates.split(","))
        dimension = Dimension(setting, choices=ends)
    for value in ends:
        with_settings(base, {setting: int(value) if dimension.whole else value})
    return dimension


def _current(setting: str, base: RunConfig) -> Any:
    """Return the current value of a setting. Raises GsscError if there is none, or if it must not be searched."""
    section, _, name = setting.partition(".")
    settings = base.to_dict()
    if section in NOT_SEARCHED or setting in NOT_SEARCHED:
        raise GsscError(f"{setting} cannot be searched: it is not a setting of the method")
    if name not in settings.get(section, {}):
        known = [f"{each}.{name}" for each, values in settings.items() for name in values if each not in NOT_SEARCHED]
        raise GsscError(f"there is no setting {setting!r} to search; {nearest(setting, known)}")
    return settings[section][name]


def _range(text: str, setting: str, found: re.Match[str], whole: bool) -> Dimension:
    try:
        low, high = float(found["low"]), float(found["high"])
    except ValueError:
        raise GsscError(f"--search {text}: the ends of a range must be numbers") from None
    log = found["log"] is not None
    if not low < high or (log and low <= 0):
        raise GsscError(f"--search {text}: a range goes from a smaller to a larger number, and :log from above 0")
    if whole and not (low.is_integer() and high.is_integer()):
        raise GsscError(f"--search {text}: {setting} takes whole numbers")
    return Dimension(setting, low=low, high=high, log=log, whole=whole)


def _value(choice: str, current: Any) -> Any:
    """Return a choice as YAML reads it, except that 1e-3, which YAML takes for text, becomes a number."""
    value = yaml.safe_load(choice)
    if isinstance(current, float) and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError):
            return value
    return value


def with_settings(base: RunConfig, chosen: Settings) -> RunConfig:
    """Return the settings of ``base`` with some replaced, given by full name: ``{"train.lr": 0.01}``."""
    layers = []
    for setting, value in chosen.items():
        section, _, name = setting.partition(".")
        layers.append({section: {name: value}})
    return parse_config(base.to_dict(), *layers)


def default_space(base: RunConfig) -> Sequence[str]:
    """Return the dimensions searched by default: teachers of GSSC's learner, or those of the paper's authors."""
    usual = {
        "model.hidden": "256,512,1024",
        "teachers.best": "3,5,8",
        "teachers.rounds": "2,3,4",
        "train.batch_size": "512,1024,4096",
        "sparsifier.alpha": "0.1,0.3,0.5",
        "sparsifier.temperature": "0.1,0.5,0.8,1.0",
    }
    settings = base.to_dict()
    return [f"{name}={choices}" for name, choices in usual.items() if _has(settings, name)]


def _has(settings: Settings, setting: str) -> bool:
    section, _, name = setting.partition(".")
    return name in settings.get(section, {})
