"""All settings of a run: one definition for Python, YAML files and the command line.

Each section is defined with what it configures: models and sparsifiers have their own, found through their registries;
the schedule is in :mod:`gssc.schedule`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from gssc.errors import GsscError
from gssc.schedule import ConsolidateSettings, ObjectiveSettings, ScheduleSettings, TeacherSettings, TrainSettings
from gssc.settings import Settings, check_section, parse_section, refuse_unknown, setting

if TYPE_CHECKING:
    from typing import Self

    from gssc.models.settings import STRContrastSettings

PAIR_MODEL = "str_contrast"  # trained by Algorithm 1 on pairs
DEFAULT_MODEL = "gssc"  # when none is named


@dataclass
class DataSettings:
    """The graph of a run, its split and its learning setting.

    Args:
        dataset: name of a dataset, see ``gssc data list``.
        graph: path of your own graph, an ``.npz`` of ``gssc data import`` or a folder of ``gssc data build``.
        split: how nodes are divided, such as ``public``, ``fixed-0``, ``per-class:20``, ``ratio:60/20/20``; the
            dataset's own default if left out.
        split_seed: seed of splits that are drawn, and of generated datasets.
        setting: what training sees. ``transductive``: every feature and edge; ``inductive``: no test nodes;
            ``cold-start``: no test nodes, and they have no edges later either. Left out: what the graph file has,
            transductive for datasets.
        require_all_classes: refuse a graph in which some class has no training label.
    """

    dataset: str | None = None
    graph: str | None = None
    split: str | None = None
    split_seed: int = setting(0, low=0, high=2**63 - 1)
    setting: Literal["transductive", "inductive", "cold-start"] | None = None
    require_all_classes: bool = False


def _settings_of_model(name: str) -> Any:
    from gssc.models.registry import model_settings

    return model_settings(name)


def _settings_of_sparsifier(name: str) -> Any:
    from gssc.sparsify.registry import sparsifier_settings

    return sparsifier_settings(name)


@dataclass
class RunConfig:
    """All settings of one run of any model. Each training has a subclass with the sections it needs.

    The classes of ``model`` and ``sparsifier`` depend on their names.
    """

    data: DataSettings = field(default_factory=DataSettings)
    model: Any = None
    sparsifier: Any = field(default_factory=lambda: _settings_of_sparsifier("none")())
    train: Any = field(default_factory=ScheduleSettings)

    def check(self) -> None:
        """Raise GsscError, with the name of the setting, for unknown settings and invalid values."""
        refuse_unknown("", vars(self), [section.name for section in fields(self)])
        for section, kind in sections(type(self), self._name("model"), self._name("sparsifier")).items():
            check_section(section, kind, getattr(self, section))

    def _name(self, section: str) -> str:
        name = getattr(getattr(self, section), "name", None)
        return name if isinstance(name, str) else {"model": PAIR_MODEL, "sparsifier": "none"}[section]

    @property
    def total_epochs(self) -> int:
        """The number of epochs of all phases, if none ends early."""
        return int(self.train.epochs)

    def shortened(self, epochs: int) -> Self:
        """Return these settings with at most this many epochs in each phase; 0 leaves them unchanged."""
        return replace(self, train=replace(self.train, epochs=min(self.train.epochs, epochs))) if epochs else self

    def plain(self) -> Self:
        """Return these settings with Python's numbers in place of NumPy's, as they are read from a file."""
        parts = {section.name: getattr(self, section.name) for section in fields(self)}
        return replace(self, **{name: replace(part, **_plain(vars(part))) for name, part in parts.items()})

    def to_dict(self) -> Settings:
        """Return the settings as nested plain values, for YAML and JSON."""
        return {section: _plain(values) for section, values in asdict(self).items()}


@dataclass
class ContrastConfig(RunConfig):
    """All settings of one run of pair training, the model ``str_contrast``.

    Example:
        >>> config = ContrastConfig()
        >>> config.train.seed = 3
        >>> parse_config(config.to_dict()) == config
        True
    """

    model: STRContrastSettings = field(default_factory=lambda: _settings_of_model(PAIR_MODEL)())
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    sparsifier: Any = field(default_factory=lambda: _settings_of_sparsifier("str_sparse")())
    train: TrainSettings = field(default_factory=TrainSettings)
    consolidate: ConsolidateSettings = field(default_factory=ConsolidateSettings)

    def check(self) -> None:
        """Raise GsscError, with the name of the setting, for unknown settings and invalid values."""
        super().check()
        if self.train.epochs + self.train.warmup_epochs == 0:
            raise GsscError("train.epochs and train.warmup_epochs are both 0: nothing would be trained")

    @property
    def total_epochs(self) -> int:
        """The number of epochs of all phases, if none ends early."""
        return self.train.warmup_epochs + self.train.epochs + self.consolidate.epochs

    def shortened(self, epochs: int) -> Self:
        """Return these settings with at most this many epochs in each phase; 0 leaves them unchanged."""
        if not epochs:
            return self
        warmup, alternate = min(self.train.warmup_epochs, epochs), min(self.train.epochs, epochs)
        train = replace(self.train, warmup_epochs=warmup, epochs=alternate)
        consolidate = replace(self.consolidate, epochs=min(self.consolidate.epochs, epochs))
        return replace(self, train=train, consolidate=consolidate)


@dataclass
class RivalConfig(RunConfig):
    """All settings of one run of a baseline: a model that GSSC is compared with."""

    train: ScheduleSettings = field(default_factory=ScheduleSettings)


@dataclass
class DistillConfig(RivalConfig):
    """All settings of one run of a model that learns from a teacher."""

    teacher: TeacherSettings = field(default_factory=TeacherSettings)

    def shortened(self, epochs: int) -> Self:
        """Return these settings with at most this many epochs for teacher and student; 0 leaves them unchanged."""
        limited = super().shortened(epochs)
        if not epochs:
            return limited
        max_epochs = min(self.teacher.max_epochs or epochs, epochs)  # 0 is the number in the teacher's paper
        return replace(limited, teacher=replace(self.teacher, max_epochs=max_epochs))


def _plain(value: Any) -> Any:
    """Return a value with NumPy's numbers, which YAML and JSON cannot hold, replaced by Python's."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value.item() if hasattr(value, "item") else value


def config_class(model: str) -> type[RunConfig]:
    """Return the class of settings of a model's training."""
    from gssc.models.registry import model_entry

    module, _, name = model_entry(model).config.partition(":")
    found: type[RunConfig] = getattr(import_module(module), name)
    return found


def sections(kind: type[RunConfig], model: str, sparsifier: str | None = None) -> dict[str, Any]:
    """Return the class of each section, for a model and a sparsifier (the default one if left out)."""
    defaults = kind()
    named = {"model": _settings_of_model(model)}
    if sparsifier is not None:
        named["sparsifier"] = _settings_of_sparsifier(sparsifier)
    return {section.name: named.get(section.name, type(getattr(defaults, section.name))) for section in fields(kind)}


def parse_config(*layers: Settings) -> RunConfig:
    """Build the settings of a run from nested values; later layers win, unknown names and wrong types are refused.

    ``model.name`` decides which sections there are, and with ``sparsifier.name`` which settings these two have.

    >>> parse_config({"model": {"hidden": 64}}, {"model": {"layers": 3}}).model.hidden
    64
    """
    merged = merged_settings(*layers)
    model = merged.get("model", {}).get("name", DEFAULT_MODEL)
    kind = config_class(model)
    known = sections(kind, model, merged.get("sparsifier", {}).get("name"))
    refuse_unknown("", merged, known)
    _check_device(model, merged.get("train", {}), known["train"])
    parsed, defaults = {}, kind()
    for name, section in known.items():
        default = getattr(defaults, name)
        parsed[name] = parse_section(name, default if type(default) is section else section(), merged.get(name, {}))
    config = kind(**parsed)
    config.check()
    return config


def _check_device(model: str, train: Settings, section: Any) -> None:
    """Raise GsscError for a device other than ``cpu`` if the model has no such setting; a ``cpu`` is removed."""
    if "device" in train and "device" not in section.__dataclass_fields__ and train.pop("device") != "cpu":
        raise GsscError(f"{model} is trained on a CPU only: leave --device out, or use --model {PAIR_MODEL}")


def merged_settings(*layers: Settings) -> Settings:
    """Merge layers of nested settings into one; later layers win."""
    merged: Settings = {}
    for layer in layers:
        for name, values in layer.items():
            if not isinstance(values, dict):
                raise GsscError(f"settings section {name!r} must hold named values, not {values!r}")
            merged.setdefault(name, {}).update(values)
    return merged
