"""Every setting of a run, defined once: these dataclasses are the Python API, the YAML files and the command line."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml

from gssc.config_checks import check_section, choices_of, no_choice, refuse_unknown
from gssc.errors import GsscError
from gssc.files import read_bytes

Settings = dict[str, Any]


@dataclass
class DataConfig:
    """Which graph, which split, which setting.

    Args:
        dataset: name of a data set, see ``gssc data list``.
        graph: path of your own graph, an ``.npz`` as ``gssc data import`` writes it.
        split: how nodes are divided, such as ``public``, ``fixed-0``, ``per-class:20``, ``ratio:60/20/20``; the
            data set's own default if left out.
        split_seed: seed of splits that are drawn, and of generated data sets.
        setting: what training sees. ``transductive``: every feature and edge; ``inductive``: no test nodes;
            ``cold-start``: no test nodes, and they have no edges later either. Left out: what the graph file says,
            transductive for data sets.
        require_all_classes: refuse a graph in which some class has no training label.
    """

    dataset: str | None = None
    graph: str | None = None
    split: str | None = None
    split_seed: int = 0
    setting: Literal["transductive", "inductive", "cold-start"] | None = None
    require_all_classes: bool = False


@dataclass
class ModelConfig:
    """STR-Contrast, the MLP that is trained and later deployed (Sec. III-C of the paper).

    Args:
        hidden: width F of every hidden layer.
        layers: number of hidden layers L; the deployed model is L + 1 matrix products.
        dropout: share of hidden units dropped in training, in steps of 1/256.
        activation: ``leaky_relu`` (released program) or ``relu`` (text).
        block: ``norm_first`` is batch norm, activation, dropout (released program);
            ``activation_first`` is activation, batch norm, dropout (text).
        head_blocks: ``separate`` gives each of the two heads a last block of its own (released program),
            ``shared`` one block before two linear heads (text).
        norm_over: batch norm over each ``role`` of rows on its own (endpoints, mixed points, negatives), or over
            the whole ``batch`` at once.
        mix_at: where an edge's two ends are mixed (Eq. 8): ``first`` pre-activation (released program) or
            ``last`` hidden layer (text).
        mix_by: what gives beta: ``own_net`` (released program: linear, batch norm, vector), ``vector`` (text: one
            shared vector on the mixed layer, both directions of an edge on their own), ``random`` (uniform), ``off``
            (beta = 1, the ablation). The released program's net gives both directions of an edge the same beta.
        mix_hidden: width of that net; 256 in the released program.
        mix_floor: s in beta' = s + (1 - s) beta: how near the mixed point stays to the neighbour.
    """

    hidden: int = 256
    layers: int = 2
    dropout: float = 0.5
    activation: Literal["leaky_relu", "relu"] = "leaky_relu"
    block: Literal["norm_first", "activation_first"] = "norm_first"
    head_blocks: Literal["separate", "shared"] = "separate"
    norm_over: Literal["role", "batch"] = "role"
    mix_at: Literal["first", "last"] = "first"
    mix_by: Literal["own_net", "vector", "random", "off"] = "own_net"
    mix_hidden: int = 64
    mix_floor: float = 0.8


@dataclass
class ObjectiveConfig:
    """The classifier's loss, Eq. 9 to 13.

    Args:
        smoothness_weight: weight of the smoothness loss beside the classification loss; 1 in the paper. Less of it
            suits graphs whose edges mostly join different classes.
        negatives: ``in_batch`` (endpoints of other edges of the batch: the text's degree-proportional
            distribution, at no extra pass), ``degree`` (the same distribution, drawn afresh), ``uniform``
            (released program), ``none`` (the ablation).
        negative_weight: weight of the negative term.
        bounded: compare class probabilities in the negative term, which bounds it; raw logits (Eq. 11 as written)
            let the loss run to minus infinity.
        class_weights: ``endpoints`` weighs a class by labelled nodes / labelled edge endpoints; ``none`` is plain.
        center_weight: weight of the extra step per epoch that pulls, per class, the mean logits of labelled nodes
            and of nodes predicted as that class together; 0 leaves the step out (text).
        center_nodes: at most this many nodes take part in that step, so that it never needs the whole graph.
    """

    smoothness_weight: float = 1.0
    negatives: Literal["in_batch", "degree", "uniform", "none"] = "in_batch"
    negative_weight: float = 1.0
    bounded: bool = True
    class_weights: Literal["endpoints", "none"] = "endpoints"
    center_weight: float = 1.0
    center_nodes: int = 4096


@dataclass
class SparsifierConfig:
    """The sparsifier, which decides the edges to train on (STR-Sparse: Sec. III-B), or one it is compared with.

    Args:
        name: ``str_sparse``, ``none`` (every edge, always; the ablation), or one of those it is compared with:
            ``drop_edge``, ``spectral``, ``rank_degree``, ``ss_rd``, ``lds``, ``neural_sparse``, ``gaug``.
        hidden: width of the scoring space (``gaug``: twice the width of its encoder).
        maps: linear maps from features to scores: 1 (text) or 2 in a row (released program); ``str_sparse`` only.
        score: ``dot`` scores an edge by z_i . z_j (Eq. 5), ``mean`` by the same over the width, which keeps the sigmoid
            from saturating on dense features; ``str_sparse`` only.
        alpha: share of the observed edge in M = (1 - alpha) lambda + alpha A; ``str_sparse`` only.
        temperature: tau of the relaxed sample (``str_sparse``, ``neural_sparse``, ``gaug``).
        noise: ``logistic`` keeps an edge with probability M (released program); ``gumbel`` adds one Gumbel
            variate to log M and cuts at 1/2, as Eq. 6 is written; ``str_sparse`` only.
        keep: share of edges that ``drop_edge``, ``spectral``, ``rank_degree`` and ``ss_rd`` keep.
        neighbours: k, how many picks a node has in ``neural_sparse``.
        proposals: new edges that ``gaug`` proposes, as a share of those given.
        predicted: share of the edge predictor in ``gaug``'s mix with the observed edge, the alpha of its paper.
        predictor_weight: weight of the edge predictor's own loss in ``gaug``, the beta of its paper.
        objective: ``ratio`` (released program: mean weight of disagreeing over agreeing kept edges), ``share``
            (Eq. 16), ``masked_smoothness`` (Eq. 14, the counter-example that empties the graph).
        pretrain_epochs: steps before anything else, which teach ``str_sparse`` to keep every edge and ``gaug`` to tell
            edges from pairs that are none.
        lr: its learning rate.
        weight_decay: its weight decay.
    """

    name: Literal[
        "str_sparse", "none", "drop_edge", "spectral", "rank_degree", "ss_rd", "lds", "neural_sparse", "gaug"
    ] = "str_sparse"
    hidden: int = 256
    maps: Literal[1, 2] = 2
    score: Literal["dot", "mean"] = "mean"
    alpha: float = 0.1
    temperature: float = 0.5
    noise: Literal["logistic", "gumbel"] = "logistic"
    keep: float = 0.8
    neighbours: int = 5
    proposals: float = 0.5
    predicted: float = 0.8
    predictor_weight: float = 1.0
    objective: Literal["ratio", "share", "masked_smoothness"] = "ratio"
    pretrain_epochs: int = 100
    lr: float = 0.01
    weight_decay: float = 5e-4


@dataclass
class ConsolidateConfig:
    """The last phase: cheap epochs towards what recent epochs and the neighbourhood agree on.

    Args:
        epochs: epochs over single nodes, no pairs, with the learning rate falling to a hundredth; 0 leaves the phase
            out, and then the best epoch by validation is kept (text, released program). With it, its last epoch is.
        decay: of the running mean of predictions, per epoch.
        steps: rounds of averaging that mean over neighbours, in proportion to agreement.
    """

    epochs: int = 60
    decay: float = 0.97
    steps: int = 2


@dataclass
class TrainConfig:
    """The schedule of Algorithm 1.

    Args:
        epochs: epochs of alternating updates after the warm-up.
        warmup_epochs: epochs on the full graph before the sparsifier takes part.
        batch_size: edges a batch; both directions of an undirected edge are pairs of their own.
        max_batches: at most this many batches an epoch (0: all of them), for graphs with many edges.
        lr: learning rate of the classifier.
        mix_lr: learning rate of what gives beta; slow by default, so that beta stays near the middle of its range.
        weight_decay: L2 penalty of the classifier.
        schedule: ``constant``, or ``cosine`` down to a hundredth over all epochs.
        average: decay of the running average of the weights, per step, that predicts and is deployed; 0 uses the
            weights as they are.
        patience: epochs without a better validation result before stopping; counted in the warm-up and afterwards
            separately.
        select: the best epoch by validation ``accuracy`` (ties: lower loss) or ``loss``.
        normalize: ``row`` divides each feature row by the sum of its absolute values, in training and in the
            deployed model.
        seed: every random choice follows from it.
        threads: threads of the matrix products; part of what determines the exact result.
    """

    epochs: int = 50
    warmup_epochs: int = 60
    batch_size: int = 512
    max_batches: int = 0
    lr: float = 0.01
    mix_lr: float = 1e-4
    weight_decay: float = 5e-4
    schedule: Literal["constant", "cosine"] = "constant"
    average: float = 0.0
    patience: int = 50
    select: Literal["accuracy", "loss"] = "accuracy"
    normalize: Literal["row", "none"] = "row"
    seed: int = 0
    threads: int = 1


@dataclass
class Config:
    """All settings of one run.

    Example:
        >>> config = Config()
        >>> config.train.seed = 3
        >>> parse_config(config.to_dict()) == config
        True
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    sparsifier: SparsifierConfig = field(default_factory=SparsifierConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    consolidate: ConsolidateConfig = field(default_factory=ConsolidateConfig)

    def check(self) -> None:
        """Refuse names and values that cannot work, by name."""
        refuse_unknown("", vars(self), SECTIONS)
        for section, kind in SECTIONS.items():
            check_section(section, kind, getattr(self, section))
        for place, (low, high) in RANGES.items():
            section, name = place.split(".")
            value = getattr(getattr(self, section), name)
            if not low <= value <= high:  # NaN fails too
                limit = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high}"
                raise GsscError(f"{place} is {value}; it must be {limit}")
        if self.train.epochs + self.train.warmup_epochs == 0:
            raise GsscError("train.epochs and train.warmup_epochs are both 0: nothing would be trained")

    @property
    def total_epochs(self) -> int:
        """Epochs of all phases, if none ends early."""
        return self.train.warmup_epochs + self.train.epochs + self.consolidate.epochs

    def to_dict(self) -> Settings:
        """As nested plain values, for YAML and JSON."""
        return {section: _plain(settings) for section, settings in asdict(self).items()}


def _plain(value: Any) -> Any:
    """NumPy's numbers, which can be written nowhere, as Python's."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value.item() if hasattr(value, "item") else value


# The least and the greatest value of every number in a Config.
RANGES = {
    "data.split_seed": (0, 2**63 - 1),
    "model.hidden": (1, 2**20),
    "model.layers": (1, 1000),
    "model.dropout": (0, 0.99),
    "model.mix_hidden": (1, 2**20),
    "model.mix_floor": (0, 1),
    "objective.smoothness_weight": (0, math.inf),
    "objective.negative_weight": (0, math.inf),
    "objective.center_weight": (0, math.inf),
    "objective.center_nodes": (2, math.inf),
    "sparsifier.hidden": (1, 2**20),
    "sparsifier.alpha": (0, 1),
    "sparsifier.temperature": (1e-3, math.inf),
    "sparsifier.keep": (0.01, 1),
    "sparsifier.neighbours": (1, math.inf),
    "sparsifier.proposals": (0, math.inf),
    "sparsifier.predicted": (0, 1),
    "sparsifier.predictor_weight": (0, math.inf),
    "sparsifier.pretrain_epochs": (0, math.inf),
    "sparsifier.lr": (0, math.inf),
    "sparsifier.weight_decay": (0, math.inf),
    "consolidate.epochs": (0, math.inf),
    "consolidate.decay": (0, 0.9999),
    "consolidate.steps": (0, math.inf),
    "train.epochs": (0, math.inf),
    "train.warmup_epochs": (0, math.inf),
    "train.batch_size": (1, math.inf),
    "train.max_batches": (0, math.inf),
    "train.lr": (0, math.inf),
    "train.mix_lr": (0, math.inf),
    "train.weight_decay": (0, math.inf),
    "train.average": (0, 0.99999),
    "train.patience": (1, math.inf),
    "train.seed": (0, 2**63 - 1),
    "train.threads": (1, 1024),
}

LONGEST_SETTINGS = 100_000  # bytes; PyYAML needs a minute for a few megabytes

SECTIONS: dict[str, Any] = {section.name: section.default_factory for section in fields(Config)}


def parse_config(*layers: Settings) -> Config:
    """Build a Config from nested settings; later layers win, unknown names and wrong types are refused.

    >>> parse_config({"model": {"hidden": 64}}, {"model": {"layers": 3}}).model.hidden
    64
    """
    merged: Settings = {name: {} for name in SECTIONS}
    for layer in layers:
        refuse_unknown("", layer, SECTIONS)
        for name, values in layer.items():
            if not isinstance(values, dict):
                raise GsscError(f"settings section {name!r} must hold named values, not {values!r}")
            merged[name].update(values)
    config = Config(**{name: _parse_section(name, values) for name, values in merged.items()})
    config.check()
    return config


def _parse_section(name: str, values: Settings) -> Any:
    from jsonargparse import ArgumentError, ArgumentParser

    section = SECTIONS[name]
    refuse_unknown(f"{name}.", values, section.__dataclass_fields__)
    for key, value in values.items():
        choices = choices_of(section, key)
        if choices and value is not None and value not in choices:
            raise no_choice(f"{name}.{key}", value, choices)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument(f"--{name}", type=section)
    try:
        parsed = parser.parse_object({name: values})
    except ArgumentError as error:
        raise GsscError(f"wrong value in settings section {name!r}: {' '.join(str(error).split())}") from None
    return section(**parsed[name].as_dict())


def read_settings(path: str | Path) -> Settings:
    """Settings from a YAML file, such as the config.yaml of a run."""
    try:
        text = read_bytes(path, most=LONGEST_SETTINGS).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise GsscError(f"cannot read settings from {path}: {error}") from None
    return parse_yaml(text, str(path))


class _SettingsLoader(yaml.SafeLoader):
    """YAML without what settings never need and a hostile file misuses: references, and numbers of any length."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse references, with which a few lines stand for gigabytes."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"references such as *{event.anchor} are not allowed", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> int:
        """Refuse whole numbers of more than 64 bits, which cannot be a setting and may be too long to print."""
        value = super().construct_yaml_int(node) if len(node.value) < 100 else 2**64
        if abs(value) >= 2**64:
            raise yaml.constructor.ConstructorError(None, None, "a number is too long", node.start_mark)
        return value


_SettingsLoader.add_constructor("tag:yaml.org,2002:int", _SettingsLoader.construct_yaml_int)


def parse_yaml(text: str, where: str) -> Settings:
    """Parse YAML that must be a mapping."""
    try:
        content = yaml.load(text, _SettingsLoader)
    except RecursionError:
        raise GsscError(f"{where} is not valid YAML: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise GsscError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise GsscError(f"{where} holds no settings: it must be YAML with sections such as model: and train:")
    return content
