"""Registry of noise kinds, the parser of their names, and `add_noise`, which applies them to a graph.

    >>> str(parse_noise("0.4")), str(parse_noise("dice:0.1", on="structure")), str(parse_noise("none"))
    ('symmetric:0.4', 'dice:0.1', 'none')

A new kind is one function and one line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gssc.data import noise_features, noise_labels, noise_structure
from gssc.data.splits import generator
from gssc.errors import GsscError
from gssc.names import nearest

if TYPE_CHECKING:
    from gssc.data.noise_features import FeatureNoise
    from gssc.data.noise_labels import LabelNoise
    from gssc.data.noise_structure import StructureNoise
    from gssc.graph import Graph

__all__ = ["DEFAULT_KINDS", "NOISE", "NoiseEntry", "NoiseSpec", "add_noise", "parse_noise"]

_STREAM = 0x6E6F6973  # separates these draws from those of splits and training with the same seed


class NoiseEntry(NamedTuple):
    """The function that makes a kind of noise, a one-line summary, and its source."""

    make: Callable[[Graph, float, np.random.Generator], LabelNoise | StructureNoise | FeatureNoise]
    summary: str
    paper: str


NOISE: dict[str, dict[str, NoiseEntry]] = {
    "label": {
        "symmetric": NoiseEntry(
            noise_labels.symmetric, "a training label moves to any other class", "GSSC, Sec. IV-C; Tan et al. 2021"
        ),
        "asymmetric": NoiseEntry(
            noise_labels.asymmetric, "training label i moves to (i + 1) mod C", "GSSC, Sec. IV-C; Tan et al. 2021"
        ),
        "uniform": NoiseEntry(
            noise_labels.uniform, "a training label is redrawn from all classes, including its own", "-"
        ),
        "instance": NoiseEntry(
            noise_labels.instance,
            "the new class of a training label depends on its feature row",
            "Xia et al. 2020, arXiv:2006.07836",
        ),
    },
    "structure": {
        "random": NoiseEntry(noise_structure.random, "a share of the edges replaced by non-edges", "GSSC, Sec. IV-C"),
        "add": NoiseEntry(noise_structure.add, "non-edges added", "-"),
        "remove": NoiseEntry(noise_structure.remove, "edges removed", "-"),
        "dice": NoiseEntry(
            noise_structure.dice,
            "edges removed within classes, added between them, half each",
            "Waniek et al. 2018, arXiv:1608.00375",
        ),
        "as-distributed": NoiseEntry(
            noise_structure.as_distributed,
            "edges removed and added in the shares of the noisy files released with GSSC",
            "GSSC, released files",
        ),
    },
    "features": {
        "mask": NoiseEntry(noise_features.mask, "values set to zero", "-"),
        "gaussian": NoiseEntry(noise_features.gaussian, "normal noise on values (sparse: on stored ones)", "-"),
    },
}
DEFAULT_KINDS = {"label": "symmetric", "structure": "random", "features": "mask"}
_FIELDS = {"label": ("labels",), "structure": ("edges", "edge_weight"), "features": ("features",)}  # fields of Graph


@dataclass(frozen=True)
class NoiseSpec:
    """A kind of noise and its rate, from 0 to 1; kind "none" adds none. `parse_noise(str(spec))` equals `spec`."""

    kind: str = "none"
    rate: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise GsscError(f"noise rate {self.rate} of {self.kind} is out of range: give a number from 0 to 1")
        if self.kind == "none" and self.rate:
            raise GsscError(f"noise 'none' has no rate, but {self.rate} was given: name a kind or leave out the rate")
        known = [kind for kinds in NOISE.values() for kind in kinds]
        if self.kind not in ("none", *known):
            raise GsscError(f"unknown noise {self.kind!r}; {nearest(self.kind, known)}")

    def __str__(self) -> str:
        return "none" if self.kind == "none" else f"{self.kind}:{self.rate}"


def parse_noise(text: str | float | NoiseSpec, on: str = "label") -> NoiseSpec:
    """Return the noise that a text such as "symmetric:0.4", "0.2" (a rate alone) or "none" describes.

    Args:
        text: the text. A rate alone is symmetric label noise, random structure noise or a mask on features.
        on: what the noise applies to: "label", "structure" or "features".
    """
    if on not in NOISE:
        raise GsscError(f"unknown target of noise {on!r}; {nearest(on, NOISE)}")
    spec = text if isinstance(text, NoiseSpec) else _read(str(text).strip(), on)
    if spec.kind == "none" or spec.kind in NOISE[on]:
        return spec
    family = next(name for name, kinds in NOISE.items() if spec.kind in kinds)
    raise GsscError(f"{spec.kind} is noise on {family}, not on {on}: use one of {', '.join(NOISE[on])} there")


def _read(text: str, on: str) -> NoiseSpec:
    if text == "none":
        return NoiseSpec()
    kind, colon, rate = text.rpartition(":")
    if not colon and text in NOISE[on]:
        raise GsscError(f"noise {text!r} has no rate: write {text}:0.2")
    try:
        number = float(rate) + 0.0  # "-0" is 0
    except ValueError:
        if not colon:
            raise GsscError(
                f"noise {text!r} is not understood; write a rate such as 0.2, a kind and a rate such as "
                f"{DEFAULT_KINDS[on]}:0.2, or none; {nearest(text, NOISE[on])}"
            ) from None
        raise GsscError(f"noise rate {rate!r} in {text!r} is not a number: write {kind}:0.2") from None
    return NoiseSpec(kind if colon else DEFAULT_KINDS[on], number)


def add_noise(
    graph: Graph,
    *,
    label: str | float | NoiseSpec = "none",
    structure: str | float | NoiseSpec = "none",
    features: str | float | NoiseSpec = "none",
    seed: int = 0,
) -> tuple[Graph, dict[str, Any]]:
    """Return the graph with noise added, and a JSON-ready report of the changes.

    Each of the three draws from its own random stream and is made from the clean graph, so that adding one does not
    change the others. The number of classes, the split and the setting stay the same.

    Args:
        graph: the clean graph; it is not modified.
        label, structure, features: specifications as `parse_noise` reads them.
        seed: the same seed gives the same noise.

    Returns:
        The noisy graph and, for each of the three that was requested, its kind, rate, realised rate and counts.
    """
    generator(seed)  # raises on an invalid seed
    changes: dict[str, Any] = {}
    report: dict[str, Any] = {}
    for stream, (on, text) in enumerate({"label": label, "structure": structure, "features": features}.items()):
        spec = parse_noise(text, on)
        if spec.kind == "none":
            continue
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM, stream)))
        made = NOISE[on][spec.kind].make(graph, spec.rate, rng)
        changes |= {field: getattr(made.graph, field) for field in _FIELDS[on]}
        report[on] = {
            "kind": spec.kind,
            "rate": spec.rate,
            "realised_rate": made.realised_rate,
            "seed": int(seed),
            **made.counts(),
        }
    return (graph.with_(**changes) if changes else graph), report
